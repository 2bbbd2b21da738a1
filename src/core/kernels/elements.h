// SPDX-License-Identifier: Apache-2.0
// The elements of a window, counted in row-major order of its sizes, loops over them in threads, and their C++ types.
#pragma once

#include <cstdint>
#include <type_traits>

#include "abi/task.h"
#include "tensor/convert.h"
#include "tensor/dtype.h"

namespace npugraph::kernels {

inline int64_t elements(const ng_buffer& buffer) {
  int64_t count = 1;
  for (int d = 0; d < buffer.rank; ++d) count *= buffer.sizes[d];
  return count;
}

// The address of element `index`; no size may be 0.
inline char* element_at(const ng_buffer& buffer, int64_t index, int64_t element_bytes) {
  char* at = static_cast<char*>(buffer.data);
  for (int d = buffer.rank - 1; d >= 0; --d) {
    at += index % buffer.sizes[d] * buffer.strides[d] * element_bytes;
    index /= buffer.sizes[d];
  }
  return at;
}

// The elements of a window along one dimension.
struct RowOf {
  char* at = nullptr;
  int64_t size = 0;
  int64_t stride = 0;  // in bytes

  template <typename T>
  T load(int64_t i) const {
    return *reinterpret_cast<const T*>(at + i * stride);
  }
  template <typename T>
  void store(int64_t i, T element) const {
    *reinterpret_cast<T*>(at + i * stride) = element;
  }
};

// Row `index` along dimension `dim`, counted in row-major order of the other sizes, none of which may be 0. A scalar is
// a row of one element.
inline RowOf row_at(const ng_buffer& buffer, int64_t dim, int64_t index, int64_t element_bytes) {
  RowOf row{static_cast<char*>(buffer.data), 1, 0};
  for (int d = buffer.rank - 1; d >= 0; --d) {
    if (d == dim) {
      row.size = buffer.sizes[d];
      row.stride = buffer.strides[d] * element_bytes;
    } else {
      row.at += index % buffer.sizes[d] * buffer.strides[d] * element_bytes;
      index /= buffer.sizes[d];
    }
  }
  return row;
}

// An element as a number that C++ compares.
template <typename T>
auto key_of(T element) {
  if constexpr (kIsReduced<T>)
    return to_float(element);
  else
    return element;
}
template <typename Key>
bool is_nan([[maybe_unused]] Key key) {
  if constexpr (std::is_floating_point_v<Key>)
    return key != key;
  else
    return false;
}

// body(first, last) for ranges of [0, count) of at least `grain`, below which a second thread costs more than it
// brings.
template <typename Body>
void for_ranges(const ng_call& call, int64_t count, int64_t grain, Body body) {
  if (count < 2 * grain) return body(0, count);
  call.host->parallel_for(
      call.host, 0, count, grain,
      [](void* arg, int64_t first, int64_t last) { (*static_cast<Body*>(arg))(first, last); }, &body);
}

// Calls fn(std::type_identity<T>) for the C++ type of `dtype`. False for types that kernels do not convert.
template <typename Fn>
bool with_type(DType dtype, Fn fn) {
  switch (dtype) {
    case DType::kBool: return fn(std::type_identity<bool>{}), true;
    case DType::kU8: return fn(std::type_identity<uint8_t>{}), true;
    case DType::kI8: return fn(std::type_identity<int8_t>{}), true;
    case DType::kI16: return fn(std::type_identity<int16_t>{}), true;
    case DType::kI32: return fn(std::type_identity<int32_t>{}), true;
    case DType::kI64: return fn(std::type_identity<int64_t>{}), true;
    case DType::kF16: return fn(std::type_identity<Half>{}), true;
    case DType::kBF16: return fn(std::type_identity<BFloat16>{}), true;
    case DType::kF32: return fn(std::type_identity<float>{}), true;
    case DType::kF64: return fn(std::type_identity<double>{}), true;
    default: return false;
  }
}

}  // namespace npugraph::kernels
