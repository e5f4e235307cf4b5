// Contract: perfetto_writer.hpp.
#include "runtime/trace/perfetto_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "driver/base/error_frames.hpp"

namespace jal::rt {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
/// All packets come from one writer, which Perfetto calls a sequence.
constexpr std::uint64_t kSequence = 1;

// Field numbers. Trace:
constexpr std::uint32_t kPacket = 1;
// TracePacket:
constexpr std::uint32_t kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11, kSequenceFlags = 13, kTrackDescriptor = 60;
constexpr std::uint64_t kIncrementalStateCleared = 1;
// TrackDescriptor and ProcessDescriptor:
constexpr std::uint32_t kUuid = 1, kName = 2, kProcess = 3, kParentUuid = 5, kChildOrdering = 11, kSiblingRank = 12;
constexpr std::uint32_t kPid = 1, kProcessName = 6;
constexpr std::uint64_t kOrderExplicit = 3;
// TrackEvent and DebugAnnotation:
constexpr std::uint32_t kDebugAnnotations = 4, kType = 9, kTrackUuid = 11, kCategories = 22, kEventName = 23;
constexpr std::uint64_t kSliceBegin = 1, kSliceEnd = 2;
constexpr std::uint32_t kUintValue = 3, kAnnotationName = 10;

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}
void put_number(std::string& out, std::uint32_t field, std::uint64_t value) {
  put_varint(out, std::uint64_t{field} << 3);
  put_varint(out, value);
}
void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_varint(out, std::uint64_t{field} << 3 | 2);
  put_varint(out, bytes.size());
  out.append(bytes);
}

}  // namespace

drv::Result<std::unique_ptr<PerfettoWriter>> PerfettoWriter::create(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    return drv::fail(JAL_ERROR_FILE_IO, "trace file {} cannot be written: {}; choose another path", path,
                     std::strerror(errno));
  }
  return std::unique_ptr<PerfettoWriter>(new PerfettoWriter(fd, path));
}

PerfettoWriter::~PerfettoWriter() {
  if (fd_ >= 0) finish().ignore();
}

void PerfettoWriter::end_packet() {
  put_number(packet_, kSequenceId, kSequence);
  if (is_first_packet_) put_number(packet_, kSequenceFlags, kIncrementalStateCleared);
  is_first_packet_ = false;
  put_bytes(buffer_, kPacket, packet_);
  packet_.clear();
  if (buffer_.size() >= kBufferBytes) flush();
}

void PerfettoWriter::flush() {
  std::size_t done = 0;
  while (done < buffer_.size() && failure_ == 0) {
    const ssize_t wrote = write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      failure_ = errno;
    } else {
      done += static_cast<std::size_t>(wrote);
    }
  }
  buffer_.clear();
}

void PerfettoWriter::define_process(std::uint64_t id, std::uint32_t pid, std::string_view name) {
  std::string process, track;
  put_number(process, kPid, pid);
  put_bytes(process, kProcessName, name);
  put_number(track, kUuid, id);
  put_bytes(track, kName, name);
  put_bytes(track, kProcess, process);
  put_number(track, kChildOrdering, kOrderExplicit);
  put_bytes(packet_, kTrackDescriptor, track);
  end_packet();
}

void PerfettoWriter::define_track(std::uint64_t id, std::uint64_t parent, std::string_view name, std::uint32_t rank) {
  std::string track;
  put_number(track, kUuid, id);
  put_number(track, kParentUuid, parent);
  put_bytes(track, kName, name);
  put_number(track, kSiblingRank, rank);
  put_bytes(packet_, kTrackDescriptor, track);
  end_packet();
}

void PerfettoWriter::slice(std::uint64_t track, std::uint64_t start_ns, std::uint64_t end_ns, std::string_view category,
                           std::string_view name, std::span<const Note> notes) {
  std::string event;
  for (const Note& note : notes) {
    std::string annotation;
    put_bytes(annotation, kAnnotationName, note.name);
    put_number(annotation, kUintValue, note.value);
    put_bytes(event, kDebugAnnotations, annotation);
  }
  put_number(event, kType, kSliceBegin);
  put_number(event, kTrackUuid, track);
  put_bytes(event, kCategories, category);
  put_bytes(event, kEventName, name);
  put_number(packet_, kTimestamp, start_ns);
  put_bytes(packet_, kTrackEvent, event);
  end_packet();

  event.clear();
  put_number(event, kType, kSliceEnd);
  put_number(event, kTrackUuid, track);
  put_number(packet_, kTimestamp, end_ns);
  put_bytes(packet_, kTrackEvent, event);
  end_packet();
}

drv::Status PerfettoWriter::finish() {
  flush();
  if (close(fd_) != 0 && failure_ == 0) failure_ = errno;
  fd_ = -1;
  if (failure_ == 0) return {};
  return drv::fail(JAL_ERROR_FILE_IO, "trace file {}: writing failed: {}; it is not complete", path_,
                   std::strerror(failure_));
}

}  // namespace jal::rt
