// SPDX-License-Identifier: Apache-2.0
#include "runtime/held_memory.h"

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/executable_state.h"

namespace npugraph::runtime {

int64_t HeldMemory::constant_bytes() const { return state_.constants.bytes(); }

void HeldMemory::move_constants(std::byte* base) {
  std::lock_guard lock(state_.mutex);
  state_.check_idle();
  state_.constants.move(base);
}

void HeldMemory::release() {
  std::lock_guard lock(state_.mutex);
  state_.check_idle();
  for (const auto& lease : state_.leases) lease->memory.release();
  for (const auto& entry : state_.cache.entries()) {
    if (entry.instance->memory) entry.instance->memory->release();
  }
  if (state_.pool) state_.pool->trim();
}

void HeldMemory::trim() {
  // Freed without the lock.
  std::vector<std::unique_ptr<Lease>> idle;
  std::vector<std::unique_ptr<Instance>> dropped;
  std::lock_guard lock(state_.mutex);
  state_.cache.drop_idle();
  dropped = state_.cache.take_dropped();
  for (auto& lease : state_.leases) {
    if (!lease->busy) idle.push_back(std::move(lease));
  }
  std::erase(state_.leases, nullptr);
  if (state_.pool) state_.pool->trim();
}

}  // namespace npugraph::runtime
