// SPDX-License-Identifier: Apache-2.0
// A whole kernel as an LLVM module: a function `main` (MainFunction) which calls one for each parallel loop (ChunkFunction).
// A kernel that is one parallel loop has a function `chunk` alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/jit/module.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

// Those of the checks of a kernel, and of its divisions, by the number that they fail with.
std::vector<std::string> check_messages(const loop::Kernel& kernel);

// The parallel loop that the kernel is, null if there is more in it.
const loop::For* sole_parallel_loop(const loop::Kernel& kernel);

// `copies` as make_kernel_task() takes them.
IrModule emit_kernel(const loop::Kernel& kernel, const target::Target& target, std::optional<int> copies = {});

// Where a local buffer begins in the memory of an iteration is a multiple of this.
inline constexpr int64_t kLocalAlignment = 64;

}  // namespace npugraph::codegen
