// SPDX-License-Identifier: Apache-2.0
#include "device/runtime/pinned_memory.h"

#include <algorithm>
#include <map>
#include <mutex>

#include <c10/core/CPUAllocator.h>

namespace npugraph::device {
namespace {

// Stateless deleters get only the address of the memory, so this table owns the memory.
class PinnedAllocator final : public at::HostAllocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    at::DataPtr memory = c10::GetCPUAllocator()->allocate(std::max<size_t>(bytes, 1));
    void* const data = memory.get();
    const std::lock_guard lock(mutex_);
    for_pieces([](auto& stat) { stat.increase(1); });
    for_bytes([&](auto& stat) { stat.increase(bytes); });
    pieces_.emplace(data, Piece{bytes, std::move(memory)});
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* dest, const void* src, size_t bytes) const override { default_copy_data(dest, src, bytes); }

  bool record_event(void* pointer, void*, c10::Stream) override { return owns(pointer); }
  void empty_cache() override {}
  at::HostStats get_stats() override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_accumulated_stats() override {
    const std::lock_guard lock(mutex_);
    for_pieces([](auto& stat) { stat.reset_accumulated(); });
    for_bytes([](auto& stat) { stat.reset_accumulated(); });
  }
  void reset_peak_stats() override {
    const std::lock_guard lock(mutex_);
    for_pieces([](auto& stat) { stat.reset_peak(); });
    for_bytes([](auto& stat) { stat.reset_peak(); });
  }

  bool owns(const void* pointer) {
    const std::lock_guard lock(mutex_);
    auto after = pieces_.upper_bound(pointer);
    if (after == pieces_.begin()) return false;
    const auto& [start, piece] = *std::prev(after);
    const auto offset = static_cast<const char*>(pointer) - static_cast<const char*>(start);
    return offset < static_cast<ptrdiff_t>(std::max<size_t>(piece.bytes, 1));
  }

 private:
  struct Piece {
    size_t bytes;
    at::DataPtr memory;
  };

  // Nothing is cached, so all allocated memory is in use.
  template <typename F>
  void for_pieces(F f) {
    f(stats_.active_requests);
    f(stats_.allocations);
  }
  template <typename F>
  void for_bytes(F f) {
    f(stats_.active_bytes);
    f(stats_.allocated_bytes);
  }

  static void release(void* data) { static_cast<PinnedAllocator&>(pinned_allocator()).free(data); }
  void free(void* data) {
    at::DataPtr memory;  // freed after the lock is released
    const std::lock_guard lock(mutex_);
    auto piece = pieces_.find(data);
    memory = std::move(piece->second.memory);
    for_pieces([](auto& stat) { stat.decrease(1); });
    for_bytes([&](auto& stat) { stat.decrease(piece->second.bytes); });
    pieces_.erase(piece);
  }

  std::mutex mutex_;
  std::map<const void*, Piece> pieces_;
  at::HostStats stats_;
};

}  // namespace

at::HostAllocator& pinned_allocator() {
  static auto* allocator = new PinnedAllocator;
  return *allocator;
}

bool is_pinned(const void* pointer) { return static_cast<PinnedAllocator&>(pinned_allocator()).owns(pointer); }

}  // namespace npugraph::device
