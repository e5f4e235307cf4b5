// GEMV and GEMM of the matrix engine over an Arch of sixteen lanes; the same source for every vector instruction set.
//
// What it is not: compiled by itself. kernels_*.cpp includes it with its Arch and its flags.
// GEMV keeps the engine's lanes in vector lanes: a weight block is one operand. GEMM keeps 16 tokens in vector lanes
// and walks the engine's lanes one after the other, so that the fold is plain additions and weights need no
// transposition. Invariant: both give the definition's bits; roundings inside FlushScope are those of a panel, outside
// those of the bracket.
#pragma once
#include <type_traits>

#include "emulator/engines/kernels.hpp"
#include "emulator/engines/mxcsr.hpp"
#include "emulator/engines/simd/fold_avx2.hpp"
#include "jal/kernel/math.hpp"

namespace jal::emu {

/// Order in which lanes finish so that the fold is a binary counter: lane l meets l + 8 first, then l + 4, l + 2, l
/// + 1.
inline constexpr std::uint32_t kFoldOrder[kLanes] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

/// The multiplier with FP32 lanes: two fused multiply-adds a block, odd element first. kScaledOperand: activations are
/// BF16 times 2^8; MX weights come times 2^-8, for BF16 weights the factor is taken off the activations.
template <class A, WeightFormat F, bool kScaledOperand>
struct DotF32 {
  using Arch = A;
  using V = typename A::V;
  static constexpr WeightFormat kFormat = F;
  static constexpr std::size_t kActivationBytes = 128;
  static constexpr std::size_t kDecodedBytes = 128;
  static constexpr bool kDecodes = true;
  using Flush = FlushScope;
  /// What GEMM multiplies with once weights are decoded: one for both MX formats.
  using Decoded = DotF32<A, F == WeightFormat::mxfp4 ? WeightFormat::mxfp8 : F, kScaledOperand>;
  struct Weights {
    V odd, even;
  };
  using Activations = Weights;

  JAL_INLINE static Weights decode(const std::uint8_t* p, std::uint32_t scale) {
    Weights w;
    if constexpr (F == WeightFormat::mxfp8) {
      A::decode_mxfp8(p, scale, w.odd, w.even);
    } else if constexpr (F == WeightFormat::mxfp4) {
      A::decode_mxfp4(p, scale, w.odd, w.even);
    } else if constexpr (kScaledOperand) {
      A::decode_bf16_zipped(p, w.odd, w.even);
    } else {
      A::decode_bf16(p, w.odd, w.even);
    }
    return w;
  }
  JAL_INLINE static Weights of_pairs(auto pairs) {
    Weights w;
    A::split_pairs(pairs, w.odd, w.even);
    return w;
  }
  JAL_INLINE static void store(std::uint8_t* p, Weights w) {
    A::store(reinterpret_cast<float*>(p), w.odd);
    A::store(reinterpret_cast<float*>(p + 64), w.even);
  }
  JAL_INLINE static Activations load(const std::uint8_t* p) {
    Activations x{A::load(p), A::load(p + 64)};
    if constexpr (kScaledOperand && F == WeightFormat::bf16) {
      x.odd = A::mul(x.odd, A::set1(0x1p-8f));
      x.even = A::mul(x.even, A::set1(0x1p-8f));
    }
    return x;
  }
  JAL_INLINE static V dot(V acc, Weights w, Activations x) { return A::fma(w.even, x.even, A::fma(w.odd, x.odd, acc)); }
  /// Lane l of a stored block, for all tokens.
  JAL_INLINE static Weights broadcast(const std::uint8_t* p, std::uint32_t l) {
    const std::uint32_t at = position(l) * 4;
    return {A::broadcast(p + at), A::broadcast(p + 64 + at)};
  }
  static constexpr bool kZipped = kScaledOperand;
  static constexpr bool kDecodesRows = false;  ///< there is decode_rows()
  /// MXFP4 has no registers left: 0.92 times as fast with it. MXFP8: see DotPairs.
  static constexpr bool kFoldsEarly = A::kFoldsEarly && F == WeightFormat::bf16;

