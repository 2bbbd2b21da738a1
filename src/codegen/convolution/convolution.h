// SPDX-License-Identifier: Apache-2.0
// Convolutions as tasks: for each group, the product of its weights and of the pixels under them, sums in f32, sizes at run
// time. The order of a sum depends on sizes and strides alone.
#pragma once

#include <optional>

#include "abi/task.h"
#include "loop/convolution.h"
#include "loop/kernel.h"
#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

struct ConvolutionSpec {
  loop::Convolution convolution;
  DType dtype = DType::kF32;  // f32 or, where the target multiplies it, bf16
  // As MatmulSpec: rows count through images and channels, columns through the pixels of a channel; with channels last, rows
  // through images and pixels, columns through channels.
  std::optional<loop::Kernel> epilogue;
};

// Buffers: weights [channels out, channels in / groups, kernel..] (contiguous), image [batch, channels in, ..], then those of
// the epilogue but the first, or the bias [channels out] if there is one and the result [batch, channels out, ..] (dense).
// All but those of the epilogue are of `dtype`. UserError where the spec cannot be generated.
ng_task make_convolution(const ConvolutionSpec& spec, const target::Target& target);

}  // namespace npugraph::codegen
