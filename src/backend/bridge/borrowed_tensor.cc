// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/borrowed_tensor.h"

#include <cstring>
#include <utility>

#include <ATen/core/DimVector.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>

#include "backend/bridge/convert.h"
#include "backend/bridge/gil.h"
#include "backend/bridge/host_device.h"
#include "tensor/shape.h"

namespace npugraph::bridge {

BorrowedTensor::BorrowedTensor(DType dtype, c10::Device device) : dtype_(dtype), device_(device) { make(); }

void BorrowedTensor::make() {
  // An inference tensor would refuse to be written outside of inference mode.
  const c10::InferenceMode normal_mode(false);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                       at::DataPtr(nullptr, c10::Device(c10::kCPU)), nullptr, false);
  storage_ = storage.get();
  tensor_ = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                     c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                     c10::scalarTypeToTypeMeta(to_torch(dtype_)));
}

void BorrowedTensor::set_shape(at::IntArrayRef sizes, at::IntArrayRef strides) {
  tensor_.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, 0);
  storage_->set_nbytes(static_cast<size_t>(extent_bytes(sizes, strides, dtype_)));
}

void BorrowedTensor::move_to(void* data) {
  storage_->set_data_ptr_noswap(at::DataPtr(data, c10::Device(c10::kCPU)));
  data_ = data;
}

int64_t BorrowedTensor::reorder(at::IntArrayRef strides) {
  const at::DimVector sizes(tensor_.sizes());
  bool is_copied = false;
  for (size_t i = 0; i < sizes.size(); ++i) is_copied |= sizes[i] > 1 && tensor_.strides()[i] != strides[i];
  const at::Tensor written = is_copied ? tensor_.clone() : at::Tensor();
  set_shape(sizes, strides);
  if (!is_copied || tensor_.numel() == 0) return 0;
  tensor_.copy_(written);
  return static_cast<int64_t>(written.nbytes());
}

at::Tensor BorrowedTensor::alias() {
  if (!device_.is_cpu()) {
    if (on_device_)
      host_device()->follow(on_device_.unsafeGetStorageImpl());
    else
      on_device_ = host_device()->storage_over_lent(tensor_.storage(), device_.index());
  }
  const c10::Storage& storage = on_device_ ? on_device_ : tensor_.storage();
  return tensor_in_storage(storage, tensor_.scalar_type(), tensor_.sizes(), tensor_.strides(), 0);
}

int64_t BorrowedTensor::leave_copy_to_keepers() {
  // Without another holder there cannot be a new one. With one, the GIL keeps
  // Python from looking at the storage meanwhile.
  const bool is_ours = on_device_ && on_device_.use_count() == 1;
  if (tensor_.use_count() == 1 && tensor_.storage().use_count() == (is_ours ? 2 : 1)) return 0;
  const Gil gil;
  const size_t bytes = storage_->nbytes();
  at::DataPtr copy = c10::GetCPUAllocator()->allocate(bytes);
  if (bytes != 0) std::memcpy(copy.get(), data_, bytes);
  storage_->set_data_ptr_noswap(std::move(copy));
  if (on_device_) host_device()->own(on_device_.unsafeGetStorageImpl());
  on_device_ = {};
  const at::Tensor kept = std::move(tensor_);
  data_ = nullptr;
  make();
  set_shape(kept.sizes(), kept.strides());
  return static_cast<int64_t>(bytes);
}

at::Tensor tensor_in_storage(const c10::Storage& storage, at::ScalarType dtype, at::IntArrayRef sizes,
                             at::IntArrayRef strides, int64_t offset) {
  const auto key = storage.device().is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::PrivateUse1;
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(key),
                                                               c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

}  // namespace npugraph::bridge