 private:
  static constexpr std::uint32_t position(std::uint32_t l) {
    return kScaledOperand && A::kScaledLayout == OperandLayout::scaled_f32_zipped ? zipped_position(l) : l;
  }
};

/// Whether every scale byte of a tile is in [least, most].
JAL_INLINE bool scales_are_within(const TileView& tile, std::uint8_t least, std::uint8_t most) {
  const std::uint8_t* scale = tile.scales;
  const std::uint8_t* end = scale + std::size_t{tile.rows} * tile.blocks;
  __m256i outside = _mm256_setzero_si256();
  for (; end - scale >= 32; scale += 32) {
    const __m256i scales = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scale));
    const __m256i below = _mm256_subs_epu8(_mm256_set1_epi8(static_cast<char>(least)), scales);
    const __m256i above = _mm256_subs_epu8(scales, _mm256_set1_epi8(static_cast<char>(most)));
    outside = _mm256_or_si256(outside, _mm256_or_si256(below, above));
  }
  bool are_within = _mm256_testz_si256(outside, outside) != 0;
  for (; scale < end; ++scale) are_within = are_within && *scale >= least && *scale <= most;
  return are_within;
}

/// The multiplier of a GEMV over an MXFP8 tile whose scales are small (see the Arch): its decoder multiplies denormals.
/// Only that product has any: operands are prepared without, and results are flushed here too.
template <class A>
struct DotQuickMxfp8 : DotF32<A, WeightFormat::mxfp8, true> {
  using Flush = FlushResultsScope;
  using Weights = typename DotF32<A, WeightFormat::mxfp8, true>::Weights;

  JAL_INLINE static Weights decode(const std::uint8_t* p, std::uint32_t scale) {
    Weights w;
    A::decode_mxfp8_quick(p, scale, w.odd, w.even);
    return w;
  }
  static bool takes(const TileView& tile) { return scales_are_within(tile, 0, kMaxQuickScale); }
};

/// The multiplier D of a GEMV over an MXFP8 tile of plain scales: one branch for the denormals of several rows, and
/// none for their scales. From cache, decoder tiles are 1.15 times as fast as with two branches a block (Zen 4).
template <class D>
struct DotPlainMxfp8 : D {
  using typename D::Weights;
  static constexpr bool kDecodesRows = true;

  /// One block of R rows, row r's at w + r * row_bytes with scale[r * scale_stride].
  template <int R>
  JAL_INLINE static void decode_rows(const std::uint8_t* w, std::size_t row_bytes, const std::uint8_t* scale,
                                     std::size_t scale_stride, Weights* out) {
    using A = typename D::Arch;
    __m256i bytes[R];
    decltype(A::small_mxfp8(bytes[0])) small = 0;
    JAL_UNROLL
    for (int r = 0; r < R; ++r) {
      bytes[r] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + static_cast<std::size_t>(r) * row_bytes));
      small |= A::small_mxfp8(bytes[r]);
    }
    if (small == 0) [[likely]] {
      JAL_UNROLL
      for (int r = 0; r < R; ++r) {
        out[r] = D::of_pairs(A::pairs_mxfp8_normal(bytes[r], scale[static_cast<std::size_t>(r) * scale_stride]));
      }
      return;
    }
    JAL_UNROLL
    for (int r = 0; r < R; ++r)
      out[r] = D::of_pairs(A::pairs_mxfp8_small(bytes[r], scale[static_cast<std::size_t>(r) * scale_stride]));
  }
  static bool takes(const TileView& tile) { return scales_are_within(tile, kMinPlainScale, kMaxPlainScale); }
};

