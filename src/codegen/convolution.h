// SPDX-License-Identifier: Apache-2.0
// Convolutions as tasks: for each group, the product of its weights and of the pixels under them, sums in f32, sizes at run
// time. The order of a sum depends on sizes and strides alone.
#pragma once

#include "abi/task.h"
#include "loop/convolution.h"
#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

// Buffers: weights [channels out, channels in / groups, kernel..] (contiguous), image [batch, channels in, ..], the bias
// [channels out] if there is one, the result [batch, channels out, ..] (contiguous). All of `dtype`: f32 or, where the target
// multiplies it, bf16. UserError for others.
ng_task make_convolution(const loop::Convolution& convolution, DType dtype, const target::Target& target);

}  // namespace npugraph::codegen
