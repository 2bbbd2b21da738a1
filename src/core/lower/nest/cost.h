// SPDX-License-Identifier: Apache-2.0
// The approximate time of a kernel on a target, by which nests are compared. Internal to lower/.
#pragma once

#include "loop/kernel.h"
#include "target/target.h"

namespace npugraph::lower {

// In nanoseconds, from its statements, the bytes that these move, and the threads that its parallel loops start. A
// symbolic size may be small or large: the cost of a kernel with symbols is the sum of its costs at a small and at
// a large size.
double cost_of(const loop::Kernel& kernel, const target::Target& target);

}  // namespace npugraph::lower
