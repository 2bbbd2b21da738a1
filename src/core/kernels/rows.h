// SPDX-License-Identifier: Apache-2.0
// The parts of table().
#pragma once

#include <span>

#include "kernels/registry.h"

namespace npugraph::kernels {

std::span<const Kernel> pointwise_kernels();  // unary, binary, where
std::span<const Kernel> memory_kernels();     // copy, cast, fill, arange
std::span<const Kernel> matmul_kernels();     // linear_f32, mm_f32
std::span<const Kernel> embedding_kernels();  // embedding_dense_backward

}  // namespace npugraph::kernels
