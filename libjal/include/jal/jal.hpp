// The C++ face of libjal: RAII over the C functions, one class per noun, errors as jal::Error.
//
// What it is not: more functionality; everything here is inline and calls the C ABI, so it may be mixed with C handles.
// Objects are movable and own their handle; destructors never throw. Deadlines are durations here ("at most 60 s").
// Threads: as the C functions: one thread at a time uses a stream.
#pragma once
#include <jal/jal.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace jal {

/// A failed call: its status, and as what() the message with values, limit and fix.
class Error : public std::runtime_error {
 public:
  explicit Error(jal_status_t status)
      : std::runtime_error(std::string(jal_status_name(status)) + ": " + jal_last_error_message()), status_(status) {}
  jal_status_t status() const noexcept { return status_; }

 private:
  jal_status_t status_;
};

/// Throws Error unless status is JAL_OK.
inline void check(jal_status_t status) {
  if (status != JAL_OK) throw Error(status);
}

using Duration = std::chrono::nanoseconds;
inline constexpr Duration kDefaultTimeout = std::chrono::seconds(60);

inline std::uint64_t deadline(Duration timeout) noexcept {
  return jal_clock_deadline(timeout.count() > 0 ? static_cast<std::uint64_t>(timeout.count()) : 0);
}

/// The library is initialised while one of these lives.
class Library {
 public:
  Library() { check(jal_init(nullptr)); }
  explicit Library(jal_init_options options) {
    options.struct_size = sizeof options;
    check(jal_init(&options));
  }
  ~Library() {
    if (is_open_) (void)jal_shutdown();
  }
  Library(Library&& other) noexcept : is_open_(std::exchange(other.is_open_, false)) {}
  Library& operator=(Library&&) = delete;

 private:
  bool is_open_ = true;
};

namespace detail {

/// Owns one C handle; Destroy's failure has nobody to tell.
template <typename Handle, jal_status_t (*Destroy)(Handle) JAL_NOEXCEPT>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle handle) noexcept : handle_(handle) {}
  ~Owner() { reset(); }
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Handle get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  Handle release() noexcept { return std::exchange(handle_, nullptr); }
  void reset() noexcept {
    if (handle_ != nullptr) (void)Destroy(std::exchange(handle_, nullptr));
  }

 private:
  Handle handle_ = nullptr;
};

/// A stream with pending work waits for it before it goes.
inline jal_status_t destroy_stream(jal_stream_t stream) noexcept {
  const jal_status_t status = jal_stream_destroy(stream);
  if (status != JAL_ERROR_QUEUE_BUSY) return status;
  (void)jal_stream_synchronize(stream, deadline(kDefaultTimeout));
  return jal_stream_destroy(stream);
}

}  // namespace detail

/// A launch argument from its C++ value.
inline jal_argument argument(std::uint32_t value) {
  jal_argument a{};
  a.type = JAL_ARGUMENT_U32;
  a.value.u32 = value;
  return a;
}
inline jal_argument argument(std::int32_t value) {
  jal_argument a{};
  a.type = JAL_ARGUMENT_I32;
  a.value.i32 = value;
  return a;
}
inline jal_argument argument(float value) {
  jal_argument a{};
  a.type = JAL_ARGUMENT_F32;
  a.value.f32 = value;
  return a;
}
inline jal_argument argument(std::uint64_t value) {
  jal_argument a{};
  a.type = JAL_ARGUMENT_U64;
  a.value.u64 = value;
  return a;
}
inline jal_argument argument(std::int64_t value) {
  jal_argument a{};
  a.type = JAL_ARGUMENT_I64;
  a.value.i64 = value;
  return a;
}
inline jal_argument argument(double value) {
  jal_argument a{};
  a.type = JAL_ARGUMENT_F64;
  a.value.f64 = value;
  return a;
}
/// The descriptor must live until launch returns.
inline jal_argument argument(const jal_tensor_info& value) {
  jal_argument a{};
  a.type = JAL_ARGUMENT_TENSOR;
  a.value.tensor = &value;
  return a;
}
/// A device address as an argument: jal::Address{memory.address()}.
struct Address {
  jal_address_t value;
};
inline jal_argument argument(Address value) {
  jal_argument a{};
  a.type = JAL_ARGUMENT_ADDRESS;
  a.value.address = value.value;
  return a;
}
/// A plain struct by value; it must live until launch returns.
template <typename T>
requires(std::is_class_v<T>&& std::is_trivially_copyable_v<T>) jal_argument argument(const T& value) {
  jal_argument a{};
  a.type = JAL_ARGUMENT_BYTES;
  a.bytes = sizeof(T);
  a.value.data = &value;
  return a;
}

