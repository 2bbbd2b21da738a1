// SPDX-License-Identifier: Apache-2.0
#include "tensor/strided.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "tensor/shape.h"

namespace npugraph {
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
