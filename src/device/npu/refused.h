// SPDX-License-Identifier: Apache-2.0
// Endings of error messages about kinds of tensors that npu does not support.
#pragma once

namespace npugraph::npu {

inline constexpr const char* kOnCpuInstead = "; .cpu() brings the operands to where this works";
inline constexpr const char* kQuantisedRefused =
    ": quantised tensors are not supported on npu; npu_quantize and npu_quant_matmul work on tensors of int8";

}  // namespace npugraph::npu
