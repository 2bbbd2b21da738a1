// SPDX-License-Identifier: Apache-2.0
// A kernel for an operator of the table.
#include "abi/kernel.h"

using namespace npugraph::kernel;

namespace {

void relu(Input, Output) {}
NPUGRAPH_KERNEL("aten::relu(Tensor self) -> Tensor", relu)

}  // namespace
