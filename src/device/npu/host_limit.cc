// SPDX-License-Identifier: Apache-2.0
#include "device/npu/host_limit.h"

#include <algorithm>
#include <atomic>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "base/env.h"
#include "base/host_memory.h"

namespace npugraph::npu {
namespace {

// Upper bound of the reserve for memory that a process needs beside its tensors.
constexpr int64_t kMostReserve = int64_t{1} << 30;
// The host is not asked about smaller pieces; devices count them all the same.
constexpr size_t kLargePiece = size_t{1} << 20;
// One of so many shares of the memory left is handed out before the host is asked again.
constexpr int64_t kShares = 4;

std::atomic<int64_t> handed_out{0};

bool is_refused(int64_t bytes) {
  return static_cast<size_t>(bytes) >= kLargePiece && allocates_for_device() && !host_has(bytes);
}

// Wraps the CPU allocator of the process, which owns the memory.
class GuardedAllocator final : public c10::Allocator {
 public:
  explicit GuardedAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (is_refused(static_cast<int64_t>(bytes))) [[unlikely]]
      TORCH_CHECK(false, kNoMemory, bytes, " bytes, which the host has not left");
    return inner_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
  void copy_data(void* dest, const void* source, std::size_t bytes) const override {
    inner_->copy_data(dest, source, bytes);
  }

 private:
  c10::Allocator* const inner_;
};

}  // namespace

bool is_host_limited() { return environment().device_memory == 0; }

int64_t device_bytes() {
  static const int64_t bytes = [] {
    if (!is_host_limited()) return environment().device_memory;
    const int64_t left = host_memory_left();
    return left - std::min(left / 16, kMostReserve);
  }();
  return bytes;
}

bool host_has(int64_t bytes) {
  if (!is_host_limited() || handed_out.fetch_sub(bytes, std::memory_order_relaxed) >= bytes) return true;
  // The last sixteenth of the reserve is never handed out: reporting the error needs some memory, too.
  const int64_t room = host_memory_left() - std::min(device_bytes() / 256, kMostReserve / 16) - bytes;
  handed_out.store(std::max<int64_t>(room, 0) / kShares, std::memory_order_relaxed);
  return room >= 0;
}

void guard_host_memory() {
  if (!is_host_limited()) return;
  c10::SetAllocator(c10::kCPU, new GuardedAllocator(c10::GetAllocator(c10::kCPU)));
  guard_memory([](int64_t bytes) { return !is_refused(bytes); });
}

}  // namespace npugraph::npu
