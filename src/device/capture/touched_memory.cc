// SPDX-License-Identifier: Apache-2.0
#include "device/capture/touched_memory.h"

#include <utility>

#include "device/npu/facts.h"
#include "device/npu/memory.h"

namespace npugraph::capture {

namespace {

c10::intrusive_ptr<c10::StorageImpl> shared(const at::Tensor& tensor) {
  return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

}  // namespace

int32_t TouchedMemory::touch(const at::Tensor& tensor, int32_t step) {
  auto storage = shared(tensor);
  const auto next = static_cast<int32_t>(pieces_.size());
  const auto [at, is_new] = numbers_.try_emplace(storage.get(), next);
  if (is_new) {
    pieces_.push_back({.storage = c10::weak_intrusive_ptr<c10::StorageImpl>(storage),
                       .held = {},
                       .constant = {},
                       .device = tensor.device(),
                       .first_step = step});
  }
  TouchedPiece& piece = pieces_[at->second];
  piece.bytes = static_cast<int64_t>(storage->nbytes());
  piece.last_step = step;
  return at->second;
}

int32_t TouchedMemory::argument(const at::Tensor& tensor, int32_t step) {
  const bool is_new = numbers_.find(shared(tensor).get()) == numbers_.end();
  const int32_t number = touch(tensor, step);
  if (is_new) pieces_[number].held = c10::Storage(shared(tensor));
  return number;
}

int32_t TouchedMemory::result(const at::Tensor& tensor, int32_t step, bool is_whole) {
  const bool is_new = numbers_.find(shared(tensor).get()) == numbers_.end();
  const int32_t number = touch(tensor, step);
  pieces_[number].is_result = is_new && is_whole;
  return number;
}

int32_t TouchedMemory::constant(const at::Tensor& tensor, int32_t step) {
  pieces_.push_back({.storage = c10::weak_intrusive_ptr<c10::StorageImpl>(shared(tensor)),
                     .held = {},
                     .constant = tensor.detach().clone(),
                     .bytes = static_cast<int64_t>(tensor.nbytes()),
                     .first_step = step,
                     .last_step = step});
  return static_cast<int32_t>(pieces_.size()) - 1;
}

void TouchedMemory::save(const at::Tensor& tensor, int32_t step, bool may_resize) {
  const c10::Storage& storage = pieces_[argument(tensor, step)].held;
  if (storage) overwritten_.save(storage, tensor, may_resize);
}

bool TouchedMemory::is_outside(const at::Tensor& tensor, int32_t step) {
  return static_cast<bool>(pieces_[argument(tensor, step)].held);
}

void TouchedMemory::resolve() {
  for (TouchedPiece& piece : pieces_) {
    if (piece.held || piece.constant.defined()) continue;
    if (auto alive = piece.storage.lock()) {
      piece.held = c10::Storage(std::move(alive));
    } else if (!piece.is_result || piece.first_step != piece.last_step) {
      const npu::CurrentDevice current(piece.device.index());
      auto& allocator = npu::NpuAllocator::instance();
      const auto bytes = static_cast<size_t>(piece.bytes);
      piece.held = c10::Storage(c10::Storage::use_byte_size_t(), bytes, allocator.allocate(bytes), &allocator,
                                /*resizable=*/false);
    }
  }
}

}  // namespace npugraph::capture
