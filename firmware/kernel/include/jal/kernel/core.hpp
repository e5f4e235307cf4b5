// The kernel SDK: what the program of one core sees. A kernel is one C++ function that runs on every core of its
// dispatch.
//
// Core is the core itself (no copy, no allocation): every member is one verb of the chip (core_abi.h). Verbs that move
// or compute issue and return an Ev; nothing blocks but wait(), the collectives and recv(). Tiles are opaque L1
// buffers: view() gives the scalar unit its elements, after the tile's last operation was waited for. A misuse ends the
// dispatch with kernel, core, file and line. Freestanding: no heap, no exceptions, no libc. Threads: a Core belongs to
// its kernel invocation.
#pragma once
#include <jal/abi/address.h>
#include <jal/abi/status.h>
#include <jal/kernel/core_abi.h>
#include <stdint.h>

#include <jal/kernel/entry.hpp>
#include <jal/kernel/math.hpp>
#include <jal/kernel/tensor.hpp>

namespace jal::kernel {

/// Completion ticket of an engine operation.
using Ev = jal_ev;

/// Call site, taken by default arguments; kernels never name it.
struct Site {
  jal_site site;
  static constexpr Site here(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
    return {{file, line}};
  }
};

/// Operations an engine waits for before it starts: After{e1, e2}. Up to 4.
class After {
 public:
  After() = default;
  After(Ev a) : ev_{a}, count_(1) {}
  After(Ev a, Ev b) : ev_{a, b}, count_(2) {}
  After(Ev a, Ev b, Ev c) : ev_{a, b, c}, count_(3) {}
  After(Ev a, Ev b, Ev c, Ev d) : ev_{a, b, c, d}, count_(4) {}
  jal_after raw() const { return {ev_, count_}; }

 private:
  Ev ev_[4];  // the first count_
  uint64_t count_ = 0;
};

/// Elements of a view: pointer and count.
template <typename T>
class View {
 public:
  View(T* data, uint32_t size) : data_(data), size_(size) {}
  T& operator[](uint32_t i) const { return data_[i]; }
  T* data() const { return data_; }
  uint32_t size() const { return size_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }

 private:
  T* data_;
  uint32_t size_;
};

/// An L1 tile of elements of T, or a part of one. A value; the L1 it names is freed by Core::release or at the kernel's
/// end.
template <typename T>
class Tile {
 public:
  Tile() = default;
  explicit Tile(jal_tile raw) : raw_(raw) {}
  uint32_t size() const { return bytes() / static_cast<uint32_t>(sizeof(T)); }
  uint32_t bytes() const { return jal_tile_bytes(raw_); }
  bool empty() const { return bytes() == 0; }
  /// Elements [first, first + count).
  Tile part(uint32_t first, uint32_t count) const {
    return Tile(jal_tile_make(jal_tile_id(raw_), jal_tile_offset(raw_) + uint64_t{first} * sizeof(T),
                              uint64_t{count} * sizeof(T)));
  }
  template <typename U>
  Tile<U> as() const {
    return Tile<U>(raw_);
  }
  jal_tile raw() const { return raw_; }

 private:
  jal_tile raw_ = {};
};

using Bytes = Tile<uint8_t>;

/// Core indices of a dispatch that take part in a collective.
struct Group {
  uint64_t mask;
};

/// Saved top of L1: Core::release(mark) frees what was allocated since.
struct Mark {
  jal_tile first;
};

class Core : public jal_core {
 public:
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // --- identity
  uint32_t id() const { return core_id; }  ///< physical core and its local HBM slice
  uint32_t rank() const { return index; }  ///< 0 .. size() - 1 among the cores of this dispatch
  uint32_t size() const { return count; }  ///< cores of this dispatch
  Group all() const { return {count >= 64 ? ~0ull : (1ull << count) - 1}; }
  uint64_t clock_ps() { return verbs->clock(this); }

  // --- L1
  template <typename T>
  Tile<T> alloc(uint32_t elements, Site site = Site::here()) {
    const uint64_t bytes = uint64_t{elements} * sizeof(T);
    return Tile<T>(verbs->alloc(this, bytes > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(bytes), &site.site));
  }
  /// Frees `from` and everything allocated after it.
  template <typename T>
  void release(Tile<T> from, Site site = Site::here()) {
    verbs->release(this, from.raw(), &site.site);
  }
  template <typename T>
  View<const T> view(Tile<T> tile, Site site = Site::here()) {
    return {static_cast<const T*>(verbs->view(this, tile.raw(), JAL_VIEW_READ, &site.site)), tile.size()};
  }
  template <typename T>
  View<T> write_view(Tile<T> tile, Site site = Site::here()) {
    return {static_cast<T*>(verbs->view(this, tile.raw(), JAL_VIEW_WRITE, &site.site)), tile.size()};
  }

