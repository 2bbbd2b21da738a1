// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/input_staging.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace npugraph::runtime {
namespace {

using program::BufferClass;
using program::kNone;

bool is_in_result(const program::Program& program, int32_t input) {
  return std::ranges::any_of(program.outputs, [&](const program::Output& output) {
    if (output.input == input) return true;
    return output.kind == program::Output::Kind::kTensor && output.tensor.buffer == program.inputs[input].buffer;
  });
}

struct Copy {
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
  int64_t item_bytes;
};

void copy_dim(std::byte* to, const std::byte* from, const Copy& copy, size_t dim) {
  if (dim == copy.sizes.size()) {
    std::memcpy(to, from, copy.item_bytes);
    return;
  }
  const int64_t size = copy.strides[dim] == 0 ? std::min<int64_t>(copy.sizes[dim], 1) : copy.sizes[dim];
  if (dim + 1 == copy.sizes.size() && copy.strides[dim] == 1) {
    std::memcpy(to, from, size * copy.item_bytes);
    return;
  }
  const int64_t step = copy.strides[dim] * copy.item_bytes;
  for (int64_t i = 0; i < size; ++i) copy_dim(to + i * step, from + i * step, copy, dim + 1);
}

bool is_dense(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int64_t* elements) {
  int64_t extent = 1;
  *elements = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    *elements *= sizes[d];
    extent += (sizes[d] - 1) * strides[d];
  }
  return extent == *elements;
}

}  // namespace

StagingRule staging_rule(const Blueprint& blueprint, std::optional<bool> clone_input) {
  StagingRule rule{.over_first = clone_input == false};
  if (!clone_input) return rule;
  const program::Program& program = *blueprint.program;
  for (int32_t i = 0; i < static_cast<int32_t>(program.inputs.size()); ++i) {
    const program::Input& input = program.inputs[i];
    if (input.buffer == kNone || input.mutated || input.storage_offset) continue;
    const program::Buffer& buffer = program.buffers[input.buffer];
    if (buffer.cls != BufferClass::kInput || buffer.opaque || buffer.first_task == kNone) continue;
    if (!is_in_result(program, i)) rule.inputs.push_back(i);
  }
  return rule;
}

void copy_elements(void* to, const void* from, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                   int64_t item_bytes) {
  int64_t elements = 0;
  if (std::ranges::find(sizes, 0) != sizes.end()) return;
  if (is_dense(sizes, strides, &elements)) {
    std::memcpy(to, from, elements * item_bytes);
    return;
  }
  copy_dim(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), {sizes, strides, item_bytes}, 0);
}

}  // namespace npugraph::runtime
