// SPDX-License-Identifier: Apache-2.0
#include "device/npu/tensor.h"

#include <utility>

#include "device/npu/memory.h"

namespace npugraph::npu {

using c10::TensorImpl;

namespace {

using Impl = c10::intrusive_ptr<TensorImpl>;

// Spare aliases of one thread, without storage, all made from tensors with the keys `npu`. With new sizes, type and
// storage, each can be the alias of any tensor with these keys.
struct SpareAliases {
  static constexpr size_t kMost = 64;

  c10::DispatchKeySet npu, cpu;
  c10::SmallVector<Impl, 8> impls;
};

// Fast access to a thread's spare aliases. Null before its first alias, and at its end, when objects that are destroyed
// after the aliases may still call operators.
struct Slot {
  SpareAliases* spare = nullptr;
  bool is_gone = false;
};
constinit thread_local Slot slot;

SpareAliases* make_spare_aliases() {
  struct Owned : SpareAliases {
    Owned() { slot.spare = this; }
    ~Owned() { slot = {.spare = nullptr, .is_gone = true}; }
  };
  if (slot.is_gone) return nullptr;
  thread_local Owned out;
  return &out;
}

SpareAliases* spare_aliases() {
  SpareAliases* const spare = slot.spare;
  return spare != nullptr ? spare : make_spare_aliases();
}

[[gnu::noinline, gnu::cold]] Impl new_alias(const TensorImpl& source, c10::Storage storage) {
  auto out = c10::make_intrusive<TensorImpl>(TensorImpl::VIEW, std::move(storage), source.key_set(), source.dtype());
  out->_change_backend_component_keys(c10::kCPU);
  return out;
}

Impl spare_or_new_alias(const TensorImpl& source, c10::Storage storage) {
  SpareAliases* spare = spare_aliases();
  if (spare == nullptr) return new_alias(source, std::move(storage));
  if (spare->npu == source.key_set() && !spare->impls.empty()) [[likely]] {
    Impl out = spare->impls.pop_back_val();
    out->set_storage_and_dtype(std::move(storage), source.dtype());
    return out;
  }
  if (spare->npu != source.key_set()) spare->impls.clear();
  Impl out = new_alias(source, std::move(storage));
  spare->npu = source.key_set();
  spare->cpu = out->key_set();
  return out;
}

}  // namespace

at::Tensor cpu_alias(const at::Tensor& npu) {
  const TensorImpl* source = npu.unsafeGetTensorImpl();
  c10::StorageImpl* host = host_storage_of(source->unsafe_storage().unsafeGetStorageImpl());
  Impl impl = spare_or_new_alias(*source, c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(host)));
  if (!same_geometry(*impl, *source))  // mostly equal if a call is repeated
    impl->set_sizes_and_strides(source->sizes(), source->strides(), source->storage_offset());
  return at::Tensor(std::move(impl));
}

void reuse_alias(at::Tensor alias) {
  if (!alias.defined()) return;
  Impl impl = alias.unsafeReleaseIntrusivePtr();
  SpareAliases* spare = spare_aliases();
  if (spare == nullptr || !impl.is_uniquely_owned() || impl->key_set() != spare->cpu ||
      spare->impls.size() == SpareAliases::kMost)
    return;
  impl->release_resources();
  spare->impls.push_back(std::move(impl));
}

void move_into(TensorImpl& cpu, c10::Storage storage) {
  const c10::Device device = storage.device();
  cpu.set_storage_keep_dtype(std::move(storage));
  cpu._change_backend_component_keys(device);
}

void move_to_npu(TensorImpl& cpu, c10::DeviceIndex device) {
  move_into(cpu, adopt(std::move(const_cast<c10::Storage&>(cpu.unsafe_storage())), device));
}

void refuse_kind(const at::Tensor& tensor, const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided, name, ": tensors of layout ", tensor.layout(),
                              " are not supported on npu, only those of torch.strided", kOnCpuInstead);
  TORCH_CHECK_NOT_IMPLEMENTED(false, name, kQuantisedRefused);
}

}  // namespace npugraph::npu
