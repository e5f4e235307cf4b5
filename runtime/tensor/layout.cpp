// Contract: layout.hpp.
#include "runtime/tensor/layout.hpp"

#include <algorithm>
#include <bit>

namespace jal::rt {

Layout::Layout(const jal_tensor_info& info) : info_(info) {
  std::uint64_t stride = 1;
  for (std::uint32_t d = info.ndim; d-- > 0;) {
    host_stride_[d] = stride;
    stride *= info.dims[d];
  }
  for (std::uint32_t i = 0; i < info.nfactors; ++i) {
    const jal_tensor_factor& one = info.factors[i];
    // The last factor of a dimension varies fastest.
    std::uint64_t weight = 1;
    for (std::uint32_t j = i + 1; j < info.nfactors; ++j) {
      if (one.dim >= 0 && info.factors[j].dim == one.dim) weight *= info.factors[j].extent;
    }
    (one.place == JAL_PLACE_SLICE ? slices_ : linear_).push_back({one.dim, one.extent, one.dim < 0 ? 0 : weight});
    if (one.place == JAL_PLACE_LINEAR) elements_ *= one.extent;
  }
  std::uint64_t left = info.slice_mask;
  for (std::uint64_t rank = 0; left != 0; ++rank, left &= left - 1) {
    Part part;
    part.slice = static_cast<std::uint32_t>(std::countr_zero(left));
    std::uint64_t rest = rank;
    for (std::size_t i = slices_.size(); i-- > 0;) {
      const std::uint64_t coordinate = rest % slices_[i].extent;
      rest /= slices_[i].extent;
      if (slices_[i].dim < 0) {
        part.is_replica = part.is_replica || coordinate != 0;
      } else {
        part.base[slices_[i].dim] += coordinate * slices_[i].weight;
      }
    }
    parts_.push_back(part);
  }
  // Dense: one LINEAR factor per dimension in ascending order, each of weight 1; inner dimensions whole, so that a
  // slice's elements follow one another as in the host array.
  is_dense_ = true;
  int last = -1;
  bool is_inner = false;
  for (const Factor& one : linear_) {
    if (one.extent == 1 && one.dim >= 0 && info.dims[one.dim] == 1) continue;  // a dimension of one element
    if (one.dim <= last || one.weight != 1) is_dense_ = false;
    if (is_inner && one.dim >= 0 && one.extent != info.dims[one.dim]) is_dense_ = false;
    if (one.dim >= 0) last = one.dim;
    is_inner = true;
  }
  // A dimension that lies over slices must be the outermost of those that vary within the slice.
  for (const Factor& one : slices_) {
    if (one.dim < 0) continue;
    for (const Factor& inner : linear_) {
      if (inner.dim >= 0 && inner.dim < one.dim && inner.extent > 1) is_dense_ = false;
    }
  }
}

Layout::Run Layout::run(const Part& part, std::uint64_t index) const {
  std::uint64_t at[JAL_TENSOR_DIMS];
  std::copy(std::begin(part.base), std::end(part.base), at);
  Run run;
  std::uint64_t rest = index;
  for (std::size_t i = linear_.size() > 0 ? linear_.size() - 1 : 0; i-- > 0;) {
    const Factor& one = linear_[i];
    const std::uint64_t coordinate = rest % one.extent;
    rest /= one.extent;
    if (one.dim < 0) {
      run.is_replica = run.is_replica || coordinate != 0;
    } else {
      at[one.dim] += coordinate * one.weight;
    }
  }
  const Factor inner = linear_.empty() ? Factor{-1, 1, 0} : linear_.back();
  run.count = inner.extent;
  run.valid = inner.extent;
  for (std::uint32_t d = 0; d < info_.ndim; ++d) {
    run.first += at[d] * host_stride_[d];
    if (at[d] >= info_.dims[d]) run.valid = 0;
  }
  if (run.valid == 0 || inner.dim < 0) return run;
  run.stride = inner.weight * host_stride_[inner.dim];
  run.valid = std::min(run.valid, (info_.dims[inner.dim] - at[inner.dim] + inner.weight - 1) / inner.weight);
  return run;
}

Layout::Run Layout::dense_run(const Part& part) const {
  Run run;
  run.count = elements_;
  run.valid = elements_;
  run.stride = 1;
  bool is_outermost = true;
  for (std::uint32_t d = 0; d < info_.ndim; ++d) {
    run.first += part.base[d] * host_stride_[d];
    if (part.base[d] >= info_.dims[d]) {
      run.valid = 0;
      continue;
    }
    // Only the outermost dimension that varies within the slice can end early; those inside it are whole.
    const std::uint64_t extent = local_extent(static_cast<int>(d));
    if (extent == 1 || !is_outermost) continue;
    is_outermost = false;
    run.valid = std::min(run.valid, (info_.dims[d] - part.base[d]) * (elements_ / extent));
  }
  return run;
}

std::uint64_t Layout::local_extent(int dim) const {
  std::uint64_t extent = 1;
  for (const Factor& one : linear_) {
    if (one.dim == dim) extent *= one.extent;
  }
  return extent;
}

std::uint64_t Layout::global_index(const Part& part, int dim, std::uint64_t local) const {
  std::uint64_t index = part.base[dim];
  for (std::size_t i = linear_.size(); i-- > 0;) {
    if (linear_[i].dim != dim) continue;
    index += local % linear_[i].extent * linear_[i].weight;
    local /= linear_[i].extent;
  }
  return index;
}

bool Layout::is_consecutive(int dim) const {
  std::uint64_t expected = 1;
  for (std::size_t i = linear_.size(); i-- > 0;) {
    if (linear_[i].dim != dim) continue;
    if (linear_[i].weight != expected && linear_[i].extent > 1) return false;
    expected *= linear_[i].extent;
  }
  return true;
}

void Layout::locate(const std::uint64_t* index, std::uint32_t* out_slice, std::uint64_t* out_element) const {
  const auto coordinate = [&](const Factor& one) { return one.dim < 0 ? 0 : index[one.dim] / one.weight % one.extent; };
  std::uint64_t rank = 0, element = 0;
  for (const Factor& one : slices_) rank = rank * one.extent + coordinate(one);
  for (const Factor& one : linear_) element = element * one.extent + coordinate(one);
  *out_slice = parts_[rank].slice;
  *out_element = element;
}

}  // namespace jal::rt
