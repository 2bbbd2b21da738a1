// SPDX-License-Identifier: Apache-2.0
#include "device/npu/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include <c10/core/CPUAllocator.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "device/npu/facts.h"
#include "device/npu/host_limit.h"

namespace npugraph::npu {
namespace {

using c10::CachingAllocator::format_size;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);

using Held = c10::intrusive_ptr<c10::StorageImpl>;

c10::DataPtr pointer_to(Block* block) {
  return {block->host->_mutable_data_ptr_no_checks().get(), block, &delete_block, c10::Device(kNpu, block->device)};
}

Block* make_block(Held&& host, c10::DeviceIndex device, bool is_counted = true) {
  auto block = std::make_unique<Block>();
  const auto bytes = is_counted ? static_cast<int64_t>(host->nbytes()) : 0;
  block->host = std::move(host);
  block->device = device;
  block->is_counted = is_counted;
  DeviceMemory::of(device).add(*block, bytes);
  return block.release();
}

c10::Storage adopt(Held&& host, c10::DeviceIndex device, bool is_counted) {
  const bool resizable = host->resizable();
  const auto bytes = static_cast<int64_t>(host->nbytes());
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                            pointer_to(make_block(std::move(host), device, is_counted)),
                                                            &NpuAllocator::instance(), resizable));
}

std::atomic<int64_t> of_all_devices{0};  // bytes that all blocks count

constexpr int64_t kLargeBytes = int64_t{1} << 20;

size_t pool_of(int64_t bytes) {
  return static_cast<size_t>(bytes < kLargeBytes ? StatType::SMALL_POOL : StatType::LARGE_POOL);
}

}  // namespace

void delete_block(void* context) {
  auto* block = static_cast<Block*>(context);
  DeviceMemory::of(block->device).remove(*block);
  delete block;
}

DeviceMemory& DeviceMemory::of(c10::DeviceIndex device) {
  static auto* memories = new std::array<DeviceMemory, kMaxDevices>;  // storages may outlive static destruction
  return (*memories)[static_cast<size_t>(device)];
}

int64_t DeviceMemory::capacity() const { return capacity_ < 0 ? device_bytes() : capacity_; }

void DeviceMemory::set_fraction(double fraction) {
  const std::lock_guard lock(mutex_);
  capacity_ = static_cast<int64_t>(fraction * static_cast<double>(device_bytes()));
}

void DeviceMemory::fail(int64_t bytes, int64_t room, c10::DeviceIndex device) {
  ++out_of_memory_;
  TORCH_CHECK_WITH(OutOfMemoryError, false, "NPU out of memory. Tried to allocate ", format_size(bytes), " (NPU ",
                   static_cast<int>(device), "; ", format_size(device_bytes()), " total capacity; ",
                   format_size(capacity() - room), " already allocated; ", format_size(std::max<int64_t>(room, 0)),
                   " free). NPUGRAPH_DEVICE_MEMORY sets the size of the device.");
}

void DeviceMemory::fail_on_host(int64_t bytes, c10::DeviceIndex device) {
  const std::lock_guard lock(mutex_);
  ++out_of_memory_;
  TORCH_CHECK_WITH(OutOfMemoryError, false, "NPU out of memory. Tried to allocate ", format_size(bytes), " (NPU ",
                   static_cast<int>(device), "; ", format_size(device_bytes()), " total capacity; ",
                   format_size(bytes_[kAll].current),
                   " already allocated). The memory of the device is the host's, which has not as much left.");
}

std::optional<int64_t> refused_by_host(std::string_view error) {
  const size_t at = error.find(kNoMemory);
  if (at == error.npos) return std::nullopt;
  int64_t bytes = 0;
  std::from_chars(error.data() + at + kNoMemory.size(), error.data() + error.size(), bytes);
  return bytes;
}

// Called under the mutex. If the host limits the devices, memory that one of them has is missing from the others.
int64_t DeviceMemory::room() const {
  const int64_t own = capacity() - bytes_[kAll].current;
  return is_host_limited() ? std::min(own, device_bytes() - of_all_devices.load(std::memory_order_relaxed)) : own;
}

void DeviceMemory::count_in(int64_t bytes) {
  for (const size_t pool : {kAll, pool_of(bytes)}) {
    pieces_[pool].increase(1);
    bytes_[pool].increase(static_cast<size_t>(bytes));
  }
  of_all_devices.fetch_add(bytes, std::memory_order_relaxed);
}

void DeviceMemory::count_out(int64_t bytes) {
  for (const size_t pool : {kAll, pool_of(bytes)}) {
    pieces_[pool].decrease(1);
    bytes_[pool].decrease(static_cast<size_t>(bytes));
  }
  of_all_devices.fetch_sub(bytes, std::memory_order_relaxed);
}

