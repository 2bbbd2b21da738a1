// SPDX-License-Identifier: Apache-2.0
#include "tensor/shape.h"

#include <algorithm>

#include "base/error.h"

namespace npugraph {
namespace {

bool has_zero(std::span<const Expr> sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](const Expr& size) { return size.is_int(0); });
}

Expr at_least_one(const Expr& size) { return Expr::make(ExprOp::kMax, {size, 1}); }

}  // namespace

Expr numel(std::span<const Expr> sizes) {
  Expr product = 1;
  for (const Expr& size : sizes) product = product * size;
  return product;
}

std::vector<Expr> contiguous_strides(std::span<const Expr> sizes) {
  std::vector<Expr> strides(sizes.size());
  Expr stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    if (d > 0 && !sizes[d].is_int(0)) stride = stride * sizes[d];
  }
  return strides;
}

bool is_contiguous(std::span<const Expr> sizes, std::span<const Expr> strides) {
  NG_CHECK(sizes.size() == strides.size(), sizes.size(), " sizes, ", strides.size(), " strides");
  if (has_zero(sizes)) return true;
  Expr inner_stride = 1;
  Expr inner_size = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d].is_int(1)) continue;
    // PyTorch writes max(size, 1) into a stride when the size may be 0; both forms place the elements alike.
    if (strides[d] != inner_stride * inner_size && strides[d] != inner_stride * at_least_one(inner_size)) return false;
    inner_stride = strides[d];
    inner_size = sizes[d];
  }
  return true;
}

bool is_step_over(const Expr& outer, const Expr& size, const Expr& stride) {
  return outer == stride * size || outer == stride * Expr::make(ExprOp::kMax, {1, size});
}

Expr extent(std::span<const Expr> sizes, std::span<const Expr> strides) {
  NG_CHECK(sizes.size() == strides.size(), sizes.size(), " sizes, ", strides.size(), " strides");
  if (has_zero(sizes)) return 0;
  std::vector<Expr> terms = {1};
  for (size_t d = 0; d < sizes.size(); ++d) terms.push_back((sizes[d] - 1) * strides[d]);
  return Expr::make(ExprOp::kAdd, std::move(terms));
}

int64_t extent_bytes(std::span<const int64_t> sizes, std::span<const int64_t> strides, DType dtype) {
  int64_t last = 0;
  bool overflow = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    int64_t step = 0;
    overflow |= __builtin_mul_overflow(sizes[d] - 1, strides[d], &step);
    overflow |= __builtin_add_overflow(last, step, &last);
  }
  overflow |= __builtin_add_overflow(last, int64_t{1}, &last);
  overflow |= __builtin_mul_overflow(last, size_of(dtype), &last);
  if (overflow) throw UserError("the extent of a window does not fit 64 bits");
  return last;
}

}  // namespace npugraph
