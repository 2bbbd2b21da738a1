// SPDX-License-Identifier: Apache-2.0
// A library with a kernel that does not fit its schema.
#include "abi/kernel.h"

namespace {

void misfit(npugraph::kernel::Input, int64_t, npugraph::kernel::Output) {}
NPUGRAPH_KERNEL("test_ops::misfit(Tensor(a!) x, float factor) -> ()", misfit)

}  // namespace
