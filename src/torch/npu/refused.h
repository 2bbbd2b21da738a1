// SPDX-License-Identifier: Apache-2.0
// How messages end that say which kinds of tensors npu has not.
#pragma once

namespace npugraph::npu {

inline constexpr const char* kOnCpuInstead = "; .cpu() brings the operands to where this works";
inline constexpr const char* kQuantisedRefused =
    ": quantised tensors are not supported on npu; npu_quantize and npu_quant_matmul work on tensors of int8";

}  // namespace npugraph::npu
