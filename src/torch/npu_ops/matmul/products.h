// SPDX-License-Identifier: Apache-2.0
// Products of operators that communicate.
#pragma once

#include <optional>
#include <vector>

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

using OptionalType = std::optional<at::ScalarType>;

inline bool given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

// What stands for a result that was not asked for.
inline Tensor nothing(const Tensor& like) { return like.new_empty({0}); }

// NotImplementedError where an argument is given that the host has no kernel for.
void check_absent(const char* op, const char* name, bool is_given);

// x1 @ x2 with what comes with it, in float32 (float64 stays); integers are multiplied in int32.
struct Product {
  OptionalTensor bias = std::nullopt;      // of int32: before the scales
  OptionalTensor x1_scale = std::nullopt;  // of each row, or one
  OptionalTensor x2_scale = std::nullopt;  // of each column, or one; in int64: the bits of float32

  Tensor operator()(const Tensor& x1, const Tensor& x2) const;
};

// The type of the results of products of x1: `wanted`, or that of x1; of integers float16, or the bfloat16 of `scale`.
at::ScalarType result_type(const Tensor& x1, const OptionalTensor& scale, OptionalType wanted);
// The same for an argument `name` that is a number.
at::ScalarType result_type(const char* op, const char* name, const Tensor& x1, const OptionalTensor& scale,
                           std::optional<int64_t> code);

}  // namespace npugraph::npu_ops
