// The HAL in plain memory, and the hand-made client. Contract: fake_board.hpp.
#include "tests/unit/firmware/control/fake_board.hpp"

#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <jal/hal/fabric.hpp>
#include <jal/hal/power.hpp>
#include <new>

namespace jal::hal {

Board::Board() : hbm(static_cast<std::uint8_t*>(std::calloc(kSlices, kSliceBytes)), std::free) {
  std::strcpy(chip.model, "fake");
  chip.uuid[0] = 0x1111;
  chip.uuid[1] = 0x2222;
  chip.cores = kSlices;
  chip.slices = kSlices;
  chip.grid_rows = chip.grid_cols = 2;
  chip.slice_bytes = kSliceBytes;
  chip.chip_bytes = kSlices * kSliceBytes;
  chip.l1_bytes = 65536;
  chip.clock_kind = JAL_CLOCK_VIRTUAL;
  chip.rated_milliwatts = 700000;
  chip.sustained_milliwatts = 550000;
  chip.clock_hz = 1000000000;
}

bool Board::owns(std::uint32_t client, std::uint64_t address, std::uint64_t bytes) const {
  const std::uint64_t offset = JAL_ADDRESS_OFFSET(address);
  for (const auto& [id, extent] : extents) {
    const std::uint64_t base = extent.first_page * std::uint64_t{JAL_PAGE_BYTES};
    if (extent.client == client && (extent.slice_mask >> JAL_ADDRESS_SLICE(address) & 1) != 0 && offset >= base &&
        offset - base <= extent.bytes_per_slice && bytes <= extent.bytes_per_slice - (offset - base))
      return true;
  }
  return false;
}

const jal_chip_info& chip_info(Board& board) { return board.chip; }
std::uint64_t features(Board& board) { return board.features; }
void* client_region(Board& board, std::uint32_t client, std::uint64_t* out_bytes) {
  *out_bytes = board.regions[client].bytes;
  return board.regions[client].memory;
}
void* telemetry_page(Board& board) { return board.telemetry; }
void* log_ring(Board& board) { return &board.log; }
const FirmwareCosts& firmware_costs(Board& board) { return board.costs; }
std::uint64_t host_monotonic_ns(Board& board) { return board.unix_ns; }
std::uint64_t host_unix_ns(Board& board) {
  if (board.on_clock) board.on_clock();
  return board.unix_ns;
}

std::int32_t code_load(Board& board, const void* module, std::uint64_t bytes, std::uint32_t* out_code,
                       FaultReport& fault) {
  if (board.on_load) {
    const std::int32_t status = board.on_load(module, bytes, fault);
    if (status != JAL_OK) return status;
  }
  *out_code = board.next_code++;
  board.codes.insert(*out_code);
  return JAL_OK;
}
void code_unload(Board& board, std::uint32_t code) { EXPECT_EQ(board.codes.erase(code), 1u) << "code " << code; }

std::int32_t cores_start(Board& board, const CoreJob& job, CoreJobResult& out) {
  EXPECT_TRUE(board.codes.contains(job.code)) << "a dispatch of code that is not loaded";
  EXPECT_NE(job.core_mask, 0u);
  EXPECT_EQ(job.core_mask >> board.chip.cores, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(job.arguments) % 16, 0u);
  const auto* arguments = static_cast<const std::uint8_t*>(job.arguments);
  board.jobs.push_back({job, {arguments, arguments + job.argument_bytes}});
  out.end_ps = job.start_ps + board.job_ps;
  std::int32_t status = JAL_OK;
  if (board.on_job) status = board.on_job(job, out);
  if (board.polls == 0) return status;
  board.pending = out;
  board.pending.status = status;
  return kPending;
}
std::int32_t cores_poll(Board& board, CoreJobResult& out) {
  if (--board.polls != 0) return kPending;
  out = board.pending;
  return JAL_OK;
}

std::int32_t dma_run(Board& board, const DmaRequest& request, DmaResult& out, FaultReport& fault) {
  struct Part {
    std::uint8_t* data;
    std::uint64_t bytes;
  };
  const std::uint64_t visits =
      request.slice_mask == 0 ? 1 : static_cast<std::uint64_t>(std::popcount(request.slice_mask));
  const auto resolve = [&](std::uint64_t address, std::vector<Part>& parts) {
    if (JAL_ADDRESS_IS_HOST_VA(address)) {
      auto* data = reinterpret_cast<std::uint8_t*>(address & ~JAL_ADDRESS_HOST_VA_BIT);
      for (const auto& [base, bytes] : board.host_buffers) {
        if (data >= base && request.bytes * visits <= bytes &&
            data - base <= static_cast<std::ptrdiff_t>(bytes - request.bytes * visits)) {
          for (std::uint64_t i = 0; i < visits; ++i) parts.push_back({data + i * request.bytes, request.bytes});
          return true;
        }
      }
      fault.status = JAL_ERROR_BAD_ADDRESS;
      std::strcpy(fault.text, "not a host buffer");
      return false;
    }
    for (std::uint32_t slice = 0; slice < Board::kSlices; ++slice) {
      if (request.slice_mask == 0 ? slice != JAL_ADDRESS_SLICE(address) : (request.slice_mask >> slice & 1) == 0)
        continue;
      const std::uint64_t part = JAL_ADDRESS_HBM(slice, JAL_ADDRESS_OFFSET(address));
      EXPECT_TRUE(board.owns(request.client, part, request.bytes))
          << "the firmware let client " << request.client << " at 0x" << std::hex << part << " + 0x" << request.bytes;
      if (!board.owns(request.client, part, request.bytes)) std::abort();
      parts.push_back({board.at(part), request.bytes});
    }
    EXPECT_EQ(parts.size(), visits) << "the firmware let a slice mask through";
    return parts.size() == visits;
  };
  std::vector<Part> dst, src;
  if (!resolve(request.dst, dst) || (!request.fill && !resolve(request.src, src))) return JAL_ERROR_BAD_ADDRESS;
  for (std::size_t i = 0; i < dst.size(); ++i) {
    if (request.fill) {
      for (std::uint64_t at = 0; at < dst[i].bytes; at += 4) std::memcpy(dst[i].data + at, &request.pattern, 4);
    } else {
      std::memmove(dst[i].data, src[i].data, dst[i].bytes);
    }
  }
  ++board.copies;
  out.begin_ps = request.start_ps;
  out.end_ps = request.start_ps + board.copy_ps;
  return JAL_OK;
}

std::uint32_t fabric_ports(Board&) { return 0; }

std::int32_t memory_map(Board& board, const MapRequest& request, std::uint32_t* out_extent, FaultReport&) {
  EXPECT_GE(request.pages, 1u);
  EXPECT_LE(request.first_page + request.pages, Board::kPages);
  EXPECT_EQ(request.bytes_per_slice % 64, 0u);
  EXPECT_LE(request.bytes_per_slice, request.pages * std::uint64_t{JAL_PAGE_BYTES});
  for (const auto& [id, other] : board.extents) {
    EXPECT_FALSE((other.slice_mask & request.slice_mask) != 0 &&
                 other.first_page < request.first_page + request.pages &&
                 request.first_page < other.first_page + other.pages)
        << "the firmware granted a page twice";
  }
  const std::uint64_t charge = request.bytes_per_slice * static_cast<std::uint64_t>(std::popcount(request.slice_mask));
  if (charge > board.budget_limit - board.budget_used) return JAL_ERROR_HOST_BUDGET;
  board.budget_used += charge;
  for (std::uint64_t rest = request.slice_mask; rest != 0; rest &= rest - 1) {
    const auto slice = static_cast<std::uint32_t>(std::countr_zero(rest));
    std::memset(board.at(JAL_ADDRESS_HBM(slice, request.first_page * std::uint64_t{JAL_PAGE_BYTES})), 0,
                request.pages * std::uint64_t{JAL_PAGE_BYTES});
  }
  *out_extent = board.next_extent++;
  board.extents[*out_extent] = request;
  return JAL_OK;
}
void memory_unmap(Board& board, std::uint32_t extent) {
  const auto it = board.extents.find(extent);
  ASSERT_NE(it, board.extents.end()) << "the firmware unmapped extent " << extent << " twice";
  board.budget_used -= it->second.bytes_per_slice * static_cast<std::uint64_t>(std::popcount(it->second.slice_mask));
  board.extents.erase(it);
}
void memory_budget(Board& board, std::uint64_t* out_limit, std::uint64_t* out_used) {
  *out_limit = board.budget_limit;
  *out_used = board.budget_used;
}

std::uint64_t unit_static_microwatts(Board& board, std::uint32_t) { return board.static_uw; }
std::uint32_t unit_state(Board&, std::uint32_t) { return JAL_UNIT_STATE_ON; }
void meter_add_fj(Board& board, std::uint32_t unit, std::uint64_t energy_fj) { board.energy_fj[unit] += energy_fj; }
void meter_advance_ps(Board& board, std::uint64_t dt_ps) {
  // 1 uW for 1 ps is 1e-18 J.
  for (std::uint64_t& energy_fj : board.energy_fj) energy_fj += board.static_uw * dt_ps / 1000;
}
std::uint64_t meter_read_nj(Board& board, std::uint32_t unit) {
  if (board.on_meter) board.on_meter();
  return board.energy_fj[unit] / 1000000;
}

}  // namespace jal::hal

