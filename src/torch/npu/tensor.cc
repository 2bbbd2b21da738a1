// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/tensor.h"

#include <utility>

#include "torch/npu/memory.h"
#include "torch/npu/refused.h"

namespace npugraph::npu {

using c10::TensorImpl;

at::Tensor cpu_alias(const at::Tensor& npu) {
  const TensorImpl* source = npu.unsafeGetTensorImpl();
  c10::StorageImpl* twin = twin_of(source->unsafe_storage().unsafeGetStorageImpl());
  auto impl = c10::make_intrusive<TensorImpl>(TensorImpl::VIEW,
                                              c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(twin)),
                                              source->key_set(), source->dtype());
  impl->_change_backend_component_keys(c10::kCPU);
  impl->set_sizes_and_strides(source->sizes(), source->strides(), source->storage_offset());
  return at::Tensor(std::move(impl));
}

void move_into(TensorImpl& cpu, c10::Storage storage) {
  const c10::Device device = storage.device();
  cpu.set_storage_keep_dtype(std::move(storage));
  cpu._change_backend_component_keys(device);
}

void check_kind(const at::Tensor& tensor, const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided, name, ": tensors of layout ", tensor.layout(),
                              " are not supported on npu, only those of torch.strided", kOnCpuInstead);
  TORCH_CHECK_NOT_IMPLEMENTED(!tensor.is_quantized(), name, kQuantisedRefused);
}

}  // namespace npugraph::npu
