// SPDX-License-Identifier: Apache-2.0
// Kernels of the loop IR as tasks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "abi/task.h"
#include "codegen/jit/jit.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

// A task that runs the kernel: its operands and scalars are those of the kernel, in order; data pointers are taken at every
// run, strides only as scalars. Locals live in the workspace. A failed check makes it fail with the check's message, that of
// the earliest iteration of the parallel loop if several fail.
// Equal kernels share their code: the text is compiled once per process and target (jit/build_count.h). Thread-safe.
// `copies`: of the body of a vector loop in one iteration, where it may have so many (vector_copies.h), instead of the number
// that costs least.
ng_task make_kernel_task(const loop::Kernel& kernel, const target::Target& target, std::optional<int> copies = {});

// The machine code of a kernel, for people.
std::string kernel_assembly(const loop::Kernel& kernel, const target::Target& target);

}  // namespace npugraph::codegen
