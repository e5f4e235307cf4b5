// The vector engine's verb: one declared function over rows of FP32 (core_abi.h, JAL_VEC_*).
#include <jal/abi/status.h>
#include <spdlog/fmt/fmt.h>

#include <cstring>
#include <vector>

#include "emulator/cores/verb_scope.hpp"
#include "emulator/cores/verbs.hpp"
#include "emulator/engines/engines.hpp"

namespace jal::emu {
namespace {

/// Bytes that each operand of a function has in one row of n elements; 0: the function does not use it.
struct RowBytes {
  std::uint64_t a = 0, b = 0, c = 0, out = 0;
};

bool row_bytes(const jal_vec_op& op, RowBytes* bytes) {
  const std::uint64_t f = 4ull * op.n;
  switch (op.fn) {
    case JAL_VEC_FILL:
      *bytes = {0, 0, 0, f};
      return true;
    case JAL_VEC_COPY:
    case JAL_VEC_SCALE:
    case JAL_VEC_EXP:
    case JAL_VEC_SILU:
    case JAL_VEC_SOFTMAX:
      *bytes = {f, 0, 0, f};
      return true;
    case JAL_VEC_ADD:
    case JAL_VEC_SUB:
    case JAL_VEC_MUL:
    case JAL_VEC_AXPY:
    case JAL_VEC_SWIGLU:
    case JAL_VEC_RMSNORM:
      *bytes = {f, f, 0, f};
      return true;
    case JAL_VEC_FMA:
      *bytes = {f, f, f, f};
      return true;
    case JAL_VEC_SUM:
    case JAL_VEC_SUM_SQUARES:
    case JAL_VEC_MAX:
    case JAL_VEC_ARGMAX:
      *bytes = {f, 0, 0, 4};
      return true;
    case JAL_VEC_ROPE_PAIRS:
    case JAL_VEC_ROPE_HALVES:
      *bytes = {f, f / 2, f / 2, f};
      return op.n % 2 == 0;
    case JAL_VEC_ROPE_TABLE:
      *bytes = {0, 0, 0, f};
      return op.n % 2 == 0;
    case JAL_VEC_BF16_FROM_F32:
      *bytes = {f, 0, 0, f / 2};
      return true;
    case JAL_VEC_F32_FROM_BF16:
      *bytes = {f / 2, 0, 0, f};
      return true;
    case JAL_VEC_TOP_K:
      *bytes = {f, 0, 0, 8ull * op.u0};
      return op.u0 >= 1 && op.u0 <= op.n;
    case JAL_VEC_SOFTMAX_FINISH:
      *bytes = {f + 8, 0, 0, f};
      return true;
    default:
      return false;
  }
}

/// Bytes from the first to behind the last element of all rows.
std::uint64_t span_bytes(std::uint64_t row, std::uint32_t stride, std::uint32_t rows, std::uint64_t element) {
  return row == 0 ? 0 : (rows - 1ull) * stride * element + row;
}

/// One row. Pointers are to the row's first elements.
void apply(const jal_vec_op& op, const std::byte* a, const std::byte* b, const std::byte* c, std::byte* out) {
  const auto* fa = reinterpret_cast<const float*>(a);
  const auto* fb = reinterpret_cast<const float*>(b);
  const auto* fc = reinterpret_cast<const float*>(c);
  auto* fo = reinterpret_cast<float*>(out);
  const std::size_t n = op.n;
  switch (op.fn) {
    case JAL_VEC_COPY:
      std::memmove(fo, fa, n * 4);
      break;
    case JAL_VEC_FILL:
      vec_fill(op.s0, fo, n);
      break;
    case JAL_VEC_ADD:
      vec_add(fa, fb, fo, n);
      break;
    case JAL_VEC_SUB:
      vec_sub(fa, fb, fo, n);
      break;
    case JAL_VEC_MUL:
      vec_mul(fa, fb, fo, n);
      break;
    case JAL_VEC_FMA:
      vec_fma(fa, fb, fc, fo, n);
      break;
    case JAL_VEC_AXPY:
      vec_axpy(op.s0, fa, fb, fo, n);
      break;
    case JAL_VEC_SCALE:
      vec_scale(op.s0, fa, fo, n);
      break;
    case JAL_VEC_EXP:
      vec_exp(fa, fo, n);
      break;
    case JAL_VEC_SILU:
      vec_silu(fa, fo, n);
      break;
    case JAL_VEC_SWIGLU:
      vec_swiglu(fa, fb, fo, n);
      break;
    case JAL_VEC_SUM:
      *fo = vec_sum(fa, n);
      break;
    case JAL_VEC_SUM_SQUARES:
      *fo = vec_sum_squares(fa, n);
      break;
    case JAL_VEC_MAX:
      *fo = vec_max(fa, n);
      break;
    case JAL_VEC_RMSNORM:
      vec_rmsnorm(fa, fb, op.s0, fo, n);
      break;
    case JAL_VEC_SOFTMAX:
      vec_softmax(fa, fo, n);
      break;
    case JAL_VEC_ROPE_PAIRS:
      vec_rope_pairs(fa, fb, fc, fo, n / 2);
      break;
    case JAL_VEC_ROPE_HALVES:
      vec_rope_halves(fa, fb, fc, fo, n / 2);
      break;
    case JAL_VEC_ROPE_TABLE:
      rope_table(op.u0, op.s0, op.n, fo, fo + n / 2);
      break;
    case JAL_VEC_BF16_FROM_F32:
      vec_bf16_from_f32(fa, reinterpret_cast<std::uint16_t*>(out), n);
      break;
    case JAL_VEC_F32_FROM_BF16:
      vec_f32_from_bf16(reinterpret_cast<const std::uint16_t*>(a), fo, n);
      break;
    case JAL_VEC_ARGMAX: {
      const std::uint32_t index = vec_argmax(fa, n);
      std::memcpy(out, &index, 4);
      break;
    }
    case JAL_VEC_TOP_K: {
      std::vector<std::uint32_t> index(op.u0);
      std::vector<float> value(op.u0);
      vec_top_k(fa, n, op.u0, index.data(), value.data());
      for (std::uint32_t i = 0; i < op.u0; ++i) {
        std::memcpy(out + 8ull * i, &index[i], 4);
        std::memcpy(out + 8ull * i + 4, &value[i], 4);
      }
      break;
    }
    case JAL_VEC_SOFTMAX_FINISH: {
      float m = fa[n];
      float l = fa[n + 1];
      SoftmaxParts parts{&m, &l, const_cast<float*>(fa), n};
      softmax_finish(parts, 1, op.n, fo, n);
      break;
    }
    default:
      break;
  }
}

/// The same pure function of the same shared vectors was computed by another core: alias its result.
bool recall_rmsnorm(CoreState& core, const jal_vec_op& op, TileSlot& out, const std::byte* a, const std::byte* b,
                    std::uint64_t bytes) {
  const TileSlot& in = known_slot(core, op.a);
  const TileSlot& weight = known_slot(core, op.b);
  const std::uint32_t rows = op.rows == 0 ? 1 : op.rows;
  const bool is_dense = op.b_stride == 0 && (rows == 1 || (op.a_stride == op.n && op.out_stride == op.n));
  if (in.shared == nullptr || weight.shared == nullptr || !is_dense || !is_whole(out, op.out) ||
      jal_tile_bytes(op.out) != bytes)
    return false;
  const SharedBuffer::Key key{2,
                              static_cast<std::uint32_t>(a - in.shared->data),
                              op.n,
                              rows,
                              0,
                              weight.shared->identity,
                              static_cast<std::uint32_t>(b - weight.shared->data),
                              op.s0};
  SharedBuffer* input = in.shared;
  SharedBuffer* result = SharedPool::recall(input, key, core.worker->index);
  if (result == nullptr) {
    result = core.job->buffers().take(bytes, 1);
    for (std::uint32_t r = 0; r < rows; ++r)
      apply(op, a + 4ull * r * op.a_stride, b, nullptr, result->data + 4ull * r * op.out_stride);
    SharedPool::keep(input, key, result);
  }
  bind_shared(core, out, result);
  return true;
}

}  // namespace

template <bool kSanitize>
jal_ev vector_verb(jal_core* raw, const jal_vec_op* given, jal_after after, const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  const jal_vec_op& op = *given;
  const std::uint32_t rows = op.rows == 0 ? 1 : op.rows;
  RowBytes row;
  if (!row_bytes(op, &row) || (op.n == 0 && op.fn == JAL_VEC_ARGMAX)) {
    core.job->fault(core, JAL_ERROR_KERNEL_FAULT,
                    fmt::format("vec: function {} with n {}, u0 {}: not a legal operation", op.fn, op.n, op.u0), site);
  }
  const std::uint64_t a_element = op.fn == JAL_VEC_F32_FROM_BF16 ? 2 : 4;
  const std::uint64_t out_element = op.fn == JAL_VEC_BF16_FROM_F32 ? 2 : op.fn == JAL_VEC_TOP_K ? 8 : 4;
  const std::uint64_t a_bytes = span_bytes(row.a, op.a_stride, rows, a_element);
  const std::uint64_t b_bytes = span_bytes(row.b, op.b_stride, rows, 4);
  const std::uint64_t c_bytes = span_bytes(row.c, op.c_stride, rows, 4);
  const std::uint64_t out_bytes = span_bytes(row.out, op.out_stride, rows, out_element);
  const std::byte* a =
      row.a == 0 ? nullptr : source<kSanitize>(core, op.a, a_bytes, "vec's a", JAL_ENGINE_VECTOR, after);
  const std::byte* b =
      row.b == 0 ? nullptr : source<kSanitize>(core, op.b, b_bytes, "vec's b", JAL_ENGINE_VECTOR, after);
  const std::byte* c =
      row.c == 0 ? nullptr : source<kSanitize>(core, op.c, c_bytes, "vec's c", JAL_ENGINE_VECTOR, after);
  TileSlot& out = slot_of(core, op.out, "vec's out");
  if (out_bytes > jal_tile_bytes(op.out)) {
    core.job->fault(core, JAL_ERROR_KERNEL_FAULT,
                    fmt::format("vec's out needs {} bytes, its tile has {}", out_bytes, jal_tile_bytes(op.out)), site);
  }
  if (row.out != 0 && (kSanitize || op.fn != JAL_VEC_RMSNORM || !recall_rmsnorm(core, op, out, a, b, out_bytes))) {
    // In place over a bound tile: the destination moves to L1, so an input in the same tile must move with it.
    const std::uint32_t out_id = jal_tile_id(op.out);
    const bool is_a = row.a != 0 && jal_tile_id(op.a) == out_id;
    const bool is_b = row.b != 0 && jal_tile_id(op.b) == out_id;
    const bool is_c = row.c != 0 && jal_tile_id(op.c) == out_id;
    const bool is_in_place = is_a || is_b || is_c;
    std::byte* to = destination<kSanitize>(core, op.out, out_bytes, "vec's out", is_in_place);
    if (is_in_place) {
      if (is_a) a = out.data + jal_tile_offset(op.a);
      if (is_b) b = out.data + jal_tile_offset(op.b);
      if (is_c) c = out.data + jal_tile_offset(op.c);
    }
    for (std::uint32_t r = 0; r < rows; ++r) {
      apply(op, a + a_element * r * op.a_stride, b + 4ull * r * op.b_stride, c + 4ull * r * op.c_stride,
            to + out_element * r * op.out_stride);
    }
  }
  const Charges& charges = core.job->charges();
  const std::uint64_t operations = static_cast<std::uint64_t>(vector_operations(op.fn)) * op.n * rows;
  core.energy_fj[JAL_UNIT_VECTOR] += charges.vector_fj(operations);
  core.energy_fj[JAL_UNIT_SCALAR] += charges.l1_fj(a_bytes + b_bytes + c_bytes + out_bytes);
  const jal_ev ev = verb.finish(kVector, JAL_UNIT_VECTOR, verb.start_ps(kVector, after), charges.vector_ps(operations),
                                charges.model().engine_start_ps);
  written_by<kSanitize>(core, op.out, ev);
  return ev;
}

template jal_ev vector_verb<false>(jal_core*, const jal_vec_op*, jal_after, const jal_site*);
template jal_ev vector_verb<true>(jal_core*, const jal_vec_op*, jal_after, const jal_site*);

}  // namespace jal::emu