class Kernel {
 public:
  Kernel() = default;
  explicit Kernel(jal_kernel_t handle) : handle_(handle) {}
  jal_kernel_t get() const noexcept { return handle_; }
  jal_kernel_info info() const {
    jal_kernel_info info{};
    info.struct_size = sizeof info;
    check(jal_kernel_get_info(handle_, &info));
    return info;
  }

 private:
  jal_kernel_t handle_ = nullptr;  // lives as long as its module
};

class Event : public detail::Owner<jal_event_t, jal_event_destroy> {
 public:
  using Owner::Owner;
  /// False while the recorded work is pending.
  bool is_done() const {
    const jal_status_t status = jal_event_query(get());
    if (status == JAL_ERROR_NOT_READY) return false;
    check(status);
    return true;
  }
  void synchronize(Duration timeout = kDefaultTimeout) const { check(jal_event_synchronize(get(), deadline(timeout))); }
  std::uint64_t time_ps() const {
    std::uint64_t ps = 0;
    check(jal_event_time_ps(get(), &ps));
    return ps;
  }
};

/// Device time from one event to another, ps (modelled, on the device's clock).
inline std::int64_t elapsed_ps(const Event& from, const Event& to) {
  std::int64_t ps = 0;
  check(jal_event_elapsed_ps(from.get(), to.get(), &ps, nullptr));
  return ps;
}

class Memory : public detail::Owner<jal_memory_t, jal_memory_free> {
 public:
  using Owner::Owner;
  jal_memory_info info() const {
    jal_memory_info info{};
    info.struct_size = sizeof info;
    check(jal_memory_get_info(get(), &info));
    return info;
  }
  /// First byte in the lowest slice.
  jal_address_t address() const { return info().address; }
  jal_address_t address(std::uint32_t slice, std::uint64_t offset = 0) const {
    jal_address_t address = 0;
    check(jal_memory_address(get(), slice, offset, &address));
    return address;
  }
  /// Pointer to host-visible memory.
  void* map() const {
    void* pointer = nullptr;
    check(jal_memory_map(get(), &pointer));
    return pointer;
  }
};

class Stream : public detail::Owner<jal_stream_t, detail::destroy_stream> {
 public:
  using Owner::Owner;

  void copy_to_device(jal_address_t dst, const void* src, std::uint64_t bytes) {
    check(jal_copy_to_device(get(), dst, src, bytes));
  }
  void copy_to_host(void* dst, jal_address_t src, std::uint64_t bytes) {
    check(jal_copy_to_host(get(), dst, src, bytes));
  }
  void copy_device(jal_address_t dst, jal_address_t src, std::uint64_t bytes) {
    check(jal_copy_device(get(), dst, src, bytes));
  }
  void copy_to_slices(std::uint64_t slice_mask, std::uint64_t offset, const void* src, std::uint64_t bytes_per_slice) {
    check(jal_copy_to_slices(get(), slice_mask, offset, src, bytes_per_slice));
  }
  void copy_from_slices(void* dst, std::uint64_t slice_mask, std::uint64_t offset, std::uint64_t bytes_per_slice) {
    check(jal_copy_from_slices(get(), dst, slice_mask, offset, bytes_per_slice));
  }
  void fill(jal_address_t dst, std::uint32_t pattern, std::uint64_t bytes) {
    check(jal_copy_fill(get(), dst, pattern, bytes));
  }
  void fill_slices(std::uint64_t slice_mask, std::uint64_t offset, std::uint32_t pattern,
                   std::uint64_t bytes_per_slice) {
    check(jal_copy_fill_slices(get(), slice_mask, offset, pattern, bytes_per_slice));
  }

