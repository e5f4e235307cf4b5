// The operations of ops_llama.jko, launched through libjal: against double precision, and equal bits on every chip.
//
// Bounds, with u = 2^-24, half a unit in the last place: each FP32 operation rounds once, by at most u of its result,
// so a sum of n terms made by chains of c additions is within c u of the sum of their magnitudes (Higham 2002, ch. 4).
// BF16 activations and keys are rounded first in the reference too. What is behind a bound stands beside it.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/conformance/ops/chip.hpp"

namespace jal::test {
namespace {

struct Shape {
  std::uint32_t rows, k, m;
};
const Shape kShapes[] = {{576, 576, 1}, {2880, 2880, 1}, {960, 576, 17},  {100, 2880, 3},
                         {3, 64, 2},    {1, 32, 1},      {192, 1536, 64}, {64, 100, 5}};

constexpr double kU = 0x1p-24;

/// A panel has at most k / 8 + 32 elements in 16 lanes: a chain of k / 128 + 2 fused steps, then 4 additions of the
/// fold and 3 of the bracket; 7 more u for the second order and for denormals that are flushed.
double gemm_bound(std::uint32_t k) { return (k / 128.0 + 16) * kU; }

TEST(Gemm, Bf16WeightsByFp32) {
  for (const Shape& shape : kShapes) {
    const auto w = random_floats(std::size_t{shape.rows} * shape.k, 1);
    std::vector<std::uint16_t> codes(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) codes[i] = kernel::bf16_from_f32(w[i]);
    const auto x = random_floats(std::size_t{shape.m} * shape.k, 2);
    const auto y = on_every_chip([&](Chip& chip) {
      const Tensor matrix = chip.deal(JAL_DTYPE_BF16, shape.rows, shape.k, codes.data());
      jal_llama_part part{};
      part.matrix_offset = static_cast<std::uint32_t>(matrix.info().offset);
      part.rows = shape.rows;
      part.k = shape.k;
      return chip.run("llama_gemm_bf16_f32", step_of(shape.m), part, x, std::size_t{shape.m} * shape.rows);
    });
    const double bound = gemm_bound(shape.k);
    for (std::uint32_t t = 0; t < shape.m; ++t) {
      for (std::uint32_t r = 0; r < shape.rows; ++r) {
        double sum = 0, magnitude = 0;
        for (std::uint32_t i = 0; i < shape.k; ++i) {
          const double p = static_cast<double>(kernel::f32_from_bf16(codes[std::size_t{r} * shape.k + i])) *
                           static_cast<double>(x[std::size_t{t} * shape.k + i]);
          sum += p;
          magnitude += std::abs(p);
        }
        ASSERT_NEAR(static_cast<double>(y[std::size_t{t} * shape.rows + r]), sum, magnitude * bound)
            << shape.rows << " x " << shape.k << ", row " << r;
      }
    }
  }
}

double rounded_bf16(double x) {
  const double unit = std::ldexp(1.0, std::ilogb(x) - 7);
  return x == 0 ? 0 : std::nearbyint(x / unit) * unit;
}

/// Codes and scales by hand: any code is a value, so no quantiser is needed.
TEST(Gemm, MxWeightsByBf16) {
  const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (const bool is_fp4 : {false, true}) {
    for (const Shape& shape :
         {Shape{576, 576, 1}, Shape{2880, 2880, 1}, Shape{100, 576, 9}, Shape{3, 64, 2}, Shape{50, 1536, 33}}) {
      std::mt19937 draw(shape.rows + shape.k);
      const std::uint32_t blocks = (shape.k + 31) / 32;
      std::vector<std::uint8_t> codes(std::size_t{shape.rows} * blocks * (is_fp4 ? 16 : 32)),
          scales(std::size_t{shape.rows} * blocks);
      for (auto& c : codes) c = static_cast<std::uint8_t>(is_fp4 || draw() % 128 != 127 ? draw() : 0);
      for (auto& c : codes) {
        if (!is_fp4 && (c & 0x7f) == 0x7f) c = 0;  // NaN has its own test in the engines
      }
      for (auto& s : scales) s = static_cast<std::uint8_t>(120 + draw() % 8);
      const auto value = [&](std::uint32_t r, std::uint32_t i) {
        const double scale = std::ldexp(1.0, scales[std::size_t{r} * blocks + i / 32] - 127);
        if (is_fp4) {
          const std::uint8_t byte = codes[(std::size_t{r} * blocks * 32 + i) / 2];
          const unsigned code = i % 2 == 0 ? byte & 15u : byte >> 4;
          return (code >= 8 ? -1 : 1) * e2m1[code & 7] * scale;
        }
        const std::uint8_t code = codes[std::size_t{r} * blocks * 32 + i];
        const int exponent = code >> 3 & 15, mantissa = code & 7;
        const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
        return (code >= 128 ? -1 : 1) * magnitude * scale;
      };
      const auto x = random_floats(std::size_t{shape.m} * shape.k, 3);
      const auto y = on_every_chip([&](Chip& chip) {
        const Tensor matrix =
            chip.deal(is_fp4 ? JAL_DTYPE_MXFP4 : JAL_DTYPE_MXFP8, shape.rows, shape.k, codes.data(), scales.data());
        jal_llama_part part{};
        part.matrix_offset = static_cast<std::uint32_t>(matrix.info().offset);
        part.rows = shape.rows;
        part.k = shape.k;
        return chip.run(is_fp4 ? "llama_gemm_mxfp4_bf16" : "llama_gemm_mxfp8_bf16", step_of(shape.m), part, x,
                        std::size_t{shape.m} * shape.rows);
      });
      const double bound = gemm_bound(shape.k);
      for (std::uint32_t t = 0; t < shape.m; ++t) {
        for (std::uint32_t r = 0; r < shape.rows; ++r) {
          double sum = 0, magnitude = 0;
          for (std::uint32_t i = 0; i < shape.k; ++i) {
            const double p = value(r, i) * rounded_bf16(static_cast<double>(x[std::size_t{t} * shape.k + i]));
            sum += p;
            magnitude += std::abs(p);
          }
          ASSERT_NEAR(static_cast<double>(y[std::size_t{t} * shape.rows + r]), sum, magnitude * bound + 1e-30)
              << shape.rows << " x " << shape.k << ", row " << r << (is_fp4 ? " fp4" : " fp8");
        }
      }
    }
  }
}

TEST(Vector, RmsnormSwigluResidual) {
  for (const std::uint32_t n : {576u, 2880u, 32u}) {
    for (const std::uint32_t m : {1u, 5u}) {
      const auto x = random_floats(std::size_t{m} * n, 4), w = random_floats(n, 5),
                 both = random_floats(std::size_t{m} * 2 * n, 6, 3);
      const auto normed = on_every_chip([&](Chip& chip) {
        const Memory weight = chip.buffer(w);
        jal_llama_step step = step_of(m);
        step.hidden = n;
        step.norm_epsilon = 1e-5f;
        step.norms_offset = Chip::offset(weight);
        return chip.run("llama_rmsnorm", step, {}, x, x.size());
      });
      const auto gated = on_every_chip([&](Chip& chip) {
        jal_llama_step step = step_of(m);
        step.ffn = n;
        return chip.run("llama_swiglu", step, {}, both, x.size());
      });
      const auto added = on_every_chip([&](Chip& chip) {
        const Memory other = chip.buffer(normed);
        jal_llama_step step = step_of(m);
        step.hidden = n;
        jal_llama_part part{};
        part.matrix_offset = Chip::offset(other);
        return chip.run("llama_residual", step, part, x, x.size());
      });
      for (std::uint32_t t = 0; t < m; ++t) {
        double squares = 0;
        for (std::uint32_t i = 0; i < n; ++i) squares += std::pow(static_cast<double>(x[t * n + i]), 2);
        const double r = 1 / std::sqrt(squares / n + 1e-5);
        for (std::uint32_t i = 0; i < n; ++i) {
          const std::size_t at = std::size_t{t} * n + i;
          const double exact = static_cast<double>(x[at]) * r * static_cast<double>(w[i]);
          // The sum of squares is a chain of n / 16 + 4 additions of positive terms, each rounded once before; the root
          // halves its error. Then: division by n, epsilon, root, reciprocal, two products.
          ASSERT_NEAR(static_cast<double>(normed[at]), exact, std::abs(exact) * ((n / 16.0 + 5) / 2 + 6) * kU);
          const auto gate = static_cast<double>(both[std::size_t{t} * 2 * n + i]),
                     up = static_cast<double>(both[std::size_t{t} * 2 * n + n + i]);
          const double swiglu = gate / (1 + std::exp(-gate)) * up;
          // exp: 1.1 units, 2.2 u; then 1 + it, the division, the product.
          ASSERT_NEAR(static_cast<double>(gated[at]), swiglu, std::abs(swiglu) * 6 * kU);
          ASSERT_EQ(added[at], x[at] + normed[at]);
        }
      }
    }
  }
}

TEST(Vector, RopeTurnsNeighbouringPairs) {
  constexpr std::uint32_t kHeads = 9, kD = 64, kM = 3, kPosition = 1000;
  const auto x = random_floats(std::size_t{kM} * kHeads * kD, 7);
  const auto y = on_every_chip([&](Chip& chip) {
    jal_llama_step step = step_of(kM);
    step.heads = kHeads;
    step.kv_heads = 3;
    step.head_dim = kD;
    step.rope_base = 10000;
    step.position = kPosition;
    return chip.run("llama_rope", step, {}, x, x.size());
  });
  for (std::uint32_t t = 0; t < kM; ++t) {
    for (std::uint32_t h = 0; h < kHeads; ++h) {
      for (std::uint32_t i = 0; i < kD / 2; ++i) {
        const double angle = (kPosition + t) * std::pow(10000.0, -2.0 * i / kD);
        const std::size_t at = (std::size_t{t} * kHeads + h) * kD + 2 * i;
        const auto a = static_cast<double>(x[at]), b = static_cast<double>(x[at + 1]);
        // The table's cos and sin, one product and the fused sum: each rounds once, together at most 3 u of each term.
        const double bound = 3 * kU * (std::abs(a) + std::abs(b));
        ASSERT_NEAR(static_cast<double>(y[at]), a * std::cos(angle) - b * std::sin(angle), bound);
        ASSERT_NEAR(static_cast<double>(y[at + 1]), b * std::cos(angle) + a * std::sin(angle), bound);
      }
    }
  }
}

/// Keys and values as BF16, scores and softmax in double. 9 heads over 3 KV heads; pages of 32 tokens on as many
/// slices.
TEST(Attention, PrefillAndDecodeOverPagedKv) {
  constexpr std::uint32_t kHeads = 9, kKv = 3, kD = 64, kGroup = kHeads / kKv, kWidth = (kHeads + 2 * kKv) * kD,
                          kTokens = 71;
  const auto qkv = random_floats(std::size_t{kTokens} * kWidth, 8);
  // The same tokens in one chunk and the rest, in halves, and one by one at the end.
  const std::vector<std::vector<std::uint32_t>> cuts = {{64, 7}, {33, 32, 6}, {20, 20, 19, 11, 1}};
  std::vector<float> first;
  for (const auto& cut : cuts) {
    const auto y = on_every_chip([&](Chip& chip) {
      jal_llama_step step{};
      const Memory kv = chip.place_attention(step, kHeads, kKv, kD, kTokens);
      std::vector<float> all;
      for (const std::uint32_t m : cut) {
        step.tokens = m;
        const auto begin = qkv.begin() + static_cast<std::ptrdiff_t>(step.position) * kWidth;
        const auto part =
            chip.run("llama_attention", step, {}, {begin, begin + static_cast<std::ptrdiff_t>(m) * kWidth},
                     std::size_t{m} * kHeads * kD);
        all.insert(all.end(), part.begin(), part.end());
        step.position += m;
      }
      return all;
    });
    if (first.empty()) first = y;
    EXPECT_EQ(y, first) << "chunks of a prompt do not change a bit";
  }
  // Rotated as the vector engine does it, so that keys round to the same BF16; that it is right is the test above.
  std::vector<float> turned = qkv;
  for (std::uint32_t t = 0; t < kTokens; ++t) {
    float c[kD / 2], s[kD / 2];
    kernel::rope_table_row(t, 10000, kD, c, s);
    for (std::uint32_t h = 0; h < kHeads + kKv; ++h) {
      for (std::uint32_t i = 0; i < kD / 2; ++i) {
        float* at = &turned[std::size_t{t} * kWidth + h * kD + 2 * i];
        const float a = at[0], b = at[1];
        at[0] = kernel::fma_f32(a, c[i], -(b * s[i]));
        at[1] = kernel::fma_f32(b, c[i], a * s[i]);
      }
    }
  }
  const auto as_bf16 = [&](std::uint32_t token, std::uint32_t column) {
    return static_cast<double>(
        kernel::f32_from_bf16(kernel::bf16_from_f32(turned[std::size_t{token} * kWidth + column])));
  };
  for (std::uint32_t t = 0; t < kTokens; ++t) {
    for (std::uint32_t h = 0; h < kHeads; ++h) {
      const std::uint32_t kv = h / kGroup;
      std::vector<double> score(t + 1);
      double top = -1e300, score_error = 0;
      for (std::uint32_t v = 0; v <= t; ++v) {
        double magnitude = 0;
        for (std::uint32_t i = 0; i < kD; ++i) {
          const double product =
              static_cast<double>(turned[std::size_t{t} * kWidth + h * kD + i]) * as_bf16(v, (kHeads + kv) * kD + i);
          score[v] += product / 8;
          magnitude += std::abs(product) / 8;
        }
        top = std::max(top, score[v]);
        // A dot of 64: chains of 4 fused steps in 16 lanes, 4 additions of the fold, the scale.
        score_error = std::max(score_error, 9 * kU * magnitude);
      }
      double sum = 0;
      for (double& value : score) sum += value = std::exp(value - top);
      for (std::uint32_t i = 0; i < kD; ++i) {
        double exact = 0, magnitude = 0;
        for (std::uint32_t v = 0; v <= t; ++v) {
          const double term = score[v] / sum * as_bf16(v, (kHeads + kKv + kv) * kD + i);
          exact += term;
          magnitude += std::abs(term);
        }
        // Of o and of l each: exp turns an error of s - m (of both, and of the difference, at most 16 here) into the
        // same relative one, and adds 2.2 u; 32 steps along a page; 2 merges with a weight and 3 roundings each. One
        // division.
        const double bound = 2 * (2 * score_error + 16 * kU + 2.2 * kU + 32 * kU + 2 * (2.2 + 16 + 3) * kU) + kU;
        ASSERT_NEAR(static_cast<double>(first[(std::size_t{t} * kHeads + h) * kD + i]), exact, magnitude * bound)
            << "token " << t << " head " << h;
      }
    }
  }
}

TEST(Sample, ArgmaxTopKAndTopP) {
  for (const std::uint32_t vocab : {49152u, 100u, 3u}) {
    auto logits = random_floats(vocab, 9, 2);
    const std::uint32_t middle = vocab / 2;
    logits[middle] = logits[vocab - 1] = 50;  // a tie: the lower id
    const auto choose = [&](float temperature, std::uint32_t k, float p, std::uint64_t seed) {
      return on_every_chip([&](Chip& chip) {
        const Memory result = chip.buffer(sizeof(jal_llama_result));
        jal_llama_step step = step_of(1);
        step.vocab = vocab;
        step.temperature = temperature;
        step.top_k = k;
        step.top_p = p;
        step.seed = seed;
        step.result_offset = Chip::offset(result);
        (void)chip.run("llama_sample", step, {}, logits, 0);
        jal_llama_result got{};
        chip.device.copy_to_host(&got, result.address(), sizeof got);
        return std::vector<float>{static_cast<float>(got.token), got.logit};
      });
    };
    EXPECT_EQ(choose(0, 1, 1, 0), (std::vector<float>{static_cast<float>(middle), 50}));
    // Two equal candidates far above the rest share the probability.
    bool seen[2] = {};
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const float token = choose(1, 3, 1, seed)[0];
      ASSERT_TRUE(token == static_cast<float>(middle) || token == static_cast<float>(vocab - 1));
      seen[token == static_cast<float>(vocab - 1)] = true;
    }
    EXPECT_TRUE(seen[0] && seen[1]);
    EXPECT_EQ(choose(1, 3, 0.4f, 5)[0], static_cast<float>(middle)) << "top-p keeps the first alone";
    EXPECT_EQ(choose(1, 1, 1, 6)[0], static_cast<float>(middle)) << "top-k keeps the first alone";
  }
}

TEST(Embed, RowsOfTheTable) {
  constexpr std::uint32_t kVocab = 1000, kHidden = 576;
  const auto table = random_floats(std::size_t{kVocab} * kHidden, 10);
  std::vector<std::uint16_t> codes(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) codes[i] = kernel::bf16_from_f32(table[i]);
  const std::uint32_t tokens[] = {0, 999, 5, 5, 500, 47, 48, 996};
  const auto y = on_every_chip([&](Chip& chip) {
    const Tensor matrix = chip.deal(JAL_DTYPE_BF16, kVocab, kHidden, codes.data());
    jal_llama_step step = step_of(8);
    step.vocab = kVocab;
    step.hidden = kHidden;
    step.embedding_offset = static_cast<std::uint32_t>(matrix.info().offset);
    std::copy(std::begin(tokens), std::end(tokens), step.token);
    return chip.run("llama_embed", step, {}, {}, std::size_t{8} * kHidden);
  });
  for (std::uint32_t t = 0; t < 8; ++t) {
    for (std::uint32_t i = 0; i < kHidden; ++i)
      ASSERT_EQ(y[t * kHidden + i], kernel::f32_from_bf16(codes[tokens[t] * std::size_t{kHidden} + i]));
  }
}

TEST(Parts, NoTokensDoNothingAndWrongShapesAreNamed) {
  Chip chip("jal-test4");
  jal_llama_part part{};
  part.rows = part.k = 64;
  for (const char* kernel : {"llama_embed", "llama_rmsnorm", "llama_rope", "llama_attention", "llama_swiglu",
                             "llama_residual", "llama_gemm_bf16_f32"}) {
    jal_llama_step step{};
    step.hidden = step.ffn = step.head_dim = 64;
    step.vocab = step.heads = step.kv_heads = 1;
    EXPECT_EQ(chip.run(kernel, step, part, {}, 0).size(), 0u) << kernel;
    step.tokens = JAL_LLAMA_CHUNK_MAX + 1;
    try {
      (void)chip.run(kernel, step, part, {}, 0);
      ADD_FAILURE() << kernel << " took too many tokens";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("JAL_LLAMA_CHUNK_MAX"), std::string::npos) << error.what();
      break;  // the queue is poisoned; one is enough
    }
  }
}

}  // namespace
}  // namespace jal::test
