// Where a device's spans go while somebody traces.
//
// What it is not: a buffer or a file; the sink belongs to the client's runtime. Threads: set() only while the device is
// not stepped; emit() from the stepping thread (cores' spans are emitted after their workers joined).
#pragma once
#include <jal/abi/instance.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace jal::emu {

class TraceTap {
 public:
  explicit TraceTap(std::uint32_t device) : device_(device) {}

  void set(jal_trace_sink sink, void* user) {
    sink_ = sink;
    user_ = user;
  }
  /// Ask before making a span.
  bool is_on() const { return sink_ != nullptr; }
  /// Fills in the device and the name and hands the span over.
  void emit(jal_trace_span span, std::string_view name) const {
    if (sink_ == nullptr) return;
    span.device = device_;
    const std::size_t bytes = std::min(name.size(), sizeof span.name - 1);
    std::memset(span.name, 0, sizeof span.name);
    std::memcpy(span.name, name.data(), bytes);
    sink_(user_, &span);
  }

 private:
  const std::uint32_t device_;
  jal_trace_sink sink_ = nullptr;
  void* user_ = nullptr;
};

}  // namespace jal::emu
