// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernel/frame.h"

#include <algorithm>

namespace npugraph::codegen {
namespace {

struct ParallelJob {
  KernelFrame* frame;
  ChunkFunction* chunk;
};

void run_chunk(void* arg, int64_t begin, int64_t end) {
  const auto* job = static_cast<const ParallelJob*>(arg);
  KernelFrame& frame = *job->frame;
  if (frame.locals_bytes == 0) return job->chunk(&frame, nullptr, begin, end);
  const int slot = frame.slots.take();
  job->chunk(&frame, frame.locals + slot * frame.locals_bytes, begin, end);
  frame.slots.give_back(slot);
}

}  // namespace

int32_t run_parallel(KernelFrame* frame, ChunkFunction* chunk, int64_t extent, int64_t grain) {
  const ng_host* host = frame->host;
  grain = std::max<int64_t>(grain, 1);
  if (frame->locals_bytes > 0) grain = grain_for(*host, most_slots(), extent, grain);
  if (extent <= grain || host->workers <= 1) {
    if (extent > 0) chunk(frame, frame->locals, 0, extent);
  } else {
    ParallelJob job = {frame, chunk};
    host->parallel_for(host, 0, extent, grain, run_chunk, &job);
  }
  const std::lock_guard lock(frame->mutex);
  return frame->failed ? 1 : 0;
}

void record_failure(KernelFrame* frame, int64_t message, int64_t shown, int64_t iteration) {
  const std::lock_guard lock(frame->mutex);
  if (frame->failed && frame->iteration <= iteration) return;
  frame->failed = true;
  frame->message = message;
  frame->shown = shown;
  frame->iteration = iteration;
}

}  // namespace npugraph::codegen
