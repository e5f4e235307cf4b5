// See decoder_layer.hpp.
#include "tests/bench/slice/decoder_layer.hpp"

#include <cmath>
#include <cstring>
#include <random>

#include "runtime/tensor/weight_tile.hpp"

namespace jal::bench {
namespace {

// GPT-OSS-120B (its public configuration), cut into eight equal parts along heads and experts' inner width.
constexpr std::uint32_t kChips = 8;
constexpr std::uint32_t kHidden = 2880;
constexpr std::uint32_t kHeads = 64 / kChips;
constexpr std::uint32_t kHeadDim = 64;
constexpr std::uint32_t kExperts = 128;
constexpr std::uint32_t kActive = 4;
constexpr std::uint32_t kIntermediate = 2880 / kChips;
constexpr std::uint32_t kWindow = 128;
constexpr std::uint32_t kContext = 8192;  // the published cells are nominally 8K in, 1K out
// All 128 would be 227 MB a layer to fill; which of them are read changes no time.
constexpr std::uint32_t kStored = 8;
constexpr std::uint32_t kStateBytes = 4096;  // residual, sum and profile of a core

std::uint64_t round_up_64(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Bytes for every slice, side by side, laid out piece after piece.
class Image {
 public:
  explicit Image(std::uint32_t slices) : slices_(slices) {}
  std::uint64_t reserve(std::uint64_t bytes_per_slice) {
    const std::uint64_t at = per_slice_;
    per_slice_ += round_up_64(bytes_per_slice);
    return at;
  }
  void allocate() { bytes_.resize(per_slice_ * slices_); }
  std::uint8_t* at(std::uint32_t slice, std::uint64_t offset) { return bytes_.data() + slice * per_slice_ + offset; }
  const std::uint8_t* data() const { return bytes_.data(); }
  std::uint64_t per_slice() const { return per_slice_; }

 private:
  std::uint32_t slices_;
  std::uint64_t per_slice_ = 0;
  std::vector<std::uint8_t> bytes_;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// Between -limit and limit.
  float value(float limit) { return (static_cast<float>(engine_() >> 40) * 0x1p-23f - 1) * limit; }
  void bf16(std::uint8_t* out, std::size_t count, float limit) {
    for (std::size_t i = 0; i < count; ++i) {
      const float x = value(limit);
      std::memcpy(out + 2 * i, reinterpret_cast<const std::uint8_t*>(&x) + 2, 2);  // the upper half: truncated
    }
  }
  void f32(std::uint8_t* out, std::size_t count, float middle, float limit) {
    for (std::size_t i = 0; i < count; ++i) {
      const float x = middle + value(limit);
      std::memcpy(out + 4 * i, &x, 4);
    }
  }
  /// Any code of E2M1, one scale for all blocks.
  void mxfp4(std::uint8_t* out, std::uint32_t rows, std::uint32_t k, float limit) {
    const rt::WeightTile tile(JAL_DTYPE_MXFP4, rows, k);
    const std::uint64_t row_bytes = (k + 31) / 32 * 16;
    std::vector<std::uint8_t> codes(row_bytes);
    const std::vector<std::uint8_t> scales((k + 31) / 32,
                                           static_cast<std::uint8_t>(127 + std::lround(std::log2(limit / 6))));
    for (std::uint32_t row = 0; row < rows; ++row) {
      for (std::uint64_t i = 0; i < row_bytes; ++i)
        codes[i] = i * 2 < k ? static_cast<std::uint8_t>(engine_() >> 56) : std::uint8_t{0};
      rt::pack_row_codes(tile, row, codes.data(), scales.data(), k, out);
    }
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace

DecoderLayers::DecoderLayers(const jal::Device& device, const std::string& kernels, std::uint64_t fabric_ps)
    : device_(device),
      fabric_ps_(fabric_ps),
      module_(device.load(kernels)),
      attention_(module_.kernel("decoder_attention")),
      experts_(module_.kernel("decoder_experts")),
      stream_(device.stream()),
      begin_(device.event()),
      end_(device.event()),
      state_(device.alloc(0, kStateBytes)) {
  for (std::uint32_t i = 0; i < 2; ++i) {
    layer_[i].kv_tokens = (i == 0 ? kContext : kWindow) / device.info().cores;
    place(device, &layer_[i], i + 1);
  }
}

void DecoderLayers::place(const jal::Device& device, jal_decoder_layer* layer, std::uint64_t seed) {
  const jal_device_info chip = device.info();
  const std::uint32_t cores = chip.cores;
  const std::uint32_t mine = kHidden / cores;
  const std::uint32_t qkv_rows = (kHeads + 2) * kHeadDim / cores;
  const std::uint32_t kv_tokens = layer->kv_tokens;
  layer->hidden = kHidden;
  layer->heads = kHeads;
  layer->head_dim = kHeadDim;
  layer->experts = kExperts;
  layer->stored = kStored;
  layer->active = kActive;
  layer->intermediate = kIntermediate;
  layer->expert_rows = (kIntermediate + cores - 1) / cores;
  layer->position = kContext;
  layer->norm_epsilon = 1e-5f;
  layer->rope_base = 150000;

  const rt::WeightTile gate_up(JAL_DTYPE_MXFP4, 2 * layer->expert_rows, kHidden);
  const rt::WeightTile down(JAL_DTYPE_MXFP4, mine, kIntermediate);
  Image image(cores);
  const std::uint64_t norm = image.reserve(kHidden * 4);
  const std::uint64_t ffn_norm = image.reserve(kHidden * 4);
  const std::uint64_t qkv = image.reserve(std::uint64_t{qkv_rows} * kHidden * 2);
  const std::uint64_t o = image.reserve(std::uint64_t{mine} * kHeads * kHeadDim * 2);
  const std::uint64_t sinks = image.reserve(kHeads * 4);
  const std::uint64_t keys = image.reserve((kv_tokens + 1ull) * kHeadDim * 2);
  const std::uint64_t values = image.reserve((kv_tokens + 1ull) * kHeadDim * 2);
  const std::uint64_t router = image.reserve(std::uint64_t{kExperts / cores} * kHidden * 2);
  const std::uint64_t experts = image.reserve(kStored * (gate_up.bytes + down.bytes));
  image.allocate();
  Random random(seed);
  const float scale = 1 / std::sqrt(static_cast<float>(kHidden));
  for (std::uint32_t core = 0; core < cores; ++core) {
    random.bf16(image.at(core, qkv), std::size_t{qkv_rows} * kHidden, 2 * scale);
    random.bf16(image.at(core, o), std::size_t{mine} * kHeads * kHeadDim, 2 * scale);
    random.bf16(image.at(core, keys), std::size_t{kv_tokens} * kHeadDim, 1);
    random.bf16(image.at(core, values), std::size_t{kv_tokens} * kHeadDim, 1);
    random.bf16(image.at(core, router), std::size_t{kExperts / cores} * kHidden, 2 * scale);
    for (std::uint32_t e = 0; e < kStored; ++e) {
      std::uint8_t* at = image.at(core, experts + e * (gate_up.bytes + down.bytes));
      random.mxfp4(at, 2 * layer->expert_rows, kHidden, 4 * scale);
      random.mxfp4(at + gate_up.bytes, mine, kIntermediate, 8 * scale);
    }
  }
  random.f32(image.at(0, norm), kHidden, 1, 0.1f);
  random.f32(image.at(0, ffn_norm), kHidden, 1, 0.1f);
  random.f32(image.at(0, sinks), kHeads, 0, 1);
  for (std::uint32_t core = 1; core < cores; ++core)
    std::memcpy(image.at(core, norm), image.at(0, norm), ffn_norm - norm + kHidden * 4);

  weights_.push_back(device.alloc(0, image.per_slice()));
  const std::uint64_t base = weights_.back().info().offset;
  stream_.copy_to_slices(chip.slice_mask, base, image.data(), image.per_slice());
  std::vector<std::uint8_t> start(std::uint64_t{cores} * kStateBytes);
  for (std::uint32_t core = 0; core < cores; ++core) random.f32(start.data() + core * kStateBytes, mine, 0, 1);
  const std::uint64_t state = state_.info().offset;
  stream_.copy_to_slices(chip.slice_mask, state, start.data(), kStateBytes);
  stream_.synchronize();
  layer->x_offset = state;
  layer->sum_offset = state + 1024;
  layer->norm_offset = base + norm;
  layer->ffn_norm_offset = base + ffn_norm;
  layer->qkv_offset = base + qkv;
  layer->o_offset = base + o;
  layer->sinks_offset = base + sinks;
  layer->keys_offset = base + keys;
  layer->values_offset = base + values;
  layer->router_offset = base + router;
  layer->experts_offset = base + experts;
}

void DecoderLayers::launch(std::uint32_t layer, bool is_profiled) {
  const std::uint64_t cores = device_.info().core_mask;
  jal_decoder_layer block = layer_[layer % 2];
  if (is_profiled) block.profile_offset = state_.info().offset + 2048;
  stream_.launch(attention_, cores, block);
  if (is_profiled) block.profile_offset += sizeof(jal_decoder_profile);
  stream_.launch(experts_, cores, block);
}

void DecoderLayers::run_attention(std::uint32_t layer) {
  stream_.launch(attention_, device_.info().core_mask, layer_[layer]);
  stream_.synchronize();
}

void DecoderLayers::run_experts(std::uint32_t layer) {
  stream_.launch(experts_, device_.info().core_mask, layer_[layer]);
  stream_.synchronize();
}

LayerTime DecoderLayers::run(std::uint32_t layers) {
  stream_.set_phase(JAL_PHASE_VERIFY_DECODE);
  stream_.record(begin_);
  for (std::uint32_t i = 0; i < layers; ++i) launch(i, false);
  stream_.record(end_);
  stream_.synchronize();
  std::int64_t elapsed_ps = 0;
  check(jal_event_elapsed_ps(begin_.get(), end_.get(), &elapsed_ps, nullptr));

  LayerTime time;
  time.fabric = 2.0 * static_cast<double>(fabric_ps_);
  double kernels = 0;
  for (std::uint32_t i = 0; i < 2; ++i) {
    launch(i, true);
    stream_.synchronize();
    jal_decoder_profile profile[2];
    device_.copy_to_host(profile, state_.address(0, 2048), sizeof profile);
    for (const jal_decoder_profile& p : profile) {
      time.hbm += static_cast<double>(p.hbm_ps) / 2;
      time.engine += static_cast<double>(p.engine_ps) / 2;
      time.collective += static_cast<double>(p.collective_ps) / 2;
    }
    kernels = time.hbm + time.engine + time.collective;
  }
  time.launch = static_cast<double>(elapsed_ps) / layers - kernels;
  time.whole = time.launch + kernels + time.fabric;
  return time;
}

std::vector<float> DecoderLayers::stream_values() const {
  const std::uint32_t cores = device_.info().cores;
  const std::uint32_t mine = kHidden / cores;
  std::vector<float> x(kHidden), sum(kHidden);
  for (std::uint32_t core = 0; core < cores; ++core) {
    device_.copy_to_host(x.data() + core * mine, state_.address(core, 0), mine * 4);
    device_.copy_to_host(sum.data() + core * mine, state_.address(core, 1024), mine * 4);
  }
  for (std::uint32_t i = 0; i < kHidden; ++i) x[i] += sum[i];
  return x;
}

}  // namespace jal::bench
