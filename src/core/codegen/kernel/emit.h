// SPDX-License-Identifier: Apache-2.0
// A whole kernel as an LLVM module: a function `main` (MainFunction), which calls a ChunkFunction for each parallel
// loop. A kernel that consists of one parallel loop has only a function `chunk`. KernelFrame is what they exchange with
// the host.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "abi/task.h"
#include "codegen/jit/module.h"
#include "codegen/task/work_items.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

// The data that the code of a kernel and its host exchange. The code knows the first fields by their numbers
// (FrameField).

struct KernelFrame;

// Iterations [begin, end) of a parallel loop. `locals` is memory for the local buffers of one iteration at a time.
using ChunkFunction = void(KernelFrame*, char* locals, int64_t begin, int64_t end);
// The whole kernel; 0 if no check failed.
using MainFunction = int32_t(KernelFrame*, char* locals);

struct KernelFrame {
  void* const* data;  // of the arguments
  const ng_scalar* scalars;
  // Runs a parallel loop; not 0 if a check failed.
  int32_t (*parallel)(KernelFrame* frame, ChunkFunction* chunk, int64_t extent, int64_t grain);
  // Reports a failed check: the number of its message, the value to show, the iteration of the parallel loop.
  void (*fail)(KernelFrame* frame, int64_t message, int64_t shown, int64_t iteration);
  // Values that a parallel loop takes from the code before it, 8 bytes each.
  const void* captured;

  // Not for generated code.
  const ng_host* host;
  char* locals;          // for each slot, memory for the local buffers of an iteration
  int64_t locals_bytes;  // of a slot
  Slots slots = Slots();
  std::mutex mutex;  // guards the fields below
  bool failed = false;
  int64_t message = 0;
  int64_t shown = 0;
  int64_t iteration = 0;
};

enum class FrameField : uint8_t { kData, kScalars, kParallel, kFail, kCaptured };

// The functions that KernelFrame points to.
int32_t run_parallel(KernelFrame* frame, ChunkFunction* chunk, int64_t extent, int64_t grain);
void record_failure(KernelFrame* frame, int64_t message, int64_t shown, int64_t iteration);

// The messages of the checks and divisions of a kernel. KernelFrame::fail() takes an index into them.
std::vector<std::string> check_messages(const loop::Kernel& kernel);

// The parallel loop that the kernel consists of, null if there is more in it.
const loop::For* sole_parallel_loop(const loop::Kernel& kernel);

// `copies` as for make_kernel_task().
IrModule emit_kernel(const loop::Kernel& kernel, const target::Target& target, std::optional<int> copies = {});

// Alignment in bytes of local buffers in the memory of an iteration.
inline constexpr int64_t kLocalAlignment = 64;

}  // namespace npugraph::codegen