  /// launch(kernel, core_mask, 7u, 0.5f, tensor_info, jal::Address{...}): types are checked against the kernel's.
  template <typename... Arguments>
  void launch(const Kernel& kernel, std::uint64_t core_mask, const Arguments&... arguments) {
    const jal_argument list[sizeof...(Arguments) + 1] = {argument(arguments)..., jal_argument{}};
    check(jal_launch(get(), kernel.get(), core_mask, list, static_cast<std::uint32_t>(sizeof...(Arguments)), nullptr));
  }
  /// The same with a tag for traces and error records.
  template <typename... Arguments>
  void launch_tagged(std::uint64_t tag, const Kernel& kernel, std::uint64_t core_mask, const Arguments&... arguments) {
    const jal_argument list[sizeof...(Arguments) + 1] = {argument(arguments)..., jal_argument{}};
    jal_launch_options options{};
    options.struct_size = sizeof options;
    options.tag = tag;
    check(jal_launch(get(), kernel.get(), core_mask, list, static_cast<std::uint32_t>(sizeof...(Arguments)), &options));
  }
  /// The argument block as one struct, laid out as the kernel sees it.
  template <typename Block>
  requires(std::is_class_v<Block>&& std::is_trivially_copyable_v<Block>) void launch_packed(const Kernel& kernel,
                                                                                            std::uint64_t core_mask,
                                                                                            const Block& block) {
    check(jal_launch_packed(get(), kernel.get(), core_mask, &block, sizeof block, nullptr));
  }

  void record(const Event& event) { check(jal_event_record(event.get(), get())); }
  void wait(const Event& event) { check(jal_event_wait(event.get(), get())); }
  void synchronize(Duration timeout = kDefaultTimeout) { check(jal_stream_synchronize(get(), deadline(timeout))); }
  bool is_done() {
    const jal_status_t status = jal_stream_query(get());
    if (status == JAL_ERROR_NOT_READY) return false;
    check(status);
    return true;
  }
  void set_phase(std::uint32_t phase) { check(jal_stream_set_phase(get(), phase)); }
  void count_tokens(std::uint32_t phase, std::uint64_t tokens) { check(jal_stream_count_tokens(get(), phase, tokens)); }
  /// Packets that were dropped.
  std::uint64_t recover() {
    std::uint64_t dropped = 0;
    check(jal_stream_recover(get(), &dropped));
    return dropped;
  }
};

class Module : public detail::Owner<jal_module_t, jal_module_unload> {
 public:
  using Owner::Owner;
  Kernel kernel(const std::string& name) const {
    jal_kernel_t handle = nullptr;
    check(jal_module_kernel(get(), name.c_str(), &handle));
    return Kernel(handle);
  }
  std::vector<std::string> kernel_names() const {
    std::uint32_t count = 0;
    check(jal_module_kernel_count(get(), &count));
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < count; ++i) {
      jal_kernel_t handle = nullptr;
      check(jal_module_kernel_at(get(), i, &handle));
      names.emplace_back(Kernel(handle).info().name);
    }
    return names;
  }
};

/// Shape, layout and placement; a value.
class TensorInfo {
 public:
  TensorInfo(std::uint32_t dtype, std::initializer_list<std::uint64_t> dims) {
    check(jal_tensor_info_init(&info_, dtype, static_cast<std::uint32_t>(dims.size()), dims.begin()));
  }
  TensorInfo& shard(std::uint32_t dim, std::uint64_t slice_mask, std::uint32_t order = JAL_TENSOR_BLOCKED) {
    check(jal_tensor_shard(&info_, dim, slice_mask, order));
    return *this;
  }
  TensorInfo& replicate(std::uint64_t slice_mask) {
    check(jal_tensor_replicate(&info_, slice_mask));
    return *this;
  }
  TensorInfo& engine_tiling() {
    check(jal_tensor_set_tiling(&info_, JAL_TILING_ENGINE));
    return *this;
  }
  jal_tensor_info& get() noexcept { return info_; }
  const jal_tensor_info& get() const noexcept { return info_; }

 private:
  jal_tensor_info info_{};
};

/// The jal_tensor_host of an array; for downloads it must not be const.
inline jal_tensor_host tensor_host(std::uint32_t dtype, const void* data, const void* scales = nullptr) {
  jal_tensor_host host{};
  host.struct_size = sizeof host;
  host.dtype = dtype;
  host.data = const_cast<void*>(data);
  host.scales = const_cast<void*>(scales);
  return host;
}

class Tensor;

