// SPDX-License-Identifier: Apache-2.0
#include "runtime/report.h"

#include <algorithm>

#include "tensor/shape.h"

namespace npugraph::runtime {

using program::Access;
using program::BufferClass;
using program::kNone;

namespace {

// Bytes of the distinct elements of a window whose dimensions do not overlap otherwise.
int64_t window_bytes(const Blueprint& blueprint, const Sizes& sizes, int32_t w) {
  int64_t elements = 1;
  for (size_t d = 0; d < sizes.sizes(w).size(); ++d) {
    const bool broadcast = sizes.strides(w)[d] == 0 && sizes.sizes(w)[d] != 0;
    elements *= broadcast ? 1 : sizes.sizes(w)[d];
  }
  return elements * size_of(blueprint.windows[w].operand->dtype);
}

int64_t buffer_bytes(const Blueprint& blueprint, const Sizes& sizes, int32_t b) {
  const program::Buffer& buffer = blueprint.program->buffers[b];
  if (buffer.cls == BufferClass::kOutput || buffer.preallocated) return sizes.bytes(b);
  if (buffer.opaque) return 0;
  int64_t bytes = 0;
  for (const int32_t w : blueprint.windows_of_buffer[b]) {
    const int64_t extent = extent_bytes(sizes.sizes(w), sizes.strides(w), blueprint.windows[w].operand->dtype);
    bytes = std::max(bytes, extent == 0 ? 0 : sizes.offset(w) + extent);
  }
  return bytes;
}

}  // namespace

std::vector<TaskTraffic> task_traffic(const Blueprint& blueprint, const Sizes& sizes) {
  std::vector<TaskTraffic> traffic(blueprint.program->tasks.size());
  for (int32_t w = 0; w < blueprint.first_window.back(); ++w) {
    const Window& window = blueprint.windows[w];
    if (blueprint.program->buffers[window.operand->buffer].opaque) continue;
    const int64_t bytes = window_bytes(blueprint, sizes, w);
    if (window.operand->access != Access::kWrite) traffic[window.task].bytes_read += bytes;
    if (window.operand->access != Access::kRead) traffic[window.task].bytes_written += bytes;
  }
  return traffic;
}

int64_t peak_heap_bytes(const Blueprint& blueprint, const Sizes& sizes) {
  const program::Program& program = *blueprint.program;
  const size_t tasks = program.tasks.size();
  std::vector<int64_t> change(tasks + 1, 0);  // of the live bytes, before each task
  for (const int32_t b : blueprint.owned_buffers) {
    const program::Buffer& buffer = program.buffers[b];
    const int64_t bytes = buffer_bytes(blueprint, sizes, b);
    change[buffer.first_task == kNone ? tasks : buffer.first_task] += bytes;
    const auto returned = [&](const OutputPlan& o) {
      return o.window != kNone && blueprint.windows[o.window].operand->buffer == b;
    };
    const bool dies = buffer.cls == BufferClass::kHeap && buffer.last_task != kNone;
    if (dies && std::ranges::none_of(blueprint.outputs, returned)) change[buffer.last_task + 1] -= bytes;
  }
  int64_t live = 0;
  int64_t peak = 0;
  for (const int64_t bytes : change) peak = std::max(peak, live += bytes);
  return peak;
}

int64_t copied_bytes(const Blueprint& blueprint, const Sizes& sizes) {
  int64_t bytes = 0;
  for (int32_t w = 0; w < blueprint.first_window.back(); ++w) {
    const program::Operand& operand = *blueprint.windows[w].operand;
    const bool opaque = blueprint.program->buffers[operand.buffer].opaque;
    if (operand.copied && !opaque) bytes += window_bytes(blueprint, sizes, w);
  }
  return bytes;
}

}  // namespace npugraph::runtime
