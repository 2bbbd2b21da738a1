// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels/own_kernels.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include <ATen/Operators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argmin.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include "backend/own_kernels/generated_product.h"
#include "backend/own_kernels/int8_product.h"
#include "backend/own_kernels/place_of_extreme.h"

namespace npugraph::own {
namespace {

using torch::jit::Stack;

void int_mm(Stack& stack) {
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(int8_product(self, mat2));
}

void int_mm_out(Stack& stack) {
  at::Tensor out = torch::jit::pop(stack).toTensor();
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(int8_product_out(out, self, mat2));
}

template <at::Tensor (*kernel_of_aten)(const at::Tensor&, const at::Tensor&), int64_t dims>
void product(Stack& stack) {
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), self = torch::jit::pop(stack).toTensor();
  std::optional<at::Tensor> product = faster_product(self, mat2, dims);
  if (!product) product = kernel_of_aten(self, mat2);
  stack.emplace_back(*std::move(product));
}

template <at::Tensor (*kernel)(const at::Tensor&, const at::Tensor&)>
void product_as_compiled(Stack& stack) {
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(kernel(self, mat2));
}

void addmm(Stack& stack) {
  const at::Scalar alpha = torch::jit::pop(stack).toScalar(), beta = torch::jit::pop(stack).toScalar();
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), mat1 = torch::jit::pop(stack).toTensor();
  const at::Tensor self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(addmm_as_compiled(self, mat1, mat2, beta, alpha));
}

template <at::Tensor& (*kernel)(const at::Tensor&, const at::Tensor&, at::Tensor&)>
void product_out_as_compiled(Stack& stack) {
  at::Tensor out = torch::jit::pop(stack).toTensor();
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(kernel(self, mat2, out));
}

void addmm_out(Stack& stack) {
  at::Tensor out = torch::jit::pop(stack).toTensor();
  const at::Scalar alpha = torch::jit::pop(stack).toScalar(), beta = torch::jit::pop(stack).toScalar();
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), mat1 = torch::jit::pop(stack).toTensor();
  const at::Tensor self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(addmm_out_as_compiled(self, mat1, mat2, beta, alpha, out));
}

void addmm_in_place(Stack& stack) {
  const at::Scalar alpha = torch::jit::pop(stack).toScalar(), beta = torch::jit::pop(stack).toScalar();
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), mat1 = torch::jit::pop(stack).toTensor();
  at::Tensor self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(addmm_out_as_compiled(self, mat1, mat2, beta, alpha, self));
}

template <typename T>
bool are_places(const at::Tensor& index, int64_t size) {
  const at::Tensor flat = index.contiguous();
  const T* first = flat.const_data_ptr<T>();
  return std::all_of(first, first + flat.numel(), [size](T place) { return -size <= place && place < size; });
}

// Whether `indices`, one for each of the first dimensions or a mask of several, name elements of `self`.
bool are_places_of(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices) {
  int64_t dim = 0;
  for (const std::optional<at::Tensor>& index : indices) {
    if (dim >= self.dim()) return true;  // too many indices, which ATen reports first
    const bool is_given = index && index->defined();
    if (is_given && index->scalar_type() == at::kLong && !are_places<int64_t>(*index, self.size(dim))) return false;
    if (is_given && index->scalar_type() == at::kInt && !are_places<int32_t>(*index, self.size(dim))) return false;
    const bool is_mask = is_given && (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte);
    dim += is_mask ? index->dim() : 1;
  }
  return true;
}

// ATen may write some elements before it finds an index that is out of range. This kernel checks all indices first.
void index_put_(Stack& stack) {
  const bool accumulate = torch::jit::pop(stack).toBool();
  const at::Tensor values = torch::jit::pop(stack).toTensor();
  const auto indices = torch::jit::pop(stack).to<c10::List<std::optional<at::Tensor>>>();
  at::Tensor self = torch::jit::pop(stack).toTensor();
  if (!are_places_of(self, indices)) self.clone().index_put_(indices, values, accumulate);  // throws, with the index
  self.index_put_(indices, values, accumulate);
  stack.emplace_back(std::move(self));
}

template <loop::Combine extreme>
void place(Stack& stack) {
  const bool keepdim = torch::jit::pop(stack).toBool();
  const auto dim = torch::jit::pop(stack).toOptional<int64_t>();
  const at::Tensor self = torch::jit::pop(stack).toTensor();
  std::optional<at::Tensor> places = place_of_extreme(extreme, self, dim, keepdim);
  if (!places)
    places = extreme == loop::Combine::kMax ? at::argmax(self, dim, keepdim) : at::argmin(self, dim, keepdim);
  stack.emplace_back(*std::move(places));
}

}  // namespace

StackKernel own_kernel(const c10::OperatorName& name, bool as_compiled) {
  using Kernels = std::unordered_map<c10::OperatorName, StackKernel>;
  static const Kernels products_as_compiled{
      {{at::_ops::mm::name, ""}, &product_as_compiled<&mm_as_compiled>},
      {{at::_ops::bmm::name, ""}, &product_as_compiled<&bmm_as_compiled>},
      {{at::_ops::addmm::name, ""}, &addmm},
      {{at::_ops::mm::name, "out"}, &product_out_as_compiled<&mm_out_as_compiled>},
      {{at::_ops::bmm::name, "out"}, &product_out_as_compiled<&bmm_out_as_compiled>},
      {{at::_ops::addmm::name, "out"}, &addmm_out},
      {{at::_ops::addmm_::name, ""}, &addmm_in_place},
  };
  static const Kernels kernels{
      {{at::_ops::_int_mm::name, ""}, &int_mm},
      {{at::_ops::_int_mm::name, "out"}, &int_mm_out},
      {{at::_ops::mm::name, ""}, &product<&at::mm, 2>},
      {{at::_ops::bmm::name, ""}, &product<&at::bmm, 3>},
      {{at::_ops::index_put_::name, ""}, &index_put_},
      {{at::_ops::argmax::name, ""}, &place<loop::Combine::kMax>},
      {{at::_ops::argmin::name, ""}, &place<loop::Combine::kMin>},
  };
  if (const auto found = products_as_compiled.find(name); as_compiled && found != products_as_compiled.end())
    return found->second;
  const auto found = kernels.find(name);
  return found == kernels.end() ? nullptr : found->second;
}

}  // namespace npugraph::own
