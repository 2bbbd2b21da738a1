// SPDX-License-Identifier: Apache-2.0
// The C++ types of element types.
#pragma once

#include <cstdint>

#include "tensor/convert.h"
#include "tensor/dtype.h"

namespace npugraph::kernels {

template <typename T>
struct TypeTag {
  using type = T;
};

// Calls fn(TypeTag<T>) for the C++ type of `dtype`. False for types that kernels do not convert.
template <typename Fn>
bool with_type(DType dtype, Fn fn) {
  switch (dtype) {
    case DType::kBool: return fn(TypeTag<bool>{}), true;
    case DType::kU8: return fn(TypeTag<uint8_t>{}), true;
    case DType::kI8: return fn(TypeTag<int8_t>{}), true;
    case DType::kI16: return fn(TypeTag<int16_t>{}), true;
    case DType::kI32: return fn(TypeTag<int32_t>{}), true;
    case DType::kI64: return fn(TypeTag<int64_t>{}), true;
    case DType::kF16: return fn(TypeTag<Half>{}), true;
    case DType::kBF16: return fn(TypeTag<BFloat16>{}), true;
    case DType::kF32: return fn(TypeTag<float>{}), true;
    case DType::kF64: return fn(TypeTag<double>{}), true;
    default: return false;
  }
}

}  // namespace npugraph::kernels
