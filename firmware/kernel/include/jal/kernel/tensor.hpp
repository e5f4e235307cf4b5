// Tensor: a kernel's view of a TensorInfo: what of it lies in this core's own slice, and where.
//
// What it is not: data. It computes addresses; loads and stores move bytes. The firmware has checked the descriptor and
// that its memory is the client's. Meaning of the factors: jal/abi/tensor.h.
#pragma once
#include <jal/abi/address.h>
#include <jal/abi/tensor.h>
#include <stdint.h>

namespace jal::kernel {

class Tensor {
 public:
  explicit Tensor(const jal_tensor_info& info) : info_(info) {}
  const jal_tensor_info& info() const { return info_; }
  uint64_t dim(uint32_t d) const { return info_.dims[d]; }
  uint32_t dtype() const { return info_.dtype; }
  uint64_t bytes_per_slice() const { return info_.bytes_per_slice; }

  /// Whether the slice holds a part.
  bool has_slice(uint32_t slice) const { return (info_.slice_mask >> slice & 1) != 0; }
  /// Rank of the slice among those of the mask.
  uint32_t slice_rank(uint32_t slice) const {
    // By hand: the compiler's builtin is a library call on targets without the instruction.
    uint64_t x = info_.slice_mask & ((1ull << slice) - 1);
    x -= x >> 1 & 0x5555555555555555ull;
    x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return static_cast<uint32_t>(x * 0x0101010101010101ull >> 56);
  }
  /// Address of byte `byte` of the slice's part.
  uint64_t address(uint32_t slice, uint64_t byte = 0) const { return JAL_ADDRESS_HBM(slice, info_.offset + byte); }

  /// For a dimension dealt out in blocks (factors {d, slices, SLICE} {d, block, LINEAR}): indices [first, first +
  /// count) of dimension d lie in the slice; the last ones may hold fewer, or none. Otherwise the whole dimension.
  struct Range {
    uint32_t first;
    uint32_t count;
  };
  Range local(uint32_t d, uint32_t slice) const {
    const uint32_t extent = static_cast<uint32_t>(info_.dims[d]);
    uint32_t block = extent;
    bool is_dealt = false;
    for (uint32_t i = 0; i < info_.nfactors; ++i) {
      const jal_tensor_factor& f = info_.factors[i];
      if (f.dim != static_cast<int32_t>(d)) continue;
      if (f.place == JAL_PLACE_SLICE) is_dealt = true;
      if (f.place == JAL_PLACE_LINEAR) block = f.extent;
    }
    if (!is_dealt) return {0, extent};
    const uint64_t first = static_cast<uint64_t>(slice_rank(slice)) * block;
    if (first >= extent) return {extent, 0};
    const uint32_t left = extent - static_cast<uint32_t>(first);
    return {static_cast<uint32_t>(first), left < block ? left : block};
  }

 private:
  jal_tensor_info info_;
};

}  // namespace jal::kernel