  // --- DMA. The whole tile unless a part is passed.
  template <typename T>
  Ev load(Tile<T> dst, uint64_t src, After after = {}, Site site = Site::here()) {
    return verbs->load(this, dst.raw(), src, dst.bytes(), after.raw(), &site.site);
  }
  template <typename T>
  Ev store(uint64_t dst, Tile<T> src, After after = {}, Site site = Site::here()) {
    return verbs->store(this, dst, src.raw(), src.bytes(), after.raw(), &site.site);
  }
  void wait(Ev ev, Site site = Site::here()) { verbs->wait(this, ev, &site.site); }
  /// Address in this core's own slice.
  uint64_t local(uint64_t offset) const { return JAL_ADDRESS_HBM(core_id, offset); }

  // --- matrix engine
  uint32_t operand_bytes(uint32_t activation_dtype, uint32_t k, uint32_t m) {
    return verbs->operand_bytes(activation_dtype, k, m);
  }
  uint64_t weight_tile_bytes(uint32_t dtype, uint32_t rows, uint32_t k) {
    return verbs->weight_tile_bytes(dtype, rows, k);
  }
  /// FP32 x[m][x_stride] -> operand.
  Ev prepare(Bytes operand, Tile<float> x, uint32_t activation_dtype, uint32_t k, uint32_t m, uint32_t x_stride,
             After after = {}, Site site = Site::here()) {
    const jal_prepare_op op = {x.raw(), operand.raw(), activation_dtype, k, m, x_stride};
    return verbs->prepare(this, &op, after.raw(), &site.site);
  }
  Ev gemm(const jal_gemm_op& op, After after = {}, Site site = Site::here()) {
    return verbs->gemm(this, &op, after.raw(), &site.site);
  }
  Ev attention(const jal_attention_op& op, After after = {}, Site site = Site::here()) {
    return verbs->attention(this, &op, after.raw(), &site.site);
  }

  // --- vector engine
  Ev vec(const jal_vec_op& op, After after = {}, Site site = Site::here()) {
    return verbs->vec(this, &op, after.raw(), &site.site);
  }
  Ev add(Tile<float> out, Tile<float> a, Tile<float> b, After after = {}, Site site = Site::here()) {
    return elementwise(JAL_VEC_ADD, out, a, b, after, site);
  }
  Ev mul(Tile<float> out, Tile<float> a, Tile<float> b, After after = {}, Site site = Site::here()) {
    return elementwise(JAL_VEC_MUL, out, a, b, after, site);
  }
  /// out = silu(gate) * up
  Ev swiglu(Tile<float> out, Tile<float> gate, Tile<float> up, After after = {}, Site site = Site::here()) {
    return elementwise(JAL_VEC_SWIGLU, out, gate, up, after, site);
  }
  Ev scale(Tile<float> out, Tile<float> a, float factor, After after = {}, Site site = Site::here()) {
    jal_vec_op op = unary(JAL_VEC_SCALE, out, a);
    op.s0 = factor;
    return vec(op, after, site);
  }
  Ev copy(Tile<float> out, Tile<float> a, After after = {}, Site site = Site::here()) {
    return vec(unary(JAL_VEC_COPY, out, a), after, site);
  }
  /// Rows of n = weight.size(): out = a / rms(a) * weight.
  Ev rmsnorm(Tile<float> out, Tile<float> a, Tile<float> weight, float epsilon, uint32_t rows = 1, After after = {},
             Site site = Site::here()) {
    jal_vec_op op = {};
    op.fn = JAL_VEC_RMSNORM;
    op.n = weight.size();
    op.rows = rows;
    op.a_stride = op.out_stride = op.n;
    op.s0 = epsilon;
    op.a = a.raw();
    op.b = weight.raw();
    op.out = out.raw();
    return vec(op, after, site);
  }
  Ev bf16_from_f32(Tile<uint16_t> out, Tile<float> a, After after = {}, Site site = Site::here()) {
    jal_vec_op op = {};
    op.fn = JAL_VEC_BF16_FROM_F32;
    op.n = a.size();
    op.a = a.raw();
    op.out = out.raw();
    return vec(op, after, site);
  }
  Ev f32_from_bf16(Tile<float> out, Tile<uint16_t> a, After after = {}, Site site = Site::here()) {
    jal_vec_op op = {};
    op.fn = JAL_VEC_F32_FROM_BF16;
    op.n = a.size();
    op.a = a.raw();
    op.out = out.raw();
    return vec(op, after, site);
  }