void DeviceMemory::add(Block& block, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const int64_t left = room(); bytes > left) [[unlikely]]
    fail(bytes, left, block.device);
  block.bytes = bytes;
  block.next = first_;
  if (first_ != nullptr) first_->previous = &block;
  first_ = &block;
  count_in(bytes);
}

void DeviceMemory::remove(Block& block) noexcept {
  const std::lock_guard lock(mutex_);
  (block.previous != nullptr ? block.previous->next : first_) = block.next;
  if (block.next != nullptr) block.next->previous = block.previous;
  count_out(block.bytes);
}

void DeviceMemory::resize(Block& block, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const int64_t before = std::exchange(block.bytes, bytes);
  count_out(before);
  const int64_t left = room();
  count_in(bytes);
  if (bytes > before && bytes > left) fail(bytes, left, block.device);
}

void DeviceMemory::count(Block& block) noexcept {
  const std::lock_guard lock(mutex_);
  count_out(block.bytes);
  block.is_counted = true;
  block.bytes = static_cast<int64_t>(block.host->nbytes());
  count_in(block.bytes);
}

// Nothing is cached or split: reserved, active and requested bytes are the
// allocated bytes, and a segment is an allocation.
c10::CachingDeviceAllocator::DeviceStats DeviceMemory::statistics() const {
  const std::lock_guard lock(mutex_);
  c10::CachingDeviceAllocator::DeviceStats out;
  out.allocation = out.segment = out.active = pieces_;
  out.allocated_bytes = out.reserved_bytes = out.active_bytes = out.requested_bytes = bytes_;
  out.num_ooms = out_of_memory_;
  out.num_device_alloc = pieces_[kAll].allocated;
  out.num_device_free = pieces_[kAll].freed;
  return out;
}

void DeviceMemory::reset_peak() {
  const std::lock_guard lock(mutex_);
  for (StatArray* array : {&pieces_, &bytes_})
    for (auto& stat : *array) stat.reset_peak();
}

void DeviceMemory::reset_accumulated() {
  const std::lock_guard lock(mutex_);
  for (StatArray* array : {&pieces_, &bytes_})
    for (auto& stat : *array) stat.reset_accumulated();
  out_of_memory_ = 0;
}

int64_t DeviceMemory::free() const {
  const std::lock_guard lock(mutex_);
  return room();
}

int64_t DeviceMemory::allocated() const {
  const std::lock_guard lock(mutex_);
  return bytes_[kAll].current;
}

std::vector<DeviceMemory::Piece> DeviceMemory::pieces() const {
  const std::lock_guard lock(mutex_);
  std::vector<Piece> out;
  for (const Block* block = first_; block != nullptr; block = block->next)
    out.push_back({reinterpret_cast<uintptr_t>(block->host->_mutable_data_ptr_no_checks().get()), block->bytes});
  return out;
}

bool DeviceMemory::holds(uintptr_t address, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  for (const Block* block = first_; block != nullptr; block = block->next) {
    const auto begin = reinterpret_cast<uintptr_t>(block->host->_mutable_data_ptr_no_checks().get());
    const uint64_t size = block->host->nbytes();
    if (begin <= address && bytes <= size && address - begin <= size - bytes) return true;
  }
  return false;
}

NpuAllocator& NpuAllocator::instance() {
  static auto* allocator = new NpuAllocator;
  return *allocator;
}

c10::DataPtr NpuAllocator::allocate(size_t bytes) {
  auto* cpu = c10::GetCPUAllocator();
  auto host = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(bytes),
                                                    c10::DataPtr(), cpu, /*resizable=*/true);
  const c10::DeviceIndex device = current_device();
  auto block = make_block(std::move(host), device);
  const auto size = static_cast<int64_t>(bytes);
  try {
    TORCH_CHECK(host_has(size));
    block->host->set_data_ptr_noswap(cpu->allocate(bytes));
  } catch (const c10::Error&) {  // the only exception that is thrown here
    delete_block(block);
    DeviceMemory::of(device).fail_on_host(size, device);
  }
  return pointer_to(block);
}

void NpuAllocator::emptyCache(c10::MempoolId_t) {
  if (before_empty_cache_ != nullptr) before_empty_cache_();
}

c10::CachingDeviceAllocator::DeviceStats NpuAllocator::getDeviceStats(c10::DeviceIndex device) {
  return DeviceMemory::of(checked_device(device)).statistics();
}

void NpuAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  DeviceMemory::of(checked_device(device)).reset_accumulated();
}

void NpuAllocator::resetPeakStats(c10::DeviceIndex device) { DeviceMemory::of(checked_device(device)).reset_peak(); }

std::pair<size_t, size_t> NpuAllocator::getMemoryInfo(c10::DeviceIndex device) {
  const DeviceMemory& memory = DeviceMemory::of(checked_device(device));
  return {static_cast<size_t>(std::max<int64_t>(memory.free(), 0)), static_cast<size_t>(device_bytes())};
}