/// Distance of prefetches, to the second-level cache. At 20 GB/s a memory's latency is 4 KiB; a pass over rows of K =
/// 2880 begins up to 17 KB before the linear prefetch. On Zen 4, from memory on one thread, 16 KiB to the second level
/// against 4 KiB to the first: BF16 of decoder tiles 1.48, MXFP8 1.41, MXFP4 1.18 times as fast.
inline constexpr std::size_t kPrefetchAhead = 16384;

/// Where the next block of R consecutive rows lies: row r's codes at w + r * row_bytes, its scale at scale + r *
/// blocks.
template <class D, int R>
struct BlockCursor {
  using V = typename D::V;
  const std::uint8_t* w;
  std::size_t row_bytes;
  const std::uint8_t* x;
  const std::uint8_t* scale;
  std::size_t scale_stride;

  const std::uint8_t* ahead;  ///< codes for later, as many as these rows have: a linear pass over what lies there
  const std::uint8_t* ahead_scales;

  /// Adds `blocks` blocks to one panel's lanes of each row. Rows share the activations and hide each other's latency.
  JAL_INLINE void add_blocks(V* acc, std::uint32_t blocks) {
    constexpr std::size_t kCodeBytes = block_code_bytes(D::kFormat);
    for (std::uint32_t i = 0; i < blocks; ++i) {
      JAL_UNROLL
      for (std::size_t at = 0; at < R * kCodeBytes; at += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(ahead + at), _MM_HINT_T1);
      }
      ahead += R * kCodeBytes;
      const auto tokens = D::load(x);
      if constexpr (D::kDecodesRows) {
        typename D::Weights weights[R];
        D::template decode_rows<R>(w, row_bytes, scale, scale_stride, weights);
        JAL_UNROLL
        for (int r = 0; r < R; ++r) acc[r] = D::dot(acc[r], weights[r], tokens);
      } else {
        JAL_UNROLL
        for (int r = 0; r < R; ++r) {
          const std::uint8_t* block = w + static_cast<std::size_t>(r) * row_bytes;
          const std::uint32_t e =
              D::kFormat == WeightFormat::bf16 ? 0 : scale[static_cast<std::size_t>(r) * scale_stride];
          acc[r] = D::dot(acc[r], D::decode(block, e), tokens);
        }
      }
      w += kCodeBytes;
      x += D::kActivationBytes;
      ++scale;
    }
  }
};

/// Adds panel p of P and those behind it to the rows' folds. A recursion, because a fold's step depends on the panel.
template <class D, std::uint32_t P, int R, std::uint32_t p = 0>
JAL_INLINE void add_panels(BlockCursor<D, R>& cursor, const PanelSplit& split,
                           typename D::Arch::template RowFold<D::kZipped>* fold) {
  typename D::V acc[R];
  JAL_UNROLL
  for (int r = 0; r < R; ++r) acc[r] = D::Arch::zero();
  if constexpr (p < P) cursor.add_blocks(acc, split.first[p + 1] - split.first[p]);
  JAL_UNROLL
  for (int r = 0; r < R; ++r) fold[r].template add_panel<p>(acc[r]);
  if constexpr (p + 1 < kPanels) add_panels<D, P, R, p + 1>(cursor, split, fold);
}

/// Panel sums of R rows, eight a row.
template <class D, std::uint32_t P, int R>
JAL_INLINE void gemv_some_rows(BlockCursor<D, R> cursor, const PanelSplit& split, __m256 minus_zero, float* sums) {
  if constexpr (D::kFormat != WeightFormat::bf16) {
    for (std::size_t at = 0; at < R * cursor.scale_stride; at += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(cursor.ahead_scales + at), _MM_HINT_T1);
    }
  }
  using A = typename D::Arch;
  const auto keep = [&](int r, __m256 folded) { _mm256_storeu_ps(sums + r * 8, _mm256_or_ps(folded, minus_zero)); };
  if constexpr (D::kFoldsEarly) {
    typename A::template RowFold<D::kZipped> fold[R];
    add_panels<D, P>(cursor, split, fold);
    JAL_UNROLL
    for (int r = 0; r < R; ++r) keep(r, fold[r].sums());
  } else {
    typename A::Half half[R][kPanels];
    for (std::uint32_t p = 0; p < P; ++p) {
      typename D::V acc[R];
      JAL_UNROLL
      for (int r = 0; r < R; ++r) acc[r] = A::zero();
      cursor.add_blocks(acc, split.first[p + 1] - split.first[p]);
      JAL_UNROLL
      for (int r = 0; r < R; ++r) half[r][p] = A::half(acc[r]);
    }
    JAL_UNROLL
    for (int r = 0; r < R; ++r) {
      for (std::uint32_t p = P; p < kPanels; ++p) half[r][p] = A::half(A::zero());
      keep(r, A::template fold_8<D::kZipped>(half[r]));
    }
  }
}

