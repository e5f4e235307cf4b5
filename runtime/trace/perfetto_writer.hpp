// Writes a Perfetto trace file (protobuf, perfetto.dev): processes, tracks and slices; nothing else of the format.
//
// What it is not: a protobuf library; fields are encoded by hand, their numbers are those of Perfetto's
// protos/perfetto/trace/trace_packet.proto and track_event/*.proto, which only grow. Invariant: whole packets reach the
// file; a write that fails is remembered and told by finish(). Threads: externally synchronised.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "driver/base/status.hpp"

namespace jal::rt {

class PerfettoWriter {
 public:
  /// Replaces the file. FILE_IO.
  static drv::Result<std::unique_ptr<PerfettoWriter>> create(const std::string& path);
  /// Writes what is buffered, if finish() was not called.
  ~PerfettoWriter();
  PerfettoWriter(const PerfettoWriter&) = delete;
  PerfettoWriter& operator=(const PerfettoWriter&) = delete;

  /// A process: a group of tracks in the viewer. Identities are the caller's, never 0.
  void define_process(std::uint64_t id, std::uint32_t pid, std::string_view name);
  /// A track in it; tracks are shown by ascending rank.
  void define_track(std::uint64_t id, std::uint64_t parent, std::string_view name, std::uint32_t rank);

  struct Note {
    std::string_view name;
    std::uint64_t value;
  };
  /// A span on a track, in ns. Spans of one track must not overlap.
  void slice(std::uint64_t track, std::uint64_t start_ns, std::uint64_t end_ns, std::string_view category,
             std::string_view name, std::span<const Note> notes);

  /// Writes the rest and closes. FILE_IO if any write failed.
  drv::Status finish();

 private:
  PerfettoWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  void end_packet();
  void flush();

  int fd_;
  const std::string path_;
  int failure_ = 0;  // errno of the first write that failed
  bool is_first_packet_ = true;
  std::string packet_;  // the packet under construction
  std::string buffer_;  // whole packets
};

}  // namespace jal::rt
