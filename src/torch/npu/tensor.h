// SPDX-License-Identifier: Apache-2.0
// Tensors of npu as tensors of cpu and back, over the same memory.
#pragma once

#include <ATen/ATen.h>

#include "torch/npu/facts.h"

namespace npugraph::npu {

inline bool is_npu(const at::Tensor& tensor) { return tensor.device().type() == kNpu; }

// A CPU tensor over the twin of an npu tensor, with its sizes, strides, and conjugate and negative bits.
at::Tensor cpu_alias(const at::Tensor& npu);
// Takes back what cpu_alias gave and is no longer needed, so that the thread's next alias costs less. Nothing happens to a
// tensor that somebody else holds, too.
void reuse_alias(at::Tensor alias);

// Moves a CPU tensor into `storage`, an npu storage over the same memory.
void move_into(c10::TensorImpl& cpu, c10::Storage storage);

// c10::NotImplementedError, in the name of operator `name`, when npu has no tensors of the kind of `tensor`.
void check_kind(const at::Tensor& tensor, const char* name);

}  // namespace npugraph::npu
