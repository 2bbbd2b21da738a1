// SPDX-License-Identifier: Apache-2.0
// Elements of strided tensors in memory. Sizes and strides are in elements.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace npugraph {

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
