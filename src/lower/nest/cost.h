// SPDX-License-Identifier: Apache-2.0
// How long a kernel takes on a target, roughly: what nests are compared by. Internal to lower/.
#pragma once

#include "loop/kernel.h"
#include "target/target.h"

namespace npugraph::lower {

// In nanoseconds, from its statements, the bytes that these move, and the threads that its parallel loops start. A symbolic
// size may be small or large: kernels of such sizes cost as much as with both together.
double cost_of(const loop::Kernel& kernel, const target::Target& target);

}  // namespace npugraph::lower
