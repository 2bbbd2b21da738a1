// SPDX-License-Identifier: Apache-2.0
// A tensor over memory that it does not own: an operand of a task, as ATen sees it.
//
// Invariants: the tensor has a storage of its own, of exactly the operand's bytes, which cannot be resized, so that a
// kernel that wants other memory fails instead of writing past the operand. The tensor is dense, on the CPU, and never
// an inference tensor. Not thread-safe; it belongs to one state of one task.
#pragma once

#include <ATen/core/Tensor.h>

#include "tensor/dtype.h"

namespace npugraph::bridge {

class BorrowedTensor {
 public:
  // `device` is that of alias(); tensor() is on the CPU in any case.
  explicit BorrowedTensor(DType dtype, c10::Device device = c10::kCPU);

  void set_shape(at::IntArrayRef sizes, at::IntArrayRef strides);
  // Cheap when the memory has not moved.
  void point_to(void* data) {
    if (data != data_) move_to(data);
  }

  const at::Tensor& tensor() const { return tensor_; }
  // Another tensor over the same memory, for code that may keep what it is given.
  at::Tensor alias();
  // Whether an operator gave the tensor other sizes or another storage.
  bool is_disturbed(at::IntArrayRef sizes) const {
    return tensor_.sizes() != sizes || tensor_.storage().unsafeGetStorageImpl() != storage_;
  }
  // If an operator gave the tensor other strides: gives it these again, with each element in its place. Returns the
  // number of copied bytes.
  int64_t restore_strides(at::IntArrayRef strides) { return tensor_.strides() == strides ? 0 : reorder(strides); }
  bool shares_storage_with(const at::Tensor& other) const {
    return other.has_storage() && other.storage().unsafeGetStorageImpl() == storage_;
  }
  // If others hold the storage too: leaves it to them with its own copy of the bytes, and takes a new storage. Returns
  // the number of copied bytes. To be called while the memory is still valid.
  int64_t leave_copy_to_keepers();

 private:
  void move_to(void* data);
  void make();
  int64_t reorder(at::IntArrayRef strides);

  at::Tensor tensor_;
  c10::StorageImpl* storage_ = nullptr;  // of tensor_
  c10::Storage on_device_;               // over the same memory; made by the first alias() on a device
  void* data_ = nullptr;
  DType dtype_;
  c10::Device device_;
};

// A dense tensor over `storage`, on its device. Sizes, strides and offset in elements.
at::Tensor tensor_in_storage(const c10::Storage& storage, at::ScalarType dtype, at::IntArrayRef sizes,
                             at::IntArrayRef strides, int64_t offset);

}  // namespace npugraph::bridge
