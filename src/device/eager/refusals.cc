// SPDX-License-Identifier: Apache-2.0
#include <torch/library.h>

#include "device/eager/register.h"
#include "device/npu/tensor.h"

namespace npugraph::eager {
namespace {

using c10::DispatchKey;
using c10::OperatorHandle;
using torch::jit::Stack;

void refuse_sparse(const OperatorHandle& op, c10::DispatchKeySet, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(), ": sparse tensors are not supported on npu",
                              npu::kOnCpuInstead);
}

void refuse_quantised(const OperatorHandle& op, c10::DispatchKeySet, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(), npu::kQuantisedRefused);
}

void refuse_nested(const OperatorHandle& op, c10::DispatchKeySet, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(),
                              ": nested tensors of layout torch.strided are not supported on npu; those of "
                              "layout=torch.jagged are");
}

template <auto* kRefuse>
torch::Library all_of(DispatchKey key) {
  torch::Library library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  library.fallback(torch::CppFunction::makeFromBoxedFunction<kRefuse>());
  return library;
}

// Operators that make tensors of compressed layouts without asking their device, so that a fallback never sees them.
constexpr const char* kMakesCompressed[] = {"_sparse_compressed_tensor_unsafe", "_sparse_compressed_tensor_with_dims",
                                            "_sparse_csr_tensor_unsafe",        "_sparse_csc_tensor_unsafe",
                                            "_sparse_bsr_tensor_unsafe",        "_sparse_bsc_tensor_unsafe"};

void refuse_compressed(torch::Library& aten) {
  for (const char* name : kMakesCompressed)
    aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>());
}

}  // namespace

void register_refusals() {
  static const torch::Library all[] = {all_of<&refuse_sparse>(DispatchKey::SparsePrivateUse1),
                                       all_of<&refuse_sparse>(DispatchKey::SparseCsrPrivateUse1),
                                       all_of<&refuse_quantised>(DispatchKey::QuantizedPrivateUse1),
                                       all_of<&refuse_nested>(DispatchKey::NestedTensorPrivateUse1)};
  static torch::Library of_dense(torch::Library::IMPL, "aten", DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static torch::Library of_csr(torch::Library::IMPL, "aten", DispatchKey::SparseCsrPrivateUse1, __FILE__, __LINE__);
  refuse_compressed(of_dense);
  refuse_compressed(of_csr);
}

}  // namespace npugraph::eager
