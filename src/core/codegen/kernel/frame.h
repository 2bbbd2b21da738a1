// SPDX-License-Identifier: Apache-2.0
// The data that the code of a kernel and its host exchange. The code knows the first fields by their numbers
// (FrameField).
#pragma once

#include <cstdint>
#include <mutex>

#include "abi/task.h"
#include "codegen/task/slots.h"

namespace npugraph::codegen {

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

}  // namespace npugraph::codegen
