// SPDX-License-Identifier: Apache-2.0
#include "device/capture/sparse_writes.h"

#include <algorithm>
#include <string_view>

#include <ATen/Operators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>

#include "device/npu/tensor.h"

namespace npugraph::capture {

namespace {

at::Tensor on_cpu(const at::Tensor& tensor) { return npu::is_npu(tensor) ? npu::cpu_alias(tensor) : tensor; }

// self, dim, index, ...: whole slices.
constexpr std::string_view kBySlice[] = {at::_ops::index_copy_::name, at::_ops::index_add_::name,
                                         at::_ops::index_fill__int_Scalar::name, at::_ops::index_reduce_::name};
// self, dim, index, ...: single elements.
constexpr std::string_view kByElement[] = {at::_ops::scatter__src::name, at::_ops::scatter_add_::name,
                                           at::_ops::scatter_reduce__two::name};
// self, indices, ...
constexpr std::string_view kByIndices[] = {at::_ops::index_put_::name, at::_ops::_index_put_impl_::name};

Places of_slices(int64_t dim, const at::Tensor& index) {
  Places out;
  for (int64_t i = 0; i < dim; ++i) out.push_back(std::nullopt);
  out.push_back(index);
  return out;
}

Places of_elements(int64_t dim, const at::Tensor& index) {
  Places out;
  for (int64_t i = 0; i < index.dim(); ++i) {
    std::vector<int64_t> shape(static_cast<size_t>(index.dim()), 1);
    shape[static_cast<size_t>(i)] = -1;
    out.push_back(i == dim ? index : at::arange(index.size(i), index.options()).view(shape));
  }
  return out;
}

}  // namespace

std::optional<Places> written_places(const c10::OperatorHandle& op, std::span<const c10::IValue> args) {
  const std::string& name = op.schema().name();
  if (std::ranges::count(kByIndices, name) != 0) {
    Places out;
    const at::Tensor self = args[0].toTensor();
    int64_t most = 0;  // the most indices that one dimension has
    for (const c10::IValue& index : args[1].toListRef()) {
      out.push_back(index.isNone() ? std::nullopt : std::make_optional(on_cpu(index.toTensor())));
      if (!index.isNone()) most = std::max(most, index.toTensor().numel());
    }
    return most < self.numel() ? std::make_optional(out) : std::nullopt;
  }
  const bool by_slice = std::ranges::count(kBySlice, name) != 0;
  if (!by_slice && std::ranges::count(kByElement, name) == 0) return std::nullopt;
  const at::Tensor self = args[0].toTensor(), index = on_cpu(args[2].toTensor());
  if (self.dim() == 0 || index.dim() != (by_slice ? 1 : self.dim())) return std::nullopt;
  const int64_t dim = at::maybe_wrap_dim(args[1].toInt(), self.dim());
  const int64_t all = by_slice ? self.size(dim) : self.numel();
  if (index.numel() >= all) return std::nullopt;
  return by_slice ? of_slices(dim, index) : of_elements(dim, index);
}

}  // namespace npugraph::capture
