// SPDX-License-Identifier: Apache-2.0
// Kernels of npu for the operators that programs call most: as boxed.h, but without boxing the arguments.
#pragma once

#include <torch/library.h>

namespace npugraph::eager {

void register_unboxed_kernels(torch::Library& library);

}  // namespace npugraph::eager