/// Panel sums of every row, eight a row. P panels (1, 2, 4 or 8).
template <class D, std::uint32_t P>
void gemv_rows(const TileView& tile, const std::uint8_t* x, const PanelSplit& split, float* sums) {
  constexpr std::uint32_t kRows = D::Arch::kGemvRows;
  const typename D::Flush flush;
  // An empty panel's sum is -0, which leaves the other side of an addition as it is.
  alignas(32) std::uint32_t empty[kPanels];
  for (std::uint32_t p = 0; p < kPanels; ++p) {
    empty[p] = p < P && split.first[p + 1] > split.first[p] ? 0 : 0x80000000u;
  }
  const __m256 minus_zero = _mm256_load_ps(reinterpret_cast<const float*>(empty));
  const auto at = [&]<int R>(std::uint32_t row) {
    const std::size_t code_bytes = tile.rows * tile.row_bytes, code_at = row * tile.row_bytes;
    const std::size_t scale_at = std::size_t{row} * tile.blocks;
    // Codes at a distance while there are any, then the next tile's from its beginning; scales of the next tile, row
    // for row. Tiles without a next one lie one after the other, scales between the codes.
    const std::uint8_t* ahead = tile.codes + code_at + kPrefetchAhead;
    const std::uint8_t* ahead_scales = tile.scales + scale_at;
    if (tile.next_codes != nullptr) {
      const std::size_t jump = code_bytes > kPrefetchAhead ? code_bytes : kPrefetchAhead;
      if (code_at + kPrefetchAhead >= code_bytes) ahead = tile.next_codes + (code_at + kPrefetchAhead - jump);
      ahead_scales = tile.next_scales + scale_at;
    }
    return BlockCursor<D, R>{tile.codes + code_at, tile.row_bytes, x,           tile.scales + scale_at,
                             tile.blocks,          ahead,          ahead_scales};
  };
  // Rows are spread evenly over the passes: 9 rows are three times 3, not 4, 4 and 1.
  const std::uint32_t passes = (tile.rows + kRows - 1) / kRows;
  std::uint32_t row = 0;
  for (std::uint32_t pass = 0; pass < passes; ++pass) {
    const std::uint32_t rows = (tile.rows - row + (passes - pass) - 1) / (passes - pass);
    const auto take = [&]<int R>() {
      gemv_some_rows<D, P, R>(at.template operator()<R>(row), split, minus_zero, sums + row * kPanels);
    };
    if constexpr (kRows == 4) {
      if (rows == 4) {
        take.template operator()<4>();
      } else if (rows == 3) {
        take.template operator()<3>();
      }
    }
    static_assert(kRows == 4 || kRows == 2);
    if (rows == 2) {
      take.template operator()<2>();
    } else if (rows == 1) {
      take.template operator()<1>();
    }
    row += rows;
  }
}

