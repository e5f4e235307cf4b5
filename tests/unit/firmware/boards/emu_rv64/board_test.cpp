// The HAL on registers in plain memory: which word goes where, what comes back, what a busy unit and a failure look
// like.
#include "firmware/boards/emu_rv64/board.hpp"

#include <gmock/gmock.h>
#include <jal/abi/status.h>

#include <array>
#include <cstring>
#include <jal/hal/clock.hpp>
#include <jal/hal/cores.hpp>
#include <jal/hal/dma.hpp>
#include <jal/hal/fabric.hpp>
#include <jal/hal/memory.hpp>
#include <jal/hal/power.hpp>
#include <memory>

namespace jal::hal {
namespace {

class Rv64Board : public ::testing::Test {
 protected:
  Rv64Board() : registers(std::make_unique<rv64::Registers>()), board{registers.get(), &page, &log, 0x4000000000} {
    std::memset(registers.get(), 0, sizeof *registers);
  }
  void fail(std::uint64_t& status, std::int32_t with) {
    status = static_cast<std::uint64_t>(static_cast<std::int64_t>(with));
    registers->fault.core = 5;
    registers->fault.line = 77;
    registers->fault.address = 0x123;
    std::strcpy(reinterpret_cast<char*>(registers->fault.kernel), "gemv");
    std::strcpy(reinterpret_cast<char*>(registers->fault.file), "gemv.cpp");
    std::memset(registers->fault.text, 'x', sizeof registers->fault.text);  // a device that forgets the end
  }
  void expect_fault(const FaultReport& fault, std::int32_t status) {
    EXPECT_EQ(fault.status, status);
    EXPECT_EQ(fault.core, 5u);
    EXPECT_EQ(fault.line, 77u);
    EXPECT_EQ(fault.address, 0x123u);
    EXPECT_STREQ(fault.kernel, "gemv");
    EXPECT_STREQ(fault.file, "gemv.cpp");
    EXPECT_EQ(std::string(fault.text), std::string(sizeof fault.text - 1, 'x'));
  }

