// Where the elements of a checked tensor lie: the arithmetic of its factors.
//
// What it is not: a copy. A slice's part is walked in runs of the innermost LINEAR factor, in the order of the slice's
// bytes; a run is a strided piece of the host array and, behind it, padding. Threads: any; immutable after
// construction.
#pragma once
#include <jal/abi/tensor.h>

#include <cstdint>
#include <vector>

namespace jal::rt {

class Layout {
 public:
  /// `info` passed check_tensor.
  explicit Layout(const jal_tensor_info& info);

  struct Factor {
    int dim;  // -1: replicated
    std::uint64_t extent;
    std::uint64_t weight;  // what a step of this factor adds to the index of its dimension
  };
  /// One slice of the mask: its coordinates' contribution to each dimension's index.
  struct Part {
    std::uint32_t slice = 0;
    std::uint64_t base[JAL_TENSOR_DIMS] = {};
    bool is_replica = false;  // the same data lies in a lower slice
  };
  /// `count` elements of the slice's part: the first `valid` are host elements first, first + stride, ...; the rest is
  /// padding.
  struct Run {
    std::uint64_t count = 0;
    std::uint64_t valid = 0;
    std::uint64_t first = 0;
    std::uint64_t stride = 0;
    bool is_replica = false;  // the same elements lie at a lower place of the slice
  };

  const std::vector<Part>& parts() const { return parts_; }
  std::uint64_t elements_per_slice() const { return elements_; }
  std::uint64_t run_elements() const { return linear_.empty() ? 1 : linear_.back().extent; }
  /// Run `index` of a part; there are elements_per_slice() / run_elements().
  Run run(const Part& part, std::uint64_t index) const;

  /// The slice's whole part is one dense piece of the host array (and padding behind it).
  bool is_dense() const { return is_dense_; }
  /// For a dense layout.
  Run dense_run(const Part& part) const;

  /// For a 2-D tensor in engine tiling: rows and columns of a slice's tile, and their global indices (>= dims:
  /// padding).
  std::uint64_t local_extent(int dim) const;
  std::uint64_t global_index(const Part& part, int dim, std::uint64_t local) const;
  /// Local columns are consecutive global ones.
  bool is_consecutive(int dim) const;

  /// The lowest slice that holds an element, and its place in the slice's part, in elements.
  void locate(const std::uint64_t* index, std::uint32_t* out_slice, std::uint64_t* out_element) const;

 private:
  jal_tensor_info info_;
  std::vector<Factor> linear_;  // in list order
  std::vector<Factor> slices_;
  std::uint64_t host_stride_[JAL_TENSOR_DIMS] = {};
  std::uint64_t elements_ = 1;
  std::vector<Part> parts_;
  bool is_dense_ = false;
};

}  // namespace jal::rt
