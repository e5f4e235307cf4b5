// Contract: stream.hpp.
#include "runtime/stream.hpp"

#include <jal/abi/power.h>

#include <algorithm>
#include <utility>

#include "driver/base/error_frames.hpp"

namespace jal::rt {

using drv::fail;

namespace {

/// One packet moves at most this much, far below the contract's 4 GiB, so that a deadline is looked at in between.
constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 30;
/// The firmware's limit of one idle packet: an hour.
constexpr std::uint64_t kIdleNsMax = 3'600'000'000'000;

template <typename Payload>
jal_packet packet_of(const Payload& payload, void (*encode)(const Payload*, jal_packet*)) {
  jal_packet packet{};
  encode(&payload, &packet);
  return packet;
}

Status check_phase(std::uint32_t phase) {
  if (phase < JAL_PHASE_COUNT) return {};
  return fail(JAL_ERROR_INVALID_ARGUMENT, "phase {}: phases are below {} (JAL_PHASE_*)", phase, JAL_PHASE_COUNT);
}

}  // namespace

Result<std::unique_ptr<Stream>> Stream::create(Device& device, const drv::QueueOptions& options) {
  auto queue = drv::Queue::create(device.session(), options);
  if (!queue.ok()) return queue.status();
  return std::unique_ptr<Stream>(new Stream(device, std::move(*queue)));
}

Status Stream::copy(std::uint64_t dst, std::uint64_t src, std::uint64_t bytes, std::uint64_t slice_mask) {
  if (bytes == 0) return fail(JAL_ERROR_INVALID_ARGUMENT, "copy of 0 bytes; at least 1");
  if (slice_mask != 0 || bytes <= kPieceBytes) {
    return enqueue(JAL_PACKET_COPY,
                   packet_of(jal_copy_payload{0, dst, src, bytes, slice_mask}, jal_copy_payload_encode));
  }
  for (std::uint64_t done = 0; done < bytes; done += kPieceBytes) {
    const std::uint64_t piece = std::min(kPieceBytes, bytes - done);
    JAL_RETURN_IF_ERROR(enqueue(
        JAL_PACKET_COPY, packet_of(jal_copy_payload{0, dst + done, src + done, piece, 0}, jal_copy_payload_encode)));
  }
  return {};
}

Status Stream::fill(std::uint64_t dst, std::uint32_t pattern, std::uint64_t bytes, std::uint64_t slice_mask) {
  if (bytes == 0) return fail(JAL_ERROR_INVALID_ARGUMENT, "fill of 0 bytes; at least 4");
  if (bytes % 4 != 0 || dst % 4 != 0) {
    return fail(JAL_ERROR_UNALIGNED_ADDRESS, "fill of {} bytes at {:#x}: both must be multiples of 4", bytes, dst);
  }
  return enqueue(JAL_PACKET_FILL,
                 packet_of(jal_fill_payload{pattern, dst, bytes, slice_mask, 0}, jal_fill_payload_encode));
}

Status Stream::set_phase(std::uint32_t phase) {
  JAL_RETURN_IF_ERROR(check_phase(phase));
  return enqueue(JAL_PACKET_PHASE, packet_of(jal_phase_payload{phase, {}}, jal_phase_payload_encode));
}

Status Stream::count_tokens(std::uint32_t phase, std::uint64_t tokens) {
  JAL_RETURN_IF_ERROR(check_phase(phase));
  return enqueue(JAL_PACKET_COUNT, packet_of(jal_count_payload{phase, tokens, {}}, jal_count_payload_encode));
}

Status Stream::idle(std::uint64_t idle_ns) {
  if (idle_ns > kIdleNsMax) {
    return fail(JAL_ERROR_INVALID_ARGUMENT, "idle for {} ns: at most {} (one hour) per call", idle_ns, kIdleNsMax);
  }
  return enqueue(JAL_PACKET_IDLE, packet_of(jal_idle_payload{0, idle_ns, {}}, jal_idle_payload_encode));
}

}  // namespace jal::rt
