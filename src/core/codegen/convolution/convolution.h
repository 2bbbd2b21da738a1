// SPDX-License-Identifier: Apache-2.0
// Convolutions as tasks: for each group, the product of its weights and the pixels under them. Sums are in f32, and
// sizes are known at run time. The order of a sum depends on sizes and strides alone.
#pragma once

#include <optional>

#include "abi/task.h"
#include "loop/kernel.h"
#include "loop/task_parameters.h"
#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

struct ConvolutionSpec {
  loop::Convolution convolution;
  DType dtype = DType::kF32;  // f32, bf16 or, if the target converts it, f16
  // As MatmulSpec::epilogue. Rows count through images and channels, and columns through the pixels of a channel; with
  // channels last, rows count through images and pixels, and columns through channels.
  std::optional<loop::Kernel> epilogue;
};

// Buffers: weights [channels out, channels in / groups, kernel..] (contiguous), image [batch, channels in, ..], then
// either the buffers of the epilogue except its first one, or the bias [channels out] if there is one and the result
// [batch, channels out, ..] (dense). All but those of the epilogue are of `dtype`. Throws UserError if the spec cannot
// be generated.
ng_task make_convolution(const ConvolutionSpec& spec, const target::Target& target);

}  // namespace npugraph::codegen