  // --- collective network. Every member of the group calls with the same arguments; blocks until all came.
  Ev collective(const jal_coll_op& op, After after = {}, Site site = Site::here()) {
    return verbs->collective(this, &op, after.raw(), &site.site);
  }
  Ev barrier(Group group, Site site = Site::here()) {
    jal_coll_op op = {};
    op.kind = JAL_COLL_BARRIER;
    op.group = group.mask;
    return collective(op, {}, site);
  }
  /// dst of every member = src of `root` (a core index).
  template <typename T>
  Ev broadcast(Group group, uint32_t root, Tile<T> dst, Tile<T> src, After after = {}, Site site = Site::here()) {
    jal_coll_op op = {};
    op.kind = JAL_COLL_BROADCAST;
    op.group = group.mask;
    op.root = root;
    op.src = src.raw();
    op.dst = dst.raw();
    return collective(op, after, site);
  }
  /// dst[outer][all members' parts side by side]; src is [outer][own part]. Parts may differ in size, also be empty.
  template <typename T>
  Ev allgather(Group group, Tile<T> dst, Tile<T> src, uint32_t outer = 1, After after = {}, Site site = Site::here()) {
    jal_coll_op op = {};
    op.kind = JAL_COLL_ALLGATHER;
    op.group = group.mask;
    op.outer = outer;
    op.src = src.raw();
    op.dst = dst.raw();
    return collective(op, after, site);
  }
  /// Element-wise over the members in the bracket; `reduce` is JAL_REDUCE_*.
  template <typename T>
  Ev allreduce(Group group, uint32_t reduce, Tile<T> dst, Tile<T> src, After after = {}, Site site = Site::here()) {
    jal_coll_op op = {};
    op.kind = JAL_COLL_ALLREDUCE;
    op.op = reduce;
    op.group = group.mask;
    op.src = src.raw();
    op.dst = dst.raw();
    return collective(op, after, site);
  }
  template <typename T>
  Ev reduce(Group group, uint32_t reduce, uint32_t root, Tile<T> dst, Tile<T> src, After after = {},
            Site site = Site::here()) {
    jal_coll_op op = {};
    op.kind = JAL_COLL_REDUCE;
    op.op = reduce;
    op.group = group.mask;
    op.root = root;
    op.src = src.raw();
    op.dst = dst.raw();
    return collective(op, after, site);
  }

  // --- NoC: messages between two cores, first in first out for each pair.
  template <typename T>
  Ev send(uint32_t to, Tile<T> src, After after = {}, Site site = Site::here()) {
    return verbs->send(this, to, src.raw(), after.raw(), &site.site);
  }
  template <typename T>
  Ev recv(uint32_t from, Tile<T> dst, Site site = Site::here()) {
    return verbs->recv(this, from, dst.raw(), &site.site);
  }

  // --- words for people
  void print(const char* text, uint32_t bytes) { verbs->print(this, text, bytes); }
  /// printf-like; see format.hpp for what it knows. Text longer than 256 bytes is cut.
  template <typename... A>
  void printf(const char* format, A... values);
  /// Ends the dispatch with this text.
  [[noreturn]] void fail(const char* text, Site site = Site::here()) {
    verbs->fault(this, JAL_ERROR_KERNEL_FAULT, text, &site.site);
    __builtin_unreachable();
  }

 private:
  static jal_vec_op unary(uint32_t fn, Tile<float> out, Tile<float> a) {
    jal_vec_op op = {};
    op.fn = fn;
    op.n = out.size();
    op.a = a.raw();
    op.out = out.raw();
    return op;
  }
  Ev elementwise(uint32_t fn, Tile<float> out, Tile<float> a, Tile<float> b, After after, Site site) {
    jal_vec_op op = unary(fn, out, a);
    op.b = b.raw();
    return vec(op, after, site);
  }
};
static_assert(sizeof(Core) == sizeof(jal_core), "Core is a view of the chip's own object");

}  // namespace jal::kernel

#include <jal/kernel/format.hpp>

/// Ends the dispatch with the condition's text unless it holds. Always on.
#define JAL_KERNEL_ASSERT(core, condition)                          \
  do {                                                              \
    if (!(condition)) (core).fail("assertion failed: " #condition); \
  } while (false)
