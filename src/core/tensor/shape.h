// SPDX-License-Identifier: Apache-2.0
// Sizes and strides of strided tensors, in elements, as expressions and as numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/expr.h"

namespace npugraph {

// Number of elements.
Expr numel(std::span<const Expr> sizes);

// Strides of a dense row-major tensor; a dimension of constant size 0 counts as 1, as in PyTorch.
std::vector<Expr> contiguous_strides(std::span<const Expr> sizes);

// In strides PyTorch counts a size that may be 0 as max(size, 1). Strides with the size itself place elements alike:
// where the size is 0, there are none. So the next three functions take both forms.

// Whether a step of `outer` passes over `size` elements of `stride`, so that two dimensions are one.
bool is_step_over(const Expr& outer, const Expr& size, const Expr& stride);

// The stride with sizes in the place of max(size, 1), so that strides of both forms can be compared.
Expr without_at_least_one(const Expr& stride);

// Whether `strides` are those of a dense row-major tensor; dimensions of size 1 may have any stride, and so may all
// dimensions when a size is the constant 0.
bool is_contiguous(std::span<const Expr> sizes, std::span<const Expr> strides);

// Elements from the first to the last touched, plus one; 0 when a size is the constant 0. If a symbolic size is 0 at
// run time, the value has no meaning and may be negative.
Expr extent(std::span<const Expr> sizes, std::span<const Expr> strides);

// The extent for known sizes and strides, in bytes; 0 without elements. UserError if it does not fit 64 bits.
int64_t extent_bytes(std::span<const int64_t> sizes, std::span<const int64_t> strides, DType dtype);

// Bytes of a dense tensor. UserError if a size is negative, or if they do not fit 64 bits.
int64_t dense_bytes(std::span<const int64_t> sizes, DType dtype);

// Bytes of a tensor with these strides, from its first element on. UserError if a size or a stride is negative, or if
// they do not fit 64 bits.
int64_t strided_bytes(std::span<const int64_t> sizes, std::span<const int64_t> strides, DType dtype);

// Whether `strides` are those of a dense row-major tensor; dimensions of size 1 may have any stride, and so may all
// dimensions when a size is 0.
bool is_row_major(std::span<const int64_t> sizes, std::span<const int64_t> strides);

// Copies a strided tensor to a row-major one, and the other way. The tensors must not overlap.
void copy_to_row_major(const void* strided, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                       DType dtype, void* dense);
void copy_from_row_major(const void* dense, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                         DType dtype, void* strided);

}  // namespace npugraph
