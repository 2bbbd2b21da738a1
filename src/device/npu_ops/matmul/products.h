// SPDX-License-Identifier: Apache-2.0
// Products for operators that communicate.
#pragma once

#include <optional>
#include <vector>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

using OptionalType = std::optional<at::ScalarType>;

// Stands for a result that was not asked for.
inline Tensor nothing(const Tensor& like) { return like.new_empty({0}); }

// Raises NotImplementedError if an argument is given that the host does not support.
void check_absent(const char* op, const char* name, bool is_given);

// x1 @ x2 with bias and scales, in float32 (float64 stays); integers are multiplied in int32.
struct Product {
  OptionalTensor bias = std::nullopt;      // if int32, added before the scales
  OptionalTensor x1_scale = std::nullopt;  // one for each row, or one for all
  OptionalTensor x2_scale = std::nullopt;  // one for each column, or one for all; in int64: the bits of float32

  Tensor operator()(const Tensor& x1, const Tensor& x2) const;
};

// The type of the result of a product of x1: `wanted`, or that of x1. For x1 of one byte it is bfloat16 if
// `scale` is, or if `scale` is float32 and x1 int8; else float16.
at::ScalarType result_type(const Tensor& x1, const OptionalTensor& scale, OptionalType wanted);
// The same for an argument `name` that is the code of a type.
at::ScalarType result_type(const char* op, const char* name, const Tensor& x1, const OptionalTensor& scale,
                           std::optional<int64_t> code);

}  // namespace npugraph::npu_ops
