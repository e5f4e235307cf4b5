// Contract: copy_engine.hpp.
#include "emulator/device/copy_engine.hpp"

#include <jal/abi/status.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "emulator/device/fixed_point.hpp"

namespace jal::emu {
namespace {

std::byte* host_pointer(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address & ~JAL_ADDRESS_HOST_VA_BIT));
}

bool is_hbm_of_slice_0(std::uint64_t address) {
  return JAL_ADDRESS_SPACE(address) == JAL_SPACE_HBM && JAL_ADDRESS_SLICE(address) == 0;
}

/// The pattern from its first byte on, as often as it fits; bytes is a multiple of 4.
void fill(std::byte* to, std::uint32_t pattern, std::uint64_t bytes) {
  if ((pattern & 0xff) * 0x01010101u == pattern) {
    std::memset(to, static_cast<int>(pattern & 0xff), bytes);
    return;
  }
  // The first block by words, then by copying blocks that stay in the nearest cache.
  constexpr std::uint64_t kBlock = 16384;
  const std::uint64_t first = std::min(bytes, kBlock);
  for (std::uint64_t at = 0; at < first; at += sizeof pattern) std::memcpy(to + at, &pattern, sizeof pattern);
  for (std::uint64_t at = first; at < bytes; at += kBlock) std::memcpy(to + at, to, std::min(kBlock, bytes - at));
}

}  // namespace

CopyEngine::CopyEngine(const Model& model, Hbm& hbm, EnergyMeter& meter, TraceTap& trace)
    : model_(model), hbm_(hbm), meter_(meter), trace_(trace) {}

std::int32_t CopyEngine::refuse(const hal::DmaRequest& request, std::int32_t status, std::uint64_t address,
                                const char* role, const char* why, hal::FaultReport& fault) const {
  fault = {};
  fault.status = status;
  fault.address = address;
  const Hbm::Window near = hbm_.nearest(request.client, address);
  const char* verb = request.fill ? "fill" : "copy";
  int used = std::snprintf(fault.text, sizeof fault.text, "%s %llu bytes%s: %s 0x%llx (slice %u offset 0x%x) %s", verb,
                           static_cast<unsigned long long>(request.bytes), request.slice_mask != 0 ? " per slice" : "",
                           role, static_cast<unsigned long long>(address), JAL_ADDRESS_SLICE(address),
                           JAL_ADDRESS_OFFSET(address), why);
  if (near.grant_bytes != 0 && used > 0 && static_cast<std::size_t>(used) < sizeof fault.text) {
    std::snprintf(fault.text + used, sizeof fault.text - static_cast<std::size_t>(used),
                  "; nearest allocation: slice %u offset 0x%x, %llu bytes", JAL_ADDRESS_SLICE(near.grant_base),
                  JAL_ADDRESS_OFFSET(near.grant_base), static_cast<unsigned long long>(near.grant_bytes));
  }
  return status;
}

std::int32_t CopyEngine::resolve(const hal::DmaRequest& request, std::uint64_t address, bool walks, const char* role,
                                 Side& side, hal::FaultReport& fault) const {
  const std::uint64_t mask = request.slice_mask;
  if (JAL_ADDRESS_IS_HOST_VA(address)) {
    side.is_host = true;
    side.parts = 1;
    side.data[0] = host_pointer(address);
    if (side.data[0] == nullptr) {
      return refuse(request, JAL_ERROR_BAD_ADDRESS, address, role, "is the host's null pointer", fault);
    }
    return JAL_OK;
  }
  if (JAL_ADDRESS_SPACE(address) != JAL_SPACE_HBM) {
    return refuse(request, JAL_ERROR_BAD_ADDRESS, address, role, "is neither HBM nor host memory", fault);
  }
  // The side that walks visits the mask's slices; the other one is a single range of all bytes.
  std::uint64_t slices = 1ull << (JAL_ADDRESS_SLICE(address) & 63u), bytes = request.bytes;
  if (walks) {
    if ((mask & ~(model_.cores == 64 ? ~0ull : (1ull << model_.cores) - 1)) != 0) {
      return refuse(request, JAL_ERROR_BAD_SLICE_MASK, address, role, "is walked over slices the chip does not have",
                    fault);
    }
    slices = mask;
  } else if (mask != 0) {
    bytes *= static_cast<std::uint64_t>(std::popcount(mask));
  }
  for (; slices != 0; slices &= slices - 1) {
    const auto slice = static_cast<std::uint32_t>(std::countr_zero(slices));
    const std::uint64_t at = walks ? JAL_ADDRESS_HBM(slice, JAL_ADDRESS_OFFSET(address)) : address;
    const Hbm::Window window = hbm_.resolve(request.client, at);
    if (window.foreign) {
      return refuse(request, JAL_ERROR_FOREIGN_ADDRESS, at, role, "belongs to another client", fault);
    }
    if (window.data == nullptr) return refuse(request, JAL_ERROR_BAD_ADDRESS, at, role, "is not allocated", fault);
    if (window.bytes < bytes) {
      return refuse(request, JAL_ERROR_BAD_ADDRESS, at, role, "runs past the end of its allocation", fault);
    }
    side.data[side.parts] = window.data;
    side.slice[side.parts] = slice;
    ++side.parts;
  }
  return JAL_OK;
}