/// A device; valid while the library is initialised.
class Device {
 public:
  explicit Device(std::uint32_t index = 0) { check(jal_device_get(index, &handle_)); }
  static std::uint32_t count() {
    std::uint32_t count = 0;
    check(jal_device_count(&count));
    return count;
  }
  jal_device_t get() const noexcept { return handle_; }
  jal_device_info info() const {
    jal_device_info info{};
    info.struct_size = sizeof info;
    check(jal_device_get_info(handle_, &info));
    return info;
  }
  Stream stream(jal_stream_options options = {}) const {
    options.struct_size = sizeof options;
    jal_stream_t handle = nullptr;
    check(jal_stream_create(handle_, &options, &handle));
    return Stream(handle);
  }
  Event event() const {
    jal_event_t handle = nullptr;
    check(jal_event_create(handle_, &handle));
    return Event(handle);
  }
  /// bytes_per_slice on every slice of the mask, at one offset; mask 0 = all slices.
  Memory alloc(std::uint64_t slice_mask, std::uint64_t bytes_per_slice, std::uint32_t flags = 0) const {
    jal_memory_options options{};
    options.struct_size = sizeof options;
    options.flags = flags;
    options.slice_mask = slice_mask;
    options.bytes_per_slice = bytes_per_slice;
    jal_memory_t handle = nullptr;
    check(jal_memory_alloc(handle_, &options, &handle));
    return Memory(handle);
  }
  Memory alloc_on_slice(std::uint32_t slice, std::uint64_t bytes, std::uint32_t flags = 0) const {
    return alloc(std::uint64_t{1} << slice, bytes, flags);
  }
  Memory alloc_host_visible(std::uint64_t bytes) const { return alloc(0, bytes, JAL_MEMORY_HOST_VISIBLE); }
  jal_memory_layers memory(std::uint32_t slice = JAL_MEMORY_ALL_SLICES) const {
    jal_memory_layers layers{};
    layers.struct_size = sizeof layers;
    check(jal_memory_query(handle_, slice, &layers));
    return layers;
  }
  Module load(const std::string& path) const {
    jal_module_t handle = nullptr;
    check(jal_module_load(handle_, path.c_str(), &handle));
    return Module(handle);
  }
  Module load(std::span<const std::byte> bytes) const {
    jal_module_t handle = nullptr;
    check(jal_module_load_bytes(handle_, bytes.data(), bytes.size(), &handle));
    return Module(handle);
  }
  void copy_to_device(jal_address_t dst, const void* src, std::uint64_t bytes,
                      Duration timeout = kDefaultTimeout) const {
    check(jal_copy_to_device_blocking(handle_, dst, src, bytes, deadline(timeout)));
  }
  void copy_to_host(void* dst, jal_address_t src, std::uint64_t bytes, Duration timeout = kDefaultTimeout) const {
    check(jal_copy_to_host_blocking(handle_, dst, src, bytes, deadline(timeout)));
  }
  jal_telemetry telemetry() const {
    jal_telemetry telemetry{};
    telemetry.struct_size = sizeof telemetry;
    check(jal_telemetry_read(handle_, &telemetry));
    return telemetry;
  }
  std::uint64_t clock_ps() const {
    std::uint64_t ps = 0;
    check(jal_clock_device_ps(handle_, &ps, nullptr));
    return ps;
  }
  void idle(Duration duration, Duration timeout = kDefaultTimeout) const {
    check(jal_device_idle(handle_, static_cast<std::uint64_t>(duration.count()), deadline(timeout)));
  }
  /// Allocates a tensor's memory and places it there.
  Tensor tensor(const TensorInfo& info) const;

 private:
  jal_device_t handle_ = nullptr;
};

/// A descriptor with the memory it describes.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Device& device, const TensorInfo& shape)
      : device_(device.get()), info_(shape.get()), memory_(device.alloc(info_.slice_mask, info_.bytes_per_slice)) {
    info_.offset = memory_.info().offset;
  }
  const jal_tensor_info& info() const noexcept { return info_; }
  const Memory& memory() const noexcept { return memory_; }
  /// From a plain row-major array of `dtype`; MX codes come with their scales.
  void upload(std::uint32_t dtype, const void* data, const void* scales = nullptr, Duration timeout = kDefaultTimeout) {
    const jal_tensor_host host = tensor_host(dtype, data, scales);
    check(jal_tensor_upload(device_, &info_, &host, deadline(timeout)));
  }
  void download(std::uint32_t dtype, void* data, void* scales = nullptr, Duration timeout = kDefaultTimeout) const {
    const jal_tensor_host host = tensor_host(dtype, data, scales);
    check(jal_tensor_download(device_, &info_, &host, deadline(timeout)));
  }
  void upload(std::span<const float> values) { upload(JAL_DTYPE_F32, values.data()); }

 private:
  jal_device_t device_ = nullptr;
  jal_tensor_info info_{};
  Memory memory_;
};

inline jal_argument argument(const TensorInfo& value) { return argument(value.get()); }
inline jal_argument argument(const Tensor& value) { return argument(value.info()); }
inline Tensor Device::tensor(const TensorInfo& info) const { return Tensor(*this, info); }

}  // namespace jal
