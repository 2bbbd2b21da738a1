// SPDX-License-Identifier: Apache-2.0
// A whole kernel as an LLVM module: a function `main` (MainFunction), which calls a ChunkFunction for each parallel
// loop. A kernel that consists of one parallel loop has only a function `chunk`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/jit/module.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

// The messages of the checks and divisions of a kernel. KernelFrame::fail() takes an index into them.
std::vector<std::string> check_messages(const loop::Kernel& kernel);

// The parallel loop that the kernel consists of, null if there is more in it.
const loop::For* sole_parallel_loop(const loop::Kernel& kernel);

// `copies` as for make_kernel_task().
IrModule emit_kernel(const loop::Kernel& kernel, const target::Target& target, std::optional<int> copies = {});

// Alignment in bytes of local buffers in the memory of an iteration.
inline constexpr int64_t kLocalAlignment = 64;

}  // namespace npugraph::codegen
