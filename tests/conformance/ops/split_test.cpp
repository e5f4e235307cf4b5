// Splitting an operation changes no bit: K over chips, heads over chips, tokens and rows over pieces. And what the
// shipped kernels refuse.
#include <bit>
#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/ops/chip.hpp"

namespace jal::test {
namespace {

/// Cuts of a K dimension over n chips, in elements: its blocks of 32 halved log2(n) times, the larger half first.
std::vector<std::uint32_t> cuts_of(std::uint32_t k, std::uint32_t n) {
  std::vector<std::uint32_t> blocks = {(k + 31) / 32};
  for (; blocks.size() < n;) {
    std::vector<std::uint32_t> halves;
    for (const std::uint32_t b : blocks) halves.insert(halves.end(), {(b + 1) / 2, b / 2});
    blocks = halves;
  }
  std::vector<std::uint32_t> cuts = {0};
  for (const std::uint32_t b : blocks) cuts.push_back(std::min(k, cuts.back() + 32 * b));
  return cuts;
}

/// The bracket over [first, last) of the chips' partial sums; an empty one contributes nothing.
std::vector<float> bracket(const std::vector<std::vector<float>>& parts, std::size_t first, std::size_t last) {
  if (last - first == 1) return parts[first];
  const std::size_t middle = first + (last - first + 1) / 2;
  auto left = bracket(parts, first, middle);
  auto right = bracket(parts, middle, last);
  if (left.empty()) return right;
  if (right.empty()) return left;
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

/// Columns [first, last) of a matrix.
template <typename T>
std::vector<T> columns(const std::vector<T>& all, std::size_t width, std::size_t first, std::size_t last) {
  std::vector<T> out;
  for (std::size_t at = 0; at < all.size(); at += width)
    out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(at + first),
               all.begin() + static_cast<std::ptrdiff_t>(at + last));
  return out;
}

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

struct Format {
  const char* kernel;
  std::uint32_t dtype, code_bytes;  // bytes of the codes of 32 elements
};
const Format kFormats[] = {{"llama_gemm_bf16_f32", JAL_DTYPE_BF16, 64},
                           {"llama_gemm_mxfp8_bf16", JAL_DTYPE_MXFP8, 32},
                           {"llama_gemm_mxfp4_bf16", JAL_DTYPE_MXFP4, 16}};

TEST(Split, KSharesOfChipsAddUpToTheWholeInEveryFormat) {
  Chip chip("jal1-48");
  for (const Format& format : kFormats) {
    for (const std::uint32_t k : {2880u, 576u, 96u, 32u}) {
      const std::uint32_t rows = 100, m = k == 576 ? 9 : 2, blocks = k / 32;
      std::mt19937 draw(k);
      std::vector<std::uint8_t> codes(std::size_t{rows} * blocks * format.code_bytes), scales;
      if (format.dtype == JAL_DTYPE_BF16) {
        const auto w = random_floats(std::size_t{rows} * k, k);
        for (std::size_t i = 0; i < w.size(); ++i) {
          const std::uint16_t code = kernel::bf16_from_f32(w[i]);
          codes[2 * i] = static_cast<std::uint8_t>(code);
          codes[2 * i + 1] = static_cast<std::uint8_t>(code >> 8);
        }
      } else {
        for (auto& c : codes) c = static_cast<std::uint8_t>(draw() & 0x77);  // no NaN code in either format
        scales.resize(std::size_t{rows} * blocks);
        for (auto& s : scales) s = static_cast<std::uint8_t>(120 + draw() % 8);
      }
      const auto x = random_floats(std::size_t{m} * k, 2);
      const auto run = [&](std::uint32_t first, std::uint32_t last, std::uint32_t panels) {
        const std::size_t b0 = first / 32, b1 = last / 32;
        const auto part_codes =
            columns(codes, std::size_t{blocks} * format.code_bytes, b0 * format.code_bytes, b1 * format.code_bytes);
        const auto part_scales = columns(scales, blocks, b0, b1);
        const Tensor matrix = chip.deal(format.dtype, rows, last - first, part_codes.data(),
                                        scales.empty() ? nullptr : part_scales.data());
        jal_llama_part part{};
        part.matrix_offset = static_cast<std::uint32_t>(matrix.info().offset);
        part.rows = rows;
        part.k = last - first;
        part.panels = panels;
        return chip.run(format.kernel, step_of(m), part, columns(x, k, first, last), std::size_t{m} * rows);
      };
      const auto whole = run(0, k, 0);
      EXPECT_TRUE(equal_bits(whole, run(0, k, 8)));
      for (const std::uint32_t n : {2u, 4u, 8u}) {
        const auto cuts = cuts_of(k, n);
        std::vector<std::vector<float>> parts(n);
        for (std::uint32_t chip_of = 0; chip_of < n; ++chip_of) {
          if (cuts[chip_of] < cuts[chip_of + 1]) parts[chip_of] = run(cuts[chip_of], cuts[chip_of + 1], 8 / n);
        }
        EXPECT_TRUE(equal_bits(whole, bracket(parts, 0, n))) << format.kernel << ", K " << k << " over " << n;
        if (k == 2880) {
          // The bracket matters: from left to right the same parts give other bits.
          auto chain = parts[0];
          for (std::uint32_t c = 1; c < n; ++c) {
            for (std::size_t i = 0; i < chain.size(); ++i) chain[i] += parts[c][i];
          }
          EXPECT_EQ(equal_bits(whole, chain), n == 2) << format.kernel << " over " << n;
        }
      }
    }
  }
}

TEST(Split, RowsOverChipsAreTheRowsOfTheWhole) {
  constexpr std::uint32_t kRows = 101, kK = 576;
  const auto w = random_floats(std::size_t{kRows} * kK, 3), x = random_floats(kK, 4);
  std::vector<std::uint16_t> codes(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) codes[i] = kernel::bf16_from_f32(w[i]);
  Chip chip("jal-test4");
  const auto run = [&](std::uint32_t first, std::uint32_t rows) {
    const Tensor matrix = chip.deal(JAL_DTYPE_BF16, rows, kK, codes.data() + std::size_t{first} * kK);
    jal_llama_part part{};
    part.matrix_offset = static_cast<std::uint32_t>(matrix.info().offset);
    part.rows = rows;
    part.k = kK;
    return chip.run("llama_gemm_bf16_f32", step_of(1), part, x, rows);
  };
  auto pieces = run(0, 51);
  const auto rest = run(51, 50);
  pieces.insert(pieces.end(), rest.begin(), rest.end());
  EXPECT_TRUE(equal_bits(run(0, kRows), pieces));
}

/// Tensor parallel attention: each chip has whole KV heads with their queries. Slices of KV are split on every chip:
/// a page of 32 tokens of one head is a unit, dealt over 4, 48 or 64 cores.
TEST(Split, KvHeadsOverChipsAndPagesOverCoresAreTheWhole) {
  constexpr std::uint32_t kHeads = 9, kKv = 3, kGroup = 3, kD = 64, kTokens = 50;
  const auto qkv = random_floats(std::size_t{kTokens} * (kHeads + 2 * kKv) * kD, 5);
  const auto attend = [&](Chip& chip, std::uint32_t heads, std::uint32_t kv_heads, const std::vector<float>& x) {
    jal_llama_step step = step_of(kTokens);
    const Memory kv = chip.place_attention(step, heads, kv_heads, kD, kTokens);
    return chip.run("llama_attention", step, {}, x, std::size_t{kTokens} * heads * kD);
  };
  const auto whole = on_every_chip([&](Chip& chip) { return attend(chip, kHeads, kKv, qkv); });
  Chip chip("jal-test4");
  constexpr std::uint32_t kWidth = (kHeads + 2 * kKv) * kD;
  for (std::uint32_t kv = 0; kv < kKv; ++kv) {
    const auto q = columns(qkv, kWidth, std::size_t{kv} * kGroup * kD, (std::size_t{kv} + 1) * kGroup * kD);
    const auto k = columns(qkv, kWidth, (std::size_t{kHeads} + kv) * kD, (std::size_t{kHeads} + kv + 1) * kD);
    const auto v =
        columns(qkv, kWidth, (std::size_t{kHeads} + kKv + kv) * kD, (std::size_t{kHeads} + kKv + kv + 1) * kD);
    std::vector<float> x;
    for (std::size_t t = 0; t < kTokens; ++t) {
      const auto add = [&](const std::vector<float>& from, std::size_t width) {
        const auto at = from.begin() + static_cast<std::ptrdiff_t>(t * width);
        x.insert(x.end(), at, at + static_cast<std::ptrdiff_t>(width));
      };
      add(q, kGroup * kD);
      add(k, kD);
      add(v, kD);
    }
    EXPECT_TRUE(equal_bits(attend(chip, kGroup, 1, x), columns(whole, kHeads * kD, std::size_t{kv} * kGroup * kD,
                                                               (std::size_t{kv} + 1) * kGroup * kD)))
        << "KV head " << kv;
  }
}

/// 64 tokens of what one token of fits in the small chip's L1: pieces of few tokens, rows in pieces, on 4 cores; on the
/// others one piece.
TEST(Split, PiecesThroughASmallL1AreTheWhole) {
  constexpr std::uint32_t kM = 64, kHidden = 2880;
  const auto x = random_floats(std::size_t{kM} * 2 * kHidden, 6), norm = random_floats(kHidden, 7);
  const auto narrow = columns(x, 2 * kHidden, 0, kHidden);
  jal_llama_step step = step_of(kM);
  step.hidden = step.ffn = kHidden;
  step.norm_epsilon = 1e-5f;
  step.heads = step.kv_heads = 45;
  step.head_dim = 64;
  step.rope_base = 150000;
  step.position = 4000;
  const std::size_t count = std::size_t{kM} * kHidden;
  const auto gated = on_every_chip([&](Chip& chip) { return chip.run("llama_swiglu", step, {}, x, count); });
  EXPECT_EQ(gated.size(), count);
  (void)on_every_chip([&](Chip& chip) { return chip.run("llama_rope", step, {}, narrow, count); });
  (void)on_every_chip([&](Chip& chip) {
    const Memory weight = chip.buffer(norm);
    jal_llama_step with = step;
    with.norms_offset = Chip::offset(weight);
    return chip.run("llama_rmsnorm", with, {}, narrow, count);
  });
  const auto sum = on_every_chip([&](Chip& chip) {
    const Memory other = chip.buffer(gated);
    jal_llama_part part{};
    part.matrix_offset = Chip::offset(other);
    return chip.run("llama_residual", step, part, narrow, count);
  });
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sum[i], narrow[i] + gated[i]);
}

TEST(Refusals, WrongArgumentsAreNamed) {
  Chip chip("jal-test4");
  const Memory kv = chip.device.alloc(chip.device.info().slice_mask, 1 << 16);
  struct Case {
    const char* kernel;
    const char* words;
    std::function<void(jal_llama_step&, jal_llama_part&)> change;
  };
  const Case cases[] = {
      {"llama_embed", "a.token[i] < a.vocab", [](auto& s, auto&) { s.token[0] = s.vocab; }},
      {"llama_embed", "a.hidden % 32 == 0", [](auto& s, auto&) { s.hidden = 48; }},
      {"llama_embed", "a.vocab > 0", [](auto& s, auto&) { s.vocab = 0; }},
      {"llama_rmsnorm", "JAL_LLAMA_CHUNK_MAX", [](auto& s, auto&) { s.tokens = JAL_LLAMA_CHUNK_MAX + 1; }},
      {"llama_rmsnorm", "a.hidden > 0", [](auto& s, auto&) { s.hidden = 0; }},
      {"llama_gemm_bf16_f32", "p.k > 0", [](auto&, auto& p) { p.k = 0; }},
      {"llama_gemm_mxfp4_bf16", "p.panels", [](auto&, auto& p) { p.panels = 3; }},
      {"llama_gemm_mxfp8_bf16", "p.reserved[0] == 0", [](auto&, auto& p) { p.reserved[1] = 1; }},
      {"llama_rope", "a.head_dim % 2 == 0", [](auto& s, auto&) { s.head_dim = 7; }},
      {"llama_rope", "a.heads > 0", [](auto& s, auto&) { s.heads = 0; }},
      {"llama_attention", "a.heads % a.kv_heads == 0", [](auto& s, auto&) { s.kv_heads = 2; }},
      {"llama_attention", "a.head_dim <= 256", [](auto& s, auto&) { s.head_dim = 258; }},
      {"llama_attention", "jal_llama_kv_slots", [](auto& s, auto&) { s.position = 100000; }},
      {"llama_swiglu", "a.reserved == 0", [](auto& s, auto&) { s.reserved = 1; }},
      {"llama_sample", "a.vocab > 0", [](auto& s, auto&) { s.vocab = 0; }},
      {"llama_sample", "a.temperature >= 0", [](auto& s, auto&) { s.temperature = -1; }},
      {"llama_sample", "a.top_p > 0", [](auto& s, auto&) { s.temperature = 1; }},
      {"llama_sample", "JAL_LLAMA_TOP_K_MAX",
       [](auto& s, auto&) {
         s.temperature = s.top_p = 1;
         s.top_k = JAL_LLAMA_TOP_K_MAX + 1;
       }},
  };
  for (const Case& c : cases) {
    jal_llama_step step = step_of(1);
    step.hidden = step.ffn = 64;
    step.heads = step.kv_heads = 1;
    step.head_dim = 64;
    step.vocab = 100;
    step.rope_base = 10000;
    step.kv_slots = 4;
    step.kv_offset = Chip::offset(kv);
    jal_llama_part part{};
    part.rows = part.k = 64;
    c.change(step, part);
    try {
      (void)chip.run(c.kernel, step, part, std::vector<float>(4096), 0);
      ADD_FAILURE() << c.kernel << " took what breaks " << c.words;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), JAL_ERROR_KERNEL_FAULT) << error.what();
      EXPECT_NE(std::string(error.what()).find(c.words), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(c.kernel), std::string::npos) << error.what();
      chip.recover();
    }
  }
}