std::uint32_t CopyEngine::hops(std::uint32_t from, std::uint32_t to) const {
  const auto distance = [](std::uint32_t a, std::uint32_t b) { return a > b ? a - b : b - a; };
  return distance(from / model_.grid_cols, to / model_.grid_cols) +
         distance(from % model_.grid_cols, to % model_.grid_cols);
}

std::uint64_t CopyEngine::duration_ps(const hal::DmaRequest& request, const Side& dst, const Side* src) const {
  const std::uint64_t parts =
      request.slice_mask != 0 ? static_cast<std::uint64_t>(std::popcount(request.slice_mask)) : 1;
  const std::uint64_t total = request.bytes * parts;
  std::uint64_t slice_bytes = request.bytes;  // through the busiest slice
  std::uint64_t noc_bytes = 0;                // through the busiest router, between slices
  bool uses_host = dst.is_host;
  if (dst.is_host && (src == nullptr || src->is_host)) slice_bytes = 0;
  if (src != nullptr) {
    uses_host |= src->is_host;
    if (!uses_host) {
      // One range in one slice, and its counterpart in one or several slices, perhaps that one among them.
      const Side& linear = dst.parts < src->parts ? dst : *src;
      const Side& other = &linear == &dst ? *src : dst;
      const auto* end = other.slice + other.parts;
      const bool meets_itself = std::find(other.slice, end, linear.slice[0]) != end;
      slice_bytes = total + (meets_itself ? request.bytes : 0);
      noc_bytes = total - (meets_itself ? request.bytes : 0);
    }
  }
  std::uint64_t time = picoseconds(slice_bytes, model_.hbm_bytes_per_second_per_slice);
  if (noc_bytes != 0) time = std::max(time, picoseconds(noc_bytes, model_.noc_link_bytes_per_second));
  if (uses_host) time = std::max(time, picoseconds(total, model_.host_link_bytes_per_second));
  return model_.copy_start_ps + time;
}

void CopyEngine::charge(const hal::DmaRequest& request, const Side& dst, const Side* src) {
  const std::uint64_t parts =
      request.slice_mask != 0 ? static_cast<std::uint64_t>(std::popcount(request.slice_mask)) : 1;
  const std::uint64_t total = request.bytes * parts;
  for (const Side* side : {&dst, src}) {
    if (side == nullptr) continue;
    if (side->is_host) {
      meter_.add_fj(JAL_UNIT_UNCORE, femtojoules(total, model_.host_fj_per_byte));
    } else {
      meter_.add_fj(JAL_UNIT_HBM, femtojoules(total, model_.hbm_fj_per_byte));
    }
  }
  // Paths over the NoC. The host interface and the copy engine sit at core 0's corner: an assumption, as a floor plan's
  // edge.
  std::uint64_t byte_hops = 0;
  const bool to_hbm = !dst.is_host, from_hbm = src != nullptr && !src->is_host;
  if (to_hbm != from_hbm) {
    const Side& hbm = from_hbm ? *src : dst;
    for (std::uint32_t part = 0; part < hbm.parts; ++part) {
      byte_hops += total / hbm.parts * (hops(0, hbm.slice[part]) + 1);
    }
  } else if (to_hbm) {
    const std::uint32_t pairs = std::max(dst.parts, src->parts);
    for (std::uint32_t part = 0; part < pairs; ++part) {
      byte_hops += total / pairs * hops(src->slice[src->parts > 1 ? part : 0], dst.slice[dst.parts > 1 ? part : 0]);
    }
  }
  meter_.add_fj(JAL_UNIT_NOC, femtojoules(byte_hops, model_.noc_fj_per_byte_hop));
}

