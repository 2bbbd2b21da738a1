// SPDX-License-Identifier: Apache-2.0
// HiFloat8, numbers of eight bits whose precision tapers off ("Ascend HiFloat8 Format for Deep Learning", 2024,
// arXiv:2409.16626). torch has no type for it: its bits are bytes.
#pragma once

#include <ATen/ATen.h>

namespace npugraph::npu_ops {

constexpr int64_t kHifloat8Code = 290;  // torch_npu.hifloat8
constexpr double kLargestHifloat8 = 32768;

// `exact`, rounded half away from zero; infinity from 1.25 * 2^15 on.
at::Tensor to_hifloat8(const at::Tensor& exact);
// In float32. `bytes` are of any type of one byte.
at::Tensor from_hifloat8(const at::Tensor& bytes);

}  // namespace npugraph::npu_ops