TEST(Refusals, FewerCoresThanTheChipHas) {
  Chip chip("jal-test4");
  chip.mask = 0b0111;
  jal_llama_step step = step_of(1);
  step.hidden = 64;
  try {
    (void)chip.run("llama_residual", step, {}, std::vector<float>(64), 64);
    ADD_FAILURE() << "the dealt shares would be wrong";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("core.chip_cores"), std::string::npos) << error.what();
  }
}

TEST(Refusals, AMatrixThatIsNotThere) {
  Chip chip("jal-test4");
  jal_llama_part part{};
  part.rows = part.k = 64;
  part.matrix_offset = 32u << 20;  // nobody's page
  try {
    (void)chip.run("llama_gemm_bf16_f32", step_of(1), part, std::vector<float>(64), 64);
    ADD_FAILURE() << "read what is not mapped";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), JAL_ERROR_BAD_ADDRESS) << error.what();
  }
}

/// A row that no piece of L1 holds is refused with the sizes, not computed wrongly.
TEST(Refusals, ARowLargerThanL1) {
  Chip chip("jal-test4");
  jal_llama_step step = step_of(1);
  step.hidden = 128 * 1024;
  try {
    (void)chip.run("llama_residual", step, {}, {}, 0);
    ADD_FAILURE() << "512 KiB do not fit 256 KiB";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), JAL_ERROR_L1_OVERFLOW) << error.what();
  }
}

