// SPDX-License-Identifier: Apache-2.0
// The C++ types of element types.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tensor/convert.h"
#include "tensor/dtype.h"

namespace npugraph::kernels {

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