c10::Storage adopt(c10::Storage cpu, c10::DeviceIndex device) {
  return adopt(Held::reclaim(cpu.unsafeReleaseStorageImpl()), device, /*is_counted=*/true);
}

c10::Storage adopt_lent(c10::Storage cpu, c10::DeviceIndex device) {
  return adopt(Held::reclaim(cpu.unsafeReleaseStorageImpl()), device, /*is_counted=*/false);
}

void count(c10::StorageImpl* npu) noexcept {
  Block& block = *block_of(npu);
  DeviceMemory::of(block.device).count(block);
}

c10::StorageImpl* make_host_storage(c10::StorageImpl* npu) {
  static std::mutex mutex;  // two threads may meet the same foreign storage
  const std::lock_guard lock(mutex);
  if (Block* block = block_of(npu)) return block->host.get();
  npu->data_ptr();  // raises if the storage forbids reads of its memory, as that of released weights
  c10::DataPtr& foreign = npu->_mutable_data_ptr_no_checks();
  const c10::Device device = foreign.device();
  NG_CHECK(device.type() == kNpu, "a storage on ", device.str());
  c10::DataPtr memory = std::move(foreign);
  memory.unsafe_set_device(c10::kCPU);
  auto host =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(npu->nbytes()),
                                            std::move(memory), c10::GetCPUAllocator(), npu->resizable());
  Block* block = make_block(std::move(host), device.index());
  npu->set_data_ptr_noswap(pointer_to(block));
  return block->host.get();
}

int& format_of(c10::StorageImpl* npu) {
  host_storage_of(npu);  // memory that came from elsewhere gets its block
  return block_of(npu)->format;
}

namespace {

c10::Storage share(c10::StorageImpl* npu, int64_t offset, int64_t bytes, bool keeps_storage) {
  struct Owner {
    Held host, npu;
  };
  c10::StorageImpl* host = host_storage_of(npu);
  void* const memory = static_cast<char*>(host->_mutable_data_ptr_no_checks().get()) + offset;
  c10::DataPtr data(
      memory, new Owner{.host = Held::reclaim_copy(host), .npu = keeps_storage ? Held::reclaim_copy(npu) : Held()},
      [](void* owner) { delete static_cast<Owner*>(owner); }, c10::kCPU);
  auto part = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data),
                                                    nullptr, /*resizable=*/false);
  c10::Storage out = adopt(std::move(part), npu->device().index(), /*is_counted=*/false);
  block_of(out.unsafeGetStorageImpl())->format = format_of(npu);
  return out;
}

}  // namespace

c10::Storage borrow(c10::StorageImpl* npu) {
  return share(npu, 0, static_cast<int64_t>(npu->nbytes()), /*keeps_storage=*/true);
}

void stand_on(c10::StorageImpl* npu, c10::StorageImpl* other, int64_t offset) {
  const int format = format_of(npu);
  const c10::Storage shared = share(other, offset, static_cast<int64_t>(npu->nbytes()), /*keeps_storage=*/false);
  npu->set_data_ptr_noswap(std::move(shared.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks()));
  format_of(npu) = format;
}

std::optional<c10::DeviceIndex> device_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  for (int device = 0; device < facts().devices; ++device) {
    const auto index = static_cast<c10::DeviceIndex>(device);
    if (DeviceMemory::of(index).holds(address, 1)) return index;
  }
  return std::nullopt;
}

void resize(c10::StorageImpl* npu, size_t bytes) {
  TORCH_CHECK(npu->resizable(), "Trying to resize storage that is not resizable");
  const int format = format_of(npu);
  const CurrentDevice current(npu->device().index());
  c10::DataPtr memory = NpuAllocator::instance().allocate(bytes);
  if (const size_t kept = std::min(bytes, npu->nbytes()); kept != 0)
    std::memcpy(memory.get(), npu->_mutable_data_ptr_no_checks().get(), kept);
  npu->set_data_ptr_noswap(std::move(memory));
  npu->set_nbytes(bytes);
  format_of(npu) = format;
}

void follow_host_storage(c10::StorageImpl* npu) {
  Block* block = block_of(npu);
  const c10::StorageImpl& host = *block->host;
  c10::DataPtr& data = npu->_mutable_data_ptr_no_checks();
  if (host.nbytes() == npu->nbytes() && block->host->_mutable_data_ptr_no_checks().get() == data.get()) [[likely]]
    return;
  data.release_context();  // the block goes into another pointer
  npu->set_data_ptr_noswap(pointer_to(block));
  npu->set_nbytes(host.nbytes());
  if (block->is_counted) DeviceMemory::of(block->device).resize(*block, static_cast<int64_t>(host.nbytes()));
}

}  // namespace npugraph::npu
