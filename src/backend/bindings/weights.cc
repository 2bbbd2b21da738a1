// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "backend/bindings/init.h"

namespace npugraph::bindings {
namespace {

// Tensors of the storage keep their sizes and strides, which front ends compare.
void free_storage(const at::Tensor& tensor, std::string reason) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.set_data_ptr(at::DataPtr(nullptr, storage.data_ptr().device()));
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(reason));
}

}  // namespace

void init_weights(py::module_& module) {
  module.def(
      "free_storage", free_storage,
      "free_storage(tensor, reason)\n\nFrees the memory of the tensor's storage. Who reads or writes it from now on "
      "gets a RuntimeError with the reason.");
}

}  // namespace npugraph::bindings
