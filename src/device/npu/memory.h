// SPDX-License-Identifier: Apache-2.0
// Device memory: host memory that is owned by CPU storages ("host storages") and counted against the size of a device.
//
// The StorageImpl of an npu tensor holds a DataPtr whose context is a Block, and the Block owns the host storage: a CPU
// StorageImpl over the same bytes. So CPU kernels work on npu tensors through the host storage without a copy, and the
// memory lives as long as either side is held. One Block belongs to one npu StorageImpl. Thread-safe where not said
// otherwise.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

#include "tensor/format.h"

namespace npugraph::npu {

struct Block {
  c10::intrusive_ptr<c10::StorageImpl> host;
  int64_t bytes = 0;       // as counted
  bool is_counted = true;  // false: the memory is counted elsewhere
  c10::DeviceIndex device = 0;
  int format = kPlainFormat;
  Block* previous = nullptr;  // list of the blocks of a device, guarded by its DeviceMemory's mutex
  Block* next = nullptr;
};

// Statistics and limit of one device.
class DeviceMemory {
 public:
  static DeviceMemory& of(c10::DeviceIndex device);

  // c10::OutOfMemoryError when `bytes` more do not fit the device.
  void add(Block& block, int64_t bytes);
  void remove(Block& block) noexcept;
  // The host storage of `block` now has `bytes`. c10::OutOfMemoryError as above, though they are counted even then.
  void resize(Block& block, int64_t bytes);
  void count(Block& block) noexcept;

  // Throws c10::OutOfMemoryError: the host lacks `bytes`, though the device has room for them.
  [[noreturn]] void fail_on_host(int64_t bytes, c10::DeviceIndex device);

  c10::CachingDeviceAllocator::DeviceStats statistics() const;
  void reset_peak();
  void reset_accumulated();
  int64_t allocated() const;
  int64_t free() const;  // below 0 if memory from elsewhere exceeds the capacity
  int64_t capacity() const;
  // At most this share of the device may be used from now on; from 0 to 1.
  void set_fraction(double fraction);

  struct Piece {
    uintptr_t address;
    int64_t bytes;
  };
  std::vector<Piece> pieces() const;
  // Whether `bytes` from `address` on lie in one of its pieces, or in one that is lent to it.
  bool holds(uintptr_t address, uint64_t bytes) const;

 private:
  int64_t room() const;
  void count_in(int64_t bytes);
  void count_out(int64_t bytes);
  [[noreturn]] void fail(int64_t bytes, int64_t room, c10::DeviceIndex device);

  mutable std::mutex mutex_;
  c10::CachingAllocator::StatArray pieces_{};
  c10::CachingAllocator::StatArray bytes_{};
  int64_t out_of_memory_ = 0;  // number of such errors
  int64_t capacity_ = -1;      // -1: device_bytes()
  Block* first_ = nullptr;
};

// The number of bytes that, by the text of an error, the host lacks; nullopt if the error is about something else.
std::optional<int64_t> refused_by_host(std::string_view error);

// The allocator of the npu device: allocates on the current device of the calling thread.
class NpuAllocator final : public c10::DeviceAllocator {
 public:
  static NpuAllocator& instance();

  c10::DataPtr allocate(size_t bytes) override;
  void copy_data(void* dest, const void* src, size_t bytes) const override { default_copy_data(dest, src, bytes); }

  bool initialized() override { return true; }
  // Nothing is cached. Calls the callback of before_empty_cache(), which may throw.
  void emptyCache(c10::MempoolId_t = {0, 0}) override;
  void before_empty_cache(void (*callback)()) { before_empty_cache_ = callback; }
  // Eager work is done when its call returns, so no stream uses memory later.
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;

 private:
  void (*before_empty_cache_)() = nullptr;
};

// A new npu storage over the memory of a CPU storage, which becomes its host storage.
c10::Storage adopt(c10::Storage cpu, c10::DeviceIndex device);
// The same over memory that is owned and counted elsewhere, until count().
c10::Storage adopt_lent(c10::Storage cpu, c10::DeviceIndex device);
// From now on `npu` owns the memory of its host storage, which is counted even if the device has no room for it.
void count(c10::StorageImpl* npu) noexcept;

// The deleter of a DataPtr whose context is a Block.
void delete_block(void* block);

// Null if the memory of an npu storage came from elsewhere (DLPack, a deserialised
// storage), and its host storage has not been made yet.
inline Block* block_of(const c10::StorageImpl* npu) {
  const c10::DataPtr& data = const_cast<c10::StorageImpl*>(npu)->_mutable_data_ptr_no_checks();
  return data.get_deleter() == &delete_block ? static_cast<Block*>(data.get_context()) : nullptr;
}

// Gives memory that came from elsewhere its host storage.
c10::StorageImpl* make_host_storage(c10::StorageImpl* npu);

// The host storage of an npu storage, owned by it.
inline c10::StorageImpl* host_storage_of(c10::StorageImpl* npu) {
  Block* block = block_of(npu);
  return block != nullptr ? block->host.get() : make_host_storage(npu);
}

// The format tag of an npu storage.
int& format_of(c10::StorageImpl* npu);

// A new npu storage over the memory of `npu`, which it keeps alive. It is not counted again, and cannot be resized.
c10::Storage borrow(c10::StorageImpl* npu);
// Makes `npu`, which keeps its size, use the memory of `other` from byte `offset` on, and keeps that memory alive.
void stand_on(c10::StorageImpl* npu, c10::StorageImpl* other, int64_t offset);

// The device into whose memory `pointer` points; nullopt if there is none.
std::optional<c10::DeviceIndex> device_of(const void* pointer);

// Gives `npu` new memory of `bytes` on its device, with as much of the old content as fits. c10::Error if it is not
// resizable, c10::OutOfMemoryError as above.
void resize(c10::StorageImpl* npu, size_t bytes);

// To be called after a CPU kernel may have resized the host storage or given it other memory.
void follow_host_storage(c10::StorageImpl* npu);

}  // namespace npugraph::npu