  int page = 0, log = 0;
  std::unique_ptr<rv64::Registers> registers;
  Board board;
};

TEST_F(Rv64Board, OffersNoHostAddresses) {
  registers->system.features = JAL_FEATURE_HOST_VA | JAL_FEATURE_EMULATED | JAL_FEATURE_RV64;
  EXPECT_EQ(features(board), JAL_FEATURE_EMULATED | JAL_FEATURE_RV64);
}

TEST_F(Rv64Board, DescribesTheChipAndItsClocks) {
  registers->description.chip.cores = 48;
  registers->description.costs = {1, 2, 3, 4};
  registers->system.monotonic_ns = 10;
  registers->system.unix_ns = 20;
  registers->system.fabric_ports = 2;
  EXPECT_EQ(chip_info(board).cores, 48u);
  EXPECT_EQ(firmware_costs(board).packet_ps, 1u);
  EXPECT_EQ(firmware_costs(board).host_latency_ps, 4u);
  EXPECT_EQ(host_monotonic_ns(board), 10u);
  EXPECT_EQ(host_unix_ns(board), 20u);
  EXPECT_EQ(fabric_ports(board), 2u);
  EXPECT_EQ(telemetry_page(board), &page);
  EXPECT_EQ(log_ring(board), &log);
}

TEST_F(Rv64Board, ClientRegionsLieAtTheirStrideWhileMapped) {
  std::uint64_t bytes = 99;
  EXPECT_EQ(client_region(board, 3, &bytes), nullptr);
  EXPECT_EQ(bytes, 0u);
  registers->session.region_bytes[3] = 4096;
  EXPECT_EQ(client_region(board, 3, &bytes), reinterpret_cast<void*>(0x4300000000));
  EXPECT_EQ(bytes, 4096u);
  EXPECT_EQ(client_region(board, kMaxClients, &bytes), nullptr) << "a slot that is another register";
  registers->session.region_bytes[3] = (1ull << 32) + 1;
  EXPECT_EQ(client_region(board, 3, &bytes), nullptr) << "it would reach into the next client's";
}

TEST_F(Rv64Board, MapsAndUnmaps) {
  registers->memory.mapped_extent = 9;
  std::uint32_t extent = 0;
  FaultReport fault;
  EXPECT_EQ(memory_map(board, {0xf0, 3, 2, 70000, 5}, &extent, fault), JAL_OK);
  EXPECT_EQ(extent, 9u);
  const rv64::MemoryRegisters& memory = registers->memory;
  EXPECT_EQ(memory.command, rv64::kMemoryMap);
  EXPECT_THAT((std::array{memory.slice_mask, memory.first_page, memory.pages, memory.bytes_per_slice, memory.client}),
              ::testing::ElementsAre(0xf0, 3, 2, 70000, 5));
  memory_unmap(board, 9);
  EXPECT_EQ(memory.command, rv64::kMemoryUnmap);
  EXPECT_EQ(memory.extent, 9u);
  fail(registers->memory.status, JAL_ERROR_HOST_BUDGET);
  extent = 1;
  EXPECT_EQ(memory_map(board, {1, 0, 1, 64, 0}, &extent, fault), JAL_ERROR_HOST_BUDGET);
  EXPECT_EQ(extent, 1u);
  expect_fault(fault, JAL_ERROR_HOST_BUDGET);
  registers->memory.budget_limit = 100;
  registers->memory.budget_used = 60;
  std::uint64_t limit = 0, used = 0;
  memory_budget(board, &limit, &used);
  EXPECT_EQ(limit, 100u);
  EXPECT_EQ(used, 60u);
}

TEST_F(Rv64Board, Copies) {
  registers->copy.begin_ps = 50;
  registers->copy.end_ps = 60;
  DmaRequest request;
  request.dst = 1;
  request.src = 2;
  request.bytes = 3;
  request.slice_mask = 4;
  request.client = 5;
  request.fill = true;
  request.pattern = 6;
  request.queue = 7;
  request.tag = 8;
  request.start_ps = 9;
  DmaResult result;
  FaultReport fault;
  EXPECT_EQ(dma_run(board, request, result, fault), JAL_OK);
  EXPECT_EQ(result.begin_ps, 50u);
  EXPECT_EQ(result.end_ps, 60u);
  const rv64::CopyRegisters& copy = registers->copy;
  EXPECT_EQ(copy.command, rv64::kCopyRun);
  EXPECT_THAT((std::array{copy.dst, copy.src, copy.bytes, copy.slice_mask, copy.client, copy.fill, copy.pattern,
                          copy.queue, copy.tag, copy.start_ps}),
              ::testing::ElementsAre(1, 2, 3, 4, 5, 1, 6, 7, 8, 9));
  fail(registers->copy.status, JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(dma_run(board, request, result, fault), JAL_ERROR_BAD_ADDRESS);
  expect_fault(fault, JAL_ERROR_BAD_ADDRESS);
}

TEST_F(Rv64Board, LoadsAndUnloadsCode) {
  registers->cores.loaded_code = 3;
  std::uint32_t code = 0;
  FaultReport fault;
  EXPECT_EQ(code_load(board, &page, 128, &code, fault), JAL_OK);
  EXPECT_EQ(code, 3u);
  EXPECT_EQ(registers->cores.command, rv64::kCoresLoad);
  EXPECT_EQ(registers->cores.module_address, reinterpret_cast<std::uintptr_t>(&page));
  EXPECT_EQ(registers->cores.module_bytes, 128u);
  code_unload(board, 3);
  EXPECT_EQ(registers->cores.command, rv64::kCoresUnload);
  EXPECT_EQ(registers->cores.code, 3u);
  fail(registers->cores.status, JAL_ERROR_MODULE_ARCH);
  EXPECT_EQ(code_load(board, &page, 128, &code, fault), JAL_ERROR_MODULE_ARCH);
  expect_fault(fault, JAL_ERROR_MODULE_ARCH);
}

TEST_F(Rv64Board, JobsArePendingWhileTheirCoresAreBusy) {
  CoreJob job;
  job.code = 1;
  job.kernel = 2;
  job.core_mask = 0xff;
  job.arguments = &page;
  job.argument_bytes = 48;
  job.client = 3;
  job.queue = 4;
  job.tag = 5;
  job.start_ps = 6;
  CoreJobResult result;
  registers->cores.status = rv64::kBusy;
  EXPECT_EQ(cores_start(board, job, result), kPending);
  const rv64::CoresRegisters& cores = registers->cores;
  EXPECT_EQ(cores.command, rv64::kCoresStart);
  EXPECT_EQ(cores.arguments_address, reinterpret_cast<std::uintptr_t>(&page));
  EXPECT_THAT((std::array{cores.code, cores.kernel, cores.core_mask, cores.argument_bytes, cores.client, cores.queue,
                          cores.tag, cores.start_ps}),
              ::testing::ElementsAre(1, 2, 0xff, 48, 3, 4, 5, 6));
  EXPECT_EQ(cores_poll(board, result), kPending);
  registers->cores.status = 0;
  registers->cores.end_ps = 70;
  registers->cores.bytes_local = 1;
  registers->cores.bytes_remote = 2;
  registers->cores.bytes_collective = 3;
  registers->cores.bytes_noc = 4;
  registers->cores.busy_ps[JAL_UNIT_UNCORE] = 8;
  registers->cores.energy_fj[JAL_UNIT_MATRIX] = 9;
  EXPECT_EQ(cores_poll(board, result), JAL_OK);
  EXPECT_EQ(result.status, JAL_OK);
  EXPECT_EQ(result.end_ps, 70u);
  EXPECT_THAT((std::array{result.bytes_local, result.bytes_remote, result.bytes_collective, result.bytes_noc}),
              ::testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(result.busy_ps[JAL_UNIT_UNCORE], 8u);
  EXPECT_EQ(result.energy_fj[JAL_UNIT_MATRIX], 9u);
  fail(registers->cores.status, JAL_ERROR_KERNEL_FAULT);
  EXPECT_EQ(cores_poll(board, result), JAL_ERROR_KERNEL_FAULT);
  EXPECT_EQ(result.status, JAL_ERROR_KERNEL_FAULT);
  expect_fault(result.fault, JAL_ERROR_KERNEL_FAULT);
}

TEST_F(Rv64Board, MetersAreReadAndFedByUnit) {
  registers->meter.static_uw[JAL_UNIT_HBM] = 11;
  registers->meter.state[JAL_UNIT_HBM] = JAL_UNIT_STATE_RETENTION;
  registers->meter.energy_nj[JAL_UNIT_HBM] = 12;
  EXPECT_EQ(unit_static_microwatts(board, JAL_UNIT_HBM), 11u);
  EXPECT_EQ(unit_state(board, JAL_UNIT_HBM), static_cast<std::uint32_t>(JAL_UNIT_STATE_RETENTION));
  EXPECT_EQ(meter_read_nj(board, JAL_UNIT_HBM), 12u);
  meter_add_fj(board, JAL_UNIT_NOC, 13);
  meter_advance_ps(board, 14);
  EXPECT_EQ(registers->meter.add_fj[JAL_UNIT_NOC], 13u);
  EXPECT_EQ(registers->meter.advance_ps, 14u);
}

}  // namespace
}  // namespace jal::hal
