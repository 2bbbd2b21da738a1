// SPDX-License-Identifier: Apache-2.0
// A library whose operators have a name in Ascend IR that one of sample_kernels.cc has.
#include "abi/kernel.h"

using namespace npugraph::kernel;

namespace {

void reversed(Input, Output) {}
NPUGRAPH_KERNEL("twin_ops::reversed(Tensor x) -> Tensor", reversed)

void reversed_(InOut) {}
NPUGRAPH_KERNEL("twin_ops::reversed_(Tensor(a!) x) -> ()", reversed_)

}  // namespace