/// Every part, whole and in pieces, makes none of the mistakes that the sanitizers find.
TEST(Sanitized, PartsAreClean) {
  setenv("JAL_SANITIZE", "memory,init,race", 1);
  {
    Chip chip("jal-test4");
    for (const Format& format : kFormats) {
      for (const std::uint32_t rows : {3u, 100u, 1000u}) {
        const std::uint32_t k = 576, m = 20;
        const std::vector<std::uint8_t> codes(std::size_t{rows} * k / 32 * format.code_bytes, 0x31),
            scales(std::size_t{rows} * k / 32, 127);
        const Tensor matrix =
            chip.deal(format.dtype, rows, k, codes.data(), format.dtype == JAL_DTYPE_BF16 ? nullptr : scales.data());
        jal_llama_part part{};
        part.matrix_offset = static_cast<std::uint32_t>(matrix.info().offset);
        part.rows = rows;
        part.k = k;
        EXPECT_EQ(chip.run(format.kernel, step_of(m), part, random_floats(std::size_t{m} * k, 1), std::size_t{m} * rows)
                      .size(),
                  std::size_t{m} * rows);
      }
    }
    jal_llama_step step = step_of(40);
    step.hidden = step.ffn = 2880;
    step.norm_epsilon = 1e-5f;
    step.heads = 45;
    step.kv_heads = 15;
    step.head_dim = 64;
    step.rope_base = 10000;
    step.vocab = 10;
    step.kv_slots = jal_llama_kv_slots(40, 15, 4);
    const auto x = random_floats(std::size_t{40} * 75 * 64 * 2, 2);
    const Memory kv = chip.device.alloc(0b1111, step.kv_slots * jal_llama_unit_bytes(64)), norm = chip.buffer(x),
                 result = chip.buffer(64);
    const std::vector<std::uint16_t> rows(std::size_t{10} * 2880, 0x3f80);
    const Tensor table = chip.deal(JAL_DTYPE_BF16, 10, 2880, rows.data());
    step.kv_offset = Chip::offset(kv);
    step.norms_offset = Chip::offset(norm);
    step.result_offset = Chip::offset(result);
    step.embedding_offset = static_cast<std::uint32_t>(table.info().offset);
    jal_llama_part part{};
    part.matrix_offset = Chip::offset(norm);
    for (const char* kernel : {"llama_embed", "llama_rmsnorm", "llama_rope", "llama_attention", "llama_swiglu",
                               "llama_residual", "llama_sample"}) {
      EXPECT_NO_THROW((void)chip.run(kernel, step, part, x, std::size_t{40} * 2880)) << kernel;
    }
    step.temperature = step.top_p = 1;
    step.top_k = 4;
    EXPECT_NO_THROW((void)chip.run("llama_sample", step, part, x, 64));
  }
  unsetenv("JAL_SANITIZE");
}

}  // namespace
}  // namespace jal::test