/// NaN to the canonical NaN, eight at a time.
JAL_INLINE __m256 canonical_8(__m256 v) {
  return _mm256_blendv_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

template <class D>
void gemv(const TileView& tile, const std::uint8_t* x, const PanelSplit& split, float* y, float* scratch) {
  float* sums = scratch;
  switch (split.count) {
    case 1:
      gemv_rows<D, 1>(tile, x, split, sums);
      break;
    case 2:
      gemv_rows<D, 2>(tile, x, split, sums);
      break;
    case 4:
      gemv_rows<D, 4>(tile, x, split, sums);
      break;
    default:
      gemv_rows<D, 8>(tile, x, split, sums);
      break;
  }
  std::uint32_t row = 0;
  for (; row + 8 <= tile.rows; row += 8) _mm256_storeu_ps(y + row, canonical_8(tree_rows_8(sums + row * kPanels)));
  for (; row < tile.rows; ++row) {
    const float* s = sums + row * kPanels;
    y[row] = kernel::canonical(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
  }
}

/// Where a panel's decoded weights lie: row r, block b at weights + r * row_bytes + b * D::kDecodedBytes.
struct DecodedPanel {
  const std::uint8_t* weights;
  std::size_t row_bytes;
  std::uint32_t blocks;
};

/// Panel sums of R rows for T vectors of 16 tokens: out + (t * R + r) * 16. x[t]: block 0 of the panel, lane 0.
/// next[t]: the same of the groups that follow, brought to the cache meanwhile. stack: 4 * R * T * 16 floats.
template <class D, int R, int T>
void panel_sums(const DecodedPanel& panel, const std::uint8_t* const* x, const std::uint8_t* const* next, float* stack,
                float* out) {
  using A = typename D::Arch;
  using V = typename D::V;
  for (std::uint32_t step_index = 0; step_index < kLanes; ++step_index) {
    const std::uint32_t l = kFoldOrder[step_index];
    V acc[R * T];
    JAL_UNROLL
    for (int i = 0; i < R * T; ++i) acc[i] = A::zero();
    const std::size_t share = panel.blocks * D::kActivationBytes;
    for (std::size_t at = step_index * share; at < (step_index + 1) * share; at += 64) {
      JAL_UNROLL
      for (int t = 0; t < T; ++t) _mm_prefetch(reinterpret_cast<const char*>(next[t] + at), _MM_HINT_T0);
    }
    for (std::uint32_t b = 0; b < panel.blocks; ++b) {
      typename D::Activations tokens[T];
      JAL_UNROLL
      for (int t = 0; t < T; ++t) tokens[t] = D::load(x[t] + (std::size_t{b} * kLanes + l) * D::kActivationBytes);
      JAL_UNROLL
      for (int r = 0; r < R; ++r) {
        const auto w =
            D::broadcast(panel.weights + static_cast<std::size_t>(r) * panel.row_bytes + b * D::kDecodedBytes, l);
        JAL_UNROLL
        for (int t = 0; t < T; ++t) acc[t * R + r] = D::dot(acc[t * R + r], w, tokens[t]);
      }
    }
    std::uint32_t level = 0;
    for (; (step_index >> level & 1u) != 0; ++level) {
      const float* earlier = stack + level * std::uint32_t{R * T} * kLanes;
      JAL_UNROLL
      for (int i = 0; i < R * T; ++i) acc[i] = A::add(A::load(earlier + i * 16), acc[i]);
    }
    float* target = level == 4 ? out : stack + level * std::uint32_t{R * T} * kLanes;
    JAL_UNROLL
    for (int i = 0; i < R * T; ++i) A::store(target + i * 16, acc[i]);
  }
}

/// group_bytes: from one group of 16 tokens to the next.
template <class D, int R>
void panel_groups(const DecodedPanel& panel, const std::uint8_t* x, std::size_t group_bytes, std::uint32_t groups,
                  float* stack, float* out) {
  constexpr std::uint32_t kT = D::Arch::kTokenVectors;
  std::uint32_t g = 0;
  if constexpr (kT > 1) {
    for (; g + kT <= groups; g += kT) {
      const std::uint8_t* tokens[kT];
      const std::uint8_t* next[kT];
      JAL_UNROLL
      for (std::uint32_t t = 0; t < kT; ++t) {
        tokens[t] = x + (g + t) * group_bytes;
        next[t] = tokens[t] + kT * group_bytes;
      }
      panel_sums<D, R, kT>(panel, tokens, next, stack, out + std::size_t{g} * R * kLanes);
    }
  }
  for (; g < groups; ++g) {
    const std::uint8_t* tokens[1] = {x + g * group_bytes};
    const std::uint8_t* next[1] = {tokens[0] + group_bytes};
    panel_sums<D, R, 1>(panel, tokens, next, stack, out + std::size_t{g} * R * kLanes);
  }
}

/// Panel sums of `rows` (1 .. kMaxRows) rows: out + (group * rows + r) * 16.
template <class D, int R = D::Arch::kMaxRows>
JAL_INLINE void panel_rows(std::uint32_t rows, const DecodedPanel& panel, const std::uint8_t* x,
                           std::size_t group_bytes, std::uint32_t groups, float* stack, float* out) {
  if constexpr (R > 1) {
    if (rows < R) {
      panel_rows<D, R - 1>(rows, panel, x, group_bytes, groups, stack, out);
      return;
    }
  }
  panel_groups<D, R>(panel, x, group_bytes, groups, stack, out);
}

/// The bracket over panels of 16 tokens: node of `width` panels from p; an empty panel contributes nothing.
template <class A>
bool panel_tree(const PanelSplit& split, std::uint32_t p, std::uint32_t width, const float* sums, std::size_t stride,
                typename A::V& value) {
  if (width == 1) {
    if (split.first[p] == split.first[p + 1]) return false;
    value = A::load(sums + p * stride);
    return true;
  }
  typename A::V right;
  const bool has_left = panel_tree<A>(split, p, width / 2, sums, stride, value);
  const bool has_right = panel_tree<A>(split, p + width / 2, width / 2, sums, stride, right);
  if (has_left && has_right) {
    value = A::add(value, right);
  } else if (has_right) {
    value = right;
  }
  return has_left || has_right;
}

template <class D>
void gemm(const TileView& tile, const std::uint8_t* x, std::uint32_t groups, std::uint32_t tokens,
          const PanelSplit& split, float* y, std::size_t y_stride, float* scratch) {
  using A = typename D::Arch;
  using V = typename D::V;
  constexpr std::uint32_t kRows = A::kMaxRows;
  const std::size_t group_bytes = std::size_t{tile.blocks} * kLanes * D::kActivationBytes;
  float* stack = scratch;
  float* sums = stack + std::size_t{4} * kRows * A::kTokenVectors * kLanes;
  const std::size_t panel_stride = std::size_t{groups} * kRows * kLanes;
  std::uint8_t* decoded = reinterpret_cast<std::uint8_t*>(sums + kPanels * panel_stride);

  const std::uint32_t passes = (tile.rows + kRows - 1) / kRows;
  std::uint32_t row = 0;
  for (std::uint32_t pass = 0; pass < passes; ++pass) {
    // Rows are spread evenly over the passes: 13 rows are 7 and 6, not 12 and 1.
    const std::uint32_t rows = (tile.rows - row + (passes - pass) - 1) / (passes - pass);
    {
      const FlushScope flush;
      for (std::uint32_t p = 0; p < split.count; ++p) {
        const std::uint32_t first = split.first[p];
        const std::uint32_t blocks = split.first[p + 1] - first;
        if (blocks == 0) continue;
        DecodedPanel panel{nullptr, 0, blocks};
        if constexpr (D::kDecodes) {
          panel.weights = decoded;
          panel.row_bytes = blocks * D::kDecodedBytes;
          for (std::uint32_t r = 0; r < rows; ++r) {
            const std::uint8_t* codes = tile.codes + (row + r) * tile.row_bytes + first * block_code_bytes(D::kFormat);
            const std::uint8_t* scale = tile.scales + std::size_t{row + r} * tile.blocks + first;
            for (std::uint32_t b = 0; b < blocks; ++b) {
              const std::uint32_t e = D::kFormat == WeightFormat::bf16 ? 0 : scale[b];
              D::store(decoded + r * panel.row_bytes + b * D::kDecodedBytes,
                       D::decode(codes + b * block_code_bytes(D::kFormat), e));
            }
          }
        } else {
          panel.weights = tile.codes + row * tile.row_bytes + first * D::kDecodedBytes;
          panel.row_bytes = tile.row_bytes;
        }
        panel_rows<typename D::Decoded>(rows, panel, x + std::size_t{first} * kLanes * D::kActivationBytes, group_bytes,
                                        groups, stack, sums + p * panel_stride);
      }
    }
    for (std::uint32_t g = 0; g < groups; ++g) {
      const std::uint32_t begin = g * kLanes;
      const std::uint32_t wanted = tokens - begin < kLanes ? tokens - begin : kLanes;
      alignas(64) float column[kRows][kLanes];
      for (std::uint32_t r = 0; r < rows; ++r) {
        V value = A::zero();
        panel_tree<A>(split, 0, split.count, sums + (std::size_t{g} * rows + r) * kLanes, panel_stride, value);
        A::store(column[r], A::select_nan(value, value));
      }
      for (std::uint32_t t = 0; t < wanted; ++t) {
        float* out = y + (begin + t) * y_stride + row;
        for (std::uint32_t r = 0; r < rows; ++r) out[r] = column[r][t];
      }
    }
    row += rows;
  }
}

/// Table entries: the multiplier follows from weight format and operand layout.
template <class A>
struct MatrixKernels {
  static void gemv(const TileView& tile, OperandLayout layout, const void* operand, const PanelSplit& split, float* y,
                   float* scratch) {
    const std::uint8_t* x = static_cast<const std::uint8_t*>(operand);
    // Nearly every tile's scales allow a quicker decoder.
    using Usual = std::conditional_t<A::kHasQuickMxfp8, DotQuickMxfp8<A>, DotPlainMxfp8<Scaled<WeightFormat::mxfp8>>>;
    if (tile.format == WeightFormat::mxfp8 && Usual::takes(tile)) return emu::gemv<Usual>(tile, x, split, y, scratch);
    with_dot(tile.format, layout, [&]<class D>(D*) { emu::gemv<D>(tile, x, split, y, scratch); });
  }
  static void gemm(const TileView& tile, OperandLayout layout, const void* operand, std::uint32_t groups,
                   std::uint32_t tokens, const PanelSplit& split, float* y, std::size_t y_stride, float* scratch) {
    const std::uint8_t* x = static_cast<const std::uint8_t*>(operand);
    with_dot(tile.format, layout,
             [&]<class D>(D*) { emu::gemm<D>(tile, x, groups, tokens, split, y, y_stride, scratch); });
  }

 private:
  /// The multiplier of BF16 activations: pairs where the Arch has them.
  template <WeightFormat F>
  static constexpr auto scaled() {
    if constexpr (A::kScaledLayout == OperandLayout::scaled_pairs_zipped) {
      return static_cast<typename A::template DotPairs<F>*>(nullptr);
    } else {
      return static_cast<DotF32<A, F, true>*>(nullptr);
    }
  }
  template <WeightFormat F>
  using Scaled = std::remove_pointer_t<decltype(scaled<F>())>;

  template <class F>
  JAL_INLINE static void with_dot(WeightFormat format, OperandLayout layout, F&& f) {
    if (layout == OperandLayout::plain_f32) {
      return f(static_cast<DotF32<A, WeightFormat::bf16, false>*>(nullptr));
    }
    switch (format) {
      case WeightFormat::bf16:
        return f(scaled<WeightFormat::bf16>());
      case WeightFormat::mxfp8:
        return f(scaled<WeightFormat::mxfp8>());
      case WeightFormat::mxfp4:
        return f(scaled<WeightFormat::mxfp4>());
    }
  }
};

}  // namespace jal::emu