namespace jal::fw {

Chip::Chip(bool boot) {
  // Zeroed, and touched only where it is used.
  void* memory =
      mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  control_ = new (memory) Control(board);
  if (boot) control_->boot();
}
Chip::~Chip() { munmap(control_, sizeof(Control)); }

bool Chip::settle() {
  for (int i = 0; i < 10000; ++i) {
    if (control_->step() != StepResult::worked) return true;
  }
  return false;
}

std::uint64_t Chip::telemetry(std::uint32_t tag, std::uint32_t index) const {
  for (std::uint32_t i = 0; i < board.telemetry->count; ++i) {
    if (board.telemetry->entry[i].tag == tag && board.telemetry->entry[i].index == index)
      return board.telemetry->entry[i].value;
  }
  ADD_FAILURE() << "telemetry has no tag " << tag << " index " << index;
  return 0;
}

Client::Client(Chip& chip, std::uint32_t slot, std::uint64_t features)
    : chip_(chip),
      slot_(slot),
      region_(static_cast<jal_client_region*>(std::aligned_alloc(4096, (kBytes + 4095) / 4096 * 4096))) {
  std::memset(static_cast<void*>(region_), 0, kBytes);
  region_->client.abi_min = JAL_ABI_VERSION_MIN;
  region_->client.abi_max = JAL_ABI_VERSION_MAX;
  region_->client.features = features;
  region_->client.magic = JAL_CLIENT_MAGIC;
  chip.board.regions[slot] = {region_, kBytes};
}
Client::~Client() {
  detach();
  std::free(region_);
}
std::int32_t Client::attach() { return chip_.control().attach(slot_); }
void Client::detach() {
  chip_.control().detach(slot_);
  if (chip_.board.regions[slot_].memory == region_) chip_.board.regions[slot_] = {};
}

std::int32_t Client::ask(std::uint32_t opcode, std::initializer_list<std::uint64_t> arguments) {
  jal_mailbox_half& request = region_->request;
  std::memset(request.word, 0, sizeof request.word);
  std::copy(arguments.begin(), arguments.end(), request.word);
  request.opcode = opcode;
  std::atomic_ref(request.sequence).store(request.sequence + 1, std::memory_order_release);
  (void)chip_.control().step();
  EXPECT_EQ(region_->response.sequence, request.sequence) << "mailbox operation " << opcode << " was not answered";
  std::memcpy(result, region_->response.word, sizeof result);
  return static_cast<std::int32_t>(region_->response.opcode);
}

std::int32_t Client::create_queue(std::uint32_t queue) {
  return ask(JAL_MAILBOX_QUEUE_CREATE,
             {queue, kRings + queue * kRingBytes, kDepthLog2, kArguments + queue * kArgumentBytes, kArgumentBytes});
}

std::uint64_t Client::allocate(std::uint64_t mask, std::uint64_t pages) {
  EXPECT_EQ(ask(JAL_MAILBOX_PAGES_ALLOC, {mask, pages, pages * JAL_PAGE_BYTES, 0}), JAL_OK);
  reservation = result[1];
  return result[0];
}

jal_packet& Client::slot_of(std::uint32_t queue, std::uint64_t number) {
  return reinterpret_cast<jal_packet*>(bytes() + kRings + queue * kRingBytes)[number % kDepth];
}

void Client::publish(std::uint32_t type, jal_packet packet, std::uint32_t queue, std::uint32_t flags) {
  jal_queue_control& control = region_->queues[queue];
  const std::uint64_t number = control.published;
  ASSERT_LT(number - control.consumed, kDepth) << "the test overruns its queue";
  jal_packet& slot = slot_of(queue, number);
  packet.header |= type | flags << 8 | ((number / kDepth) % 2 == 0 ? JAL_PACKET_LAP_BIT : 0u);
  std::memcpy(reinterpret_cast<char*>(&slot) + 4, reinterpret_cast<const char*>(&packet) + 4, sizeof slot - 4);
  std::atomic_ref(slot.header).store(packet.header, std::memory_order_release);
  control.published = number + 1;
}

std::int32_t Client::run(std::uint32_t type, jal_packet packet, std::uint32_t queue) {
  const std::uint64_t records = region_->record_count;
  publish(type, packet, queue);
  EXPECT_TRUE(chip_.settle());
  jal_queue_control& control = region_->queues[queue];
  EXPECT_EQ(control.completed, control.published);
  if (control.state != JAL_QUEUE_STATE_POISONED) {
    EXPECT_EQ(region_->record_count, records) << "an error record without a failure";
    return JAL_OK;
  }
  EXPECT_EQ(region_->record_count, records + 1);
  EXPECT_EQ(control.record, record().id);
  EXPECT_EQ(control.status, record().status);
  EXPECT_EQ(record().queue, queue);
  EXPECT_EQ(record().packet_index, control.published - 1);
  EXPECT_NE(record().text[0], '\0') << "a failure without a reason";
  const std::int32_t status = control.status;
  EXPECT_EQ(ask(JAL_MAILBOX_QUEUE_RECOVER, {queue}), JAL_OK);
  return status;
}

jal_kernel_entry make_kernel(const char* name, std::initializer_list<std::uint32_t> argument_types) {
  jal_kernel_entry entry = {};
  std::strncpy(entry.name, name, sizeof entry.name - 1);
  std::strncpy(entry.symbol, name, sizeof entry.symbol - 1);
  for (const std::uint32_t type : argument_types) {
    std::uint32_t bytes = 8;
    if (type == JAL_ARGUMENT_U32 || type == JAL_ARGUMENT_I32 || type == JAL_ARGUMENT_F32) bytes = 4;
    if (type == JAL_ARGUMENT_TENSOR) bytes = sizeof(jal_tensor_info);
    const std::uint32_t align = bytes == 4 ? 4 : 8;
    const std::uint32_t offset = (entry.argument_bytes + align - 1) / align * align;
    entry.arguments[entry.argument_count++] = {static_cast<std::uint16_t>(type), static_cast<std::uint16_t>(offset),
                                               bytes};
    entry.argument_bytes = offset + bytes;
  }
  return entry;
}

void seal_module(std::vector<std::uint8_t>& file) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  std::memset(file.data() + offsetof(jal_module_header, checksum), 0, 8);
  for (const std::uint8_t byte : file) hash = (hash ^ byte) * 0x100000001b3ull;
  std::memcpy(file.data() + offsetof(jal_module_header, checksum), &hash, 8);
}

std::vector<std::uint8_t> make_module(const std::vector<jal_kernel_entry>& kernels, std::uint32_t code_bytes) {
  jal_module_header header = {};
  const std::uint64_t table = kernels.size() * sizeof(jal_kernel_entry);
  header.magic = JAL_MODULE_MAGIC;
  header.version = JAL_MODULE_VERSION;
  header.kernel_count = static_cast<std::uint32_t>(kernels.size());
  header.kernel_core_version = 1;
  header.kernel_offset = sizeof header;
  header.sections[0] = {JAL_ARCH_NATIVE_X86_64, 0, (sizeof header + table + 63) / 64 * 64, code_bytes};
  header.file_bytes = header.sections[0].offset + code_bytes;
  std::vector<std::uint8_t> file(header.file_bytes, 0xc3);
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + sizeof header, kernels.data(), table);
  seal_module(file);
  return file;
}

}  // namespace jal::fw
