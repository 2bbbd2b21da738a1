// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/constant_memory.h"

#include <cstring>

#include "program/offsets.h"

namespace npugraph::runtime {
namespace {

// Bytes of a constant in the block; none for objects of the host.
int64_t room_of(const program::Constant& constant) {
  constexpr int64_t kUnit = program::kArenaAlignment;
  return constant.data == nullptr ? 0 : (constant.bytes + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

int64_t ConstantMemory::bytes() const {
  int64_t bytes = 0;
  for (const program::Constant& constant : program_.constants) bytes += room_of(constant);
  return bytes;
}

void ConstantMemory::move(std::byte* base) {
  copies_.clear();
  ++generation_;
  if (base == nullptr) return;
  for (const program::Constant& constant : program_.constants) {
    const bool copied = constant.data != nullptr && constant.bytes > 0;
    copies_.push_back(copied ? std::memcpy(base, constant.data, constant.bytes) : constant.data);
    base += room_of(constant);
  }
}

const void* ConstantMemory::data(int32_t constant) const {
  return copies_.empty() ? program_.constants[constant].data : copies_[constant];
}

}  // namespace npugraph::runtime
