// Choosing the next token from logits that are dealt over the cores.
#pragma once
#include "firmware/ops/llama/step.hpp"

namespace jal::ops::llama {

/// Record of JAL_VEC_TOP_K.
struct Candidate {
  uint32_t index;
  float value;
};
/// Record of JAL_REDUCE_ARGMAX.
struct Best {
  float value;
  uint32_t index;
};

/// Uniform in [0, 1) from seed and position: SplitMix64 (Steele, Lea, Flood 2014) of their mix, upper 24 bits.
inline float uniform(uint64_t seed, uint32_t position) {
  uint64_t z = seed + (static_cast<uint64_t>(position) + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return static_cast<float>(z >> 40) * 0x1p-24f;
}

/// The most likely token; lowest id among equals. Equal on every core.
inline Best most_likely(Step& s, Tile<float> logits) {
  Core& core = s.core;
  const Tile<uint32_t> at = core.alloc<uint32_t>(1);
  const Tile<Best> own = core.alloc<Best>(1);
  const Tile<Best> best = core.alloc<Best>(1);
  Best mine = {-__builtin_inff(), UINT32_MAX};
  if (logits.size() > 0) {
    jal_vec_op op = {};
    op.fn = JAL_VEC_ARGMAX;
    op.n = logits.size();
    op.a = logits.raw();
    op.out = at.raw();
    core.wait(core.vec(op));
    const uint32_t index = core.view(at)[0];
    mine = {core.view(logits)[index], s.vocab_rows.first + index};
  }
  core.write_view(own)[0] = mine;
  core.wait(core.allreduce(s.all, JAL_REDUCE_ARGMAX, best, own));
  const Best result = core.view(best)[0];
  core.release(at);
  return result;
}

/// Temperature, top-k, top-p over the k most likely tokens of the whole vocabulary, on rank 0; other ranks return {}.
/// Order of candidates: value descending, then id ascending. p is the softmax of value / temperature over the k
/// candidates.
inline Best draw(Step& s, Tile<float> logits) {
  Core& core = s.core;
  const uint32_t k = s.args.top_k < s.args.vocab ? s.args.top_k : s.args.vocab;
  const uint32_t own_k = k < logits.size() ? k : logits.size();
  const Tile<Candidate> own = core.alloc<Candidate>(own_k);
  if (own_k > 0) {
    jal_vec_op op = {};
    op.fn = JAL_VEC_TOP_K;
    op.n = logits.size();
    op.u0 = own_k;
    op.a = logits.raw();
    op.out = own.raw();
    core.wait(core.vec(op));
    for (Candidate& c : core.write_view(own)) c.index += s.vocab_rows.first;
  }
  // Every core but the last ones brings min(k, its rows); the size of the gather follows from the shares alone.
  uint32_t count = 0;
  for (uint32_t r = 0; r < core.size(); ++r) {
    const uint32_t first = r * s.vocab_rows.block;
    const uint32_t left = first < s.args.vocab ? s.args.vocab - first : 0;
    const uint32_t rows = left < s.vocab_rows.block ? left : s.vocab_rows.block;
    count += rows < k ? rows : k;
  }
  const Tile<Candidate> gathered = core.alloc<Candidate>(count);
  core.wait(core.allgather(s.all, gathered, own));
  Best result = {};
  if (core.rank() == 0) {
    const kernel::View<const Candidate> list = core.view(gathered);
    Candidate top[JAL_LLAMA_TOP_K_MAX];
    uint32_t n = 0;
    for (const Candidate& c : list) {
      uint32_t at = n;
      while (at > 0 && (top[at - 1].value < c.value || (top[at - 1].value == c.value && top[at - 1].index > c.index)))
        --at;
      if (at == k) continue;
      const uint32_t last = n < k ? n++ : k - 1;
      for (uint32_t i = last; i > at; --i) top[i] = top[i - 1];
      top[at] = c;
    }
    float p[JAL_LLAMA_TOP_K_MAX];
    float sum = 0;
    for (uint32_t i = 0; i < n; ++i) {
      p[i] = kernel::exp_f32((top[i].value - top[0].value) / s.args.temperature);
      sum += p[i];
    }
    // Nucleus: the shortest prefix whose share reaches top_p.
    uint32_t keep = 0;
    float kept = 0;
    while (keep < n && (keep == 0 || kept < s.args.top_p * sum)) kept += p[keep++];
    const float threshold = uniform(s.args.seed, s.args.position + s.m) * kept;
    uint32_t chosen = 0;
    float upto = p[0];
    while (chosen + 1 < keep && upto <= threshold) upto += p[++chosen];
    result = {top[chosen].value, top[chosen].index};
  }
  core.release(own);
  return result;
}

}  // namespace jal::ops::llama
