// SPDX-License-Identifier: Apache-2.0
// The part of Instance for inputs that tasks do not read in the caller's memory.
#include <algorithm>
#include <cstddef>
#include <span>

#include "runtime/instance/instance.h"
#include "tensor/shape.h"

namespace npugraph::runtime {

using program::kNone;

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
