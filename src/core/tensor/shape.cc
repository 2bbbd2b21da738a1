// SPDX-License-Identifier: Apache-2.0
#include "tensor/shape.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

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

bool is_step_over(const Expr& outer, const Expr& size, const Expr& stride) {
  return outer == stride * size || outer == stride * at_least_one(size);
}

Expr without_at_least_one(const Expr& stride) {
  if (stride.is_constant() || stride.op() == ExprOp::kSymbol) return stride;
  std::vector<Expr> args;
  for (const Expr& arg : stride.args()) args.push_back(without_at_least_one(arg));
  if (stride.op() == ExprOp::kMax && args.size() == 2) {
    if (args[0].is_int(1)) return args[1];
    if (args[1].is_int(1)) return args[0];
  }
  return Expr::make(stride.op(), std::move(args));
}

bool is_contiguous(std::span<const Expr> sizes, std::span<const Expr> strides) {
  NG_CHECK(sizes.size() == strides.size(), sizes.size(), " sizes, ", strides.size(), " strides");
  if (has_zero(sizes)) return true;
  Expr inner_stride = 1;
  Expr inner_size = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d].is_int(1)) continue;
    if (!is_step_over(strides[d], inner_size, inner_stride)) return false;
    inner_stride = strides[d];
    inner_size = sizes[d];
  }
  return true;
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

namespace {

// Calls `visit` with the offset of each element in row-major order.
template <typename Visit>
void for_each_offset(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset,
                     const Visit& visit) {
  if (sizes.empty()) return visit(offset);
  for (int64_t i = 0; i < sizes[0]; ++i)
    for_each_offset(sizes.subspan(1), strides.subspan(1), offset + i * strides[0], visit);
}

bool has_elements(std::span<const int64_t> sizes) { return std::ranges::find(sizes, 0) == sizes.end(); }

void check_not_negative(std::span<const int64_t> numbers, const char* what) {
  for (const int64_t number : numbers) {
    if (number < 0) throw UserError(cat("a ", what, " is at least 0, got ", number));
  }
}

}  // namespace

int64_t dense_bytes(std::span<const int64_t> sizes, DType dtype) {
  check_not_negative(sizes, "size");
  if (!has_elements(sizes)) return 0;
  int64_t bytes = size_of(dtype);
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) throw UserError("the bytes of a tensor do not fit 64 bits");
  }
  return bytes;
}

int64_t strided_bytes(std::span<const int64_t> sizes, std::span<const int64_t> strides, DType dtype) {
  check_not_negative(sizes, "size");
  check_not_negative(strides, "stride");
  return extent_bytes(sizes, strides, dtype);
}

bool is_row_major(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  NG_CHECK(sizes.size() == strides.size(), sizes.size(), " sizes, ", strides.size(), " strides");
  if (!has_elements(sizes)) return true;
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != stride) return false;
    if (__builtin_mul_overflow(stride, sizes[d], &stride)) return false;
  }
  return true;
}

void copy_to_row_major(const void* strided, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                       DType dtype, void* dense) {
  if (!has_elements(sizes)) return;
  const int64_t item = size_of(dtype);
  const auto* from = static_cast<const std::byte*>(strided);
  auto* to = static_cast<std::byte*>(dense);
  if (is_row_major(sizes, strides)) {
    std::memcpy(to, from, dense_bytes(sizes, dtype));
    return;
  }
  for_each_offset(sizes, strides, 0, [&](int64_t offset) {
    std::memcpy(to, from + offset * item, item);
    to += item;
  });
}

void copy_from_row_major(const void* dense, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                         DType dtype, void* strided) {
  if (!has_elements(sizes)) return;
  const int64_t item = size_of(dtype);
  const auto* from = static_cast<const std::byte*>(dense);
  auto* to = static_cast<std::byte*>(strided);
  for_each_offset(sizes, strides, 0, [&](int64_t offset) {
    std::memcpy(to + offset * item, from, item);
    from += item;
  });
}

}  // namespace npugraph