std::int32_t CopyEngine::run(const hal::DmaRequest& request, hal::DmaResult& out, hal::FaultReport& fault) {
  const std::uint64_t parts =
      request.slice_mask != 0 ? static_cast<std::uint64_t>(std::popcount(request.slice_mask)) : 1;
  if (request.bytes > (UINT64_MAX >> 8) / parts) {
    return refuse(request, JAL_ERROR_BAD_ADDRESS, request.dst, "destination", "cannot hold so many bytes", fault);
  }
  Side dst, src;
  const bool dst_walks = request.slice_mask != 0 && is_hbm_of_slice_0(request.dst);
  const bool src_walks = request.slice_mask != 0 && !request.fill && is_hbm_of_slice_0(request.src);
  if (request.slice_mask != 0 && dst_walks == src_walks) {
    return refuse(request, JAL_ERROR_BAD_SLICE_MASK, request.dst, "destination",
                  "and source: with a slice mask exactly one of them is HBM of slice 0", fault);
  }
  if (const std::int32_t status = resolve(request, request.dst, dst_walks, "destination", dst, fault);
      status != JAL_OK) {
    return status;
  }
  if (request.fill) {
    if (request.bytes % 4 != 0 || request.dst % 4 != 0) {
      return refuse(request, JAL_ERROR_UNALIGNED_ADDRESS, request.dst, "destination", "or the size is no multiple of 4",
                    fault);
    }
  } else if (const std::int32_t status = resolve(request, request.src, src_walks, "source", src, fault);
             status != JAL_OK) {
    return status;
  }

  // Neighbouring parts become one: a whole sharded allocation is a single memcpy.
  const Side& walking = dst.parts >= src.parts ? dst : src;
  for (std::uint32_t part = 0; part < walking.parts;) {
    std::uint32_t run = 1;
    while (part + run < walking.parts && walking.data[part + run] == walking.data[part] + run * request.bytes) ++run;
    const std::uint64_t linear = part * request.bytes, bytes = run * request.bytes;
    std::byte* to = dst.parts > 1 ? dst.data[part] : dst.data[0] + linear;
    if (!dst.is_host) hbm_.expect_write(to, bytes);
    if (request.fill) {
      fill(to, request.pattern, bytes);
    } else {
      const std::byte* from = src.parts > 1 ? src.data[part] : src.data[0] + linear;
      std::memmove(to, from, bytes);  // NOLINT(clang-analyzer-core.NonNullParamChecker): resolve() has set every part
    }
    part += run;
  }

  const Side* source = request.fill ? nullptr : &src;
  out.begin_ps = std::max(request.start_ps, free_at_ps_);
  out.end_ps = out.begin_ps + duration_ps(request, dst, source);
  free_at_ps_ = out.end_ps;
  charge(request, dst, source);
  if (trace_.is_on()) {
    jal_trace_span span{};
    span.start_ps = out.begin_ps;
    span.end_ps = out.end_ps;
    span.track = JAL_TRACK_COPY;
    span.kind = JAL_SPAN_COPY;
    span.queue = request.queue;
    span.tag = request.tag;
    span.bytes = request.bytes * parts;
    trace_.emit(span, request.fill                 ? "fill"
                      : src.is_host && dst.is_host ? "copy host to host"
                      : src.is_host                ? "copy host to HBM"
                      : dst.is_host                ? "copy HBM to host"
                                                   : "copy HBM to HBM");
  }
  return JAL_OK;
}

}  // namespace jal::emu
