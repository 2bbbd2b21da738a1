// SPDX-License-Identifier: Apache-2.0
// A library with a kernel of an operator that sample_kernels.cc has, too.
#include "abi/kernel.h"

namespace {

void strides(npugraph::kernel::Input, npugraph::kernel::Output) {}
NPUGRAPH_KERNEL("test_ops::strides(Tensor x) -> Tensor", strides)

}  // namespace
