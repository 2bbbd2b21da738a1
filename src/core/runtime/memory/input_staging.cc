// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/input_staging.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "runtime/instance/instance.h"
#include "tensor/shape.h"

namespace npugraph::runtime {

using program::BufferClass;
using program::kNone;

namespace {

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

void Instance::plan_staging(const StagingRule& rule) {
  const program::Program& program = *blueprint_.program;
  staged_of_.assign(inputs_.size(), kNone);
  over_first_ = rule.over_first;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const TensorInput& tensor = inputs_[i];
    const bool reads_more = tensor.before > 0 || tensor.reach > tensor.bytes;
    if (reads_more || std::ranges::find(rule.inputs, tensor.input) == rule.inputs.end()) continue;
    const program::Input& input = program.inputs[tensor.input];
    Staged staged{.input = static_cast<int32_t>(i), .item_bytes = size_of(input.dtype)};
    for (const auto& size : input.sizes) staged.sizes.push_back(sizes_.value(size).as_int());
    for (const auto& stride : input.strides) staged.strides.push_back(sizes_.value(stride).as_int());
    staged_of_[i] = static_cast<int32_t>(staged_.size());
    staged_.push_back(std::move(staged));
  }
}

// Requires that `bound_` holds the addresses of this call. The tensor of this call becomes the first one if there is
// none yet, if the memory of the first one has moved or shrunk, or if a copy would overwrite other inputs of this call.
void Instance::follow_first(std::span<const BoundInput> inputs) {
  for (Staged& staged : staged_) {
    const int32_t i = staged.input;
    if (staged.held != nullptr && is_first_there(staged) && !is_first_in_use(staged)) continue;
    drop_first(staged);
    place_buffer(inputs_[i].buffer, const_cast<void*>(bound_[i].data), const_cast<void*>(bound_[i].object));
    if (inputs_[i].bytes == 0) continue;
    staged.held = host_.hold(inputs[inputs_[i].input].storage);
    staged.first = bound_[i].data;
    if (staged.held != nullptr) staged.memory = host_.memory_of(staged.held);
  }
}

bool Instance::is_first_there(const Staged& staged) const {
  const std::span<std::byte> now = host_.memory_of(staged.held);
  return now.data() == staged.memory.data() && now.size() >= staged.memory.size();
}

// Whether its memory overlaps an input of this call. False if the call passes the same tensor again.
bool Instance::is_first_in_use(const Staged& staged) const {
  if (bound_[staged.input].data == staged.first) return false;
  const std::span first(static_cast<const std::byte*>(staged.first), inputs_[staged.input].bytes);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const TensorInput& tensor = inputs_[i];
    const auto* begin = static_cast<const std::byte*>(bound_[i].data);
    if (begin == nullptr) continue;
    const std::span now(begin - tensor.before, tensor.before + tensor.reach);
    if (overlap(first, now)) return true;
  }
  return false;
}

void Instance::drop_first(Staged& staged) {
  if (staged.held != nullptr) host_.release(staged.held);
  staged.held = nullptr;
  staged.first = nullptr;
  staged.memory = {};
}

int64_t Instance::stage_inputs() {
  int64_t copied = 0;
  for (Staged& staged : staged_) {
    const TensorInput& tensor = inputs_[staged.input];
    const Address& given = bound_[staged.input];
    void* to = over_first_ ? const_cast<void*>(staged.first) : bases_[tensor.buffer];
    if (to == nullptr || to == given.data || tensor.bytes == 0) continue;
    if (over_first_ && !is_first_there(staged)) {  // its owner has resized it since
      drop_first(staged);
      place_buffer(tensor.buffer, const_cast<void*>(given.data), const_cast<void*>(given.object));
      continue;
    }
    copy_elements(to, given.data, staged.sizes, staged.strides, staged.item_bytes);
    copied += tensor.bytes;
  }
  return copied;
}

}  // namespace npugraph::runtime
