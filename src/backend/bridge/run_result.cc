// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/run_result.h"

#include <exception>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "backend/bridge/borrowed_tensor.h"
#include "backend/bridge/convert.h"
#include "backend/bridge/torch_host.h"
#include "base/error.h"
#include "program/call_symbols.h"

namespace npugraph::bridge {

using runtime::BoundOutput;

namespace {

// Offset of `output` from the start of `storage`, in elements of the output.
int64_t offset_in(const c10::Storage& storage, const BoundOutput& output) {
  if (output.data == nullptr) return 0;
  return (static_cast<const std::byte*>(output.data) - static_cast<const std::byte*>(storage.data())) /
         size_of(output.dtype);
}

bool is_exactly(const at::Tensor& tensor, const BoundOutput& output, int64_t offset) {
  return tensor.scalar_type() == to_torch(output.dtype) && tensor.sizes() == at::IntArrayRef(output.sizes) &&
         tensor.strides() == at::IntArrayRef(output.strides) && tensor.storage_offset() == offset;
}

}  // namespace

void rethrow(const std::string& error) {
  const std::exception_ptr original = TorchHost::instance().take_exception();
  if (original) std::rethrow_exception(original);
  constexpr std::string_view kIndexError = "IndexError: ";
  if (error.starts_with(kIndexError)) C10_THROW_ERROR(IndexError, error.substr(kIndexError.size()));
  throw std::runtime_error(error);
}

void check_run(const runtime::RunResult& result, const program::Program& program) {
  if (result.status == runtime::RunStatus::kOk) return;
  TORCH_CHECK(result.status == runtime::RunStatus::kTaskFailed, "a captured graph cannot be replayed: ",
              result.status == runtime::RunStatus::kInputRefused ? result.error
                                                                 : "memory that it writes overlaps other memory");
  rethrow(cat(result.error, "\nin ", result.task ? program::place_of(program.tasks[*result.task]) : program.name));
}

at::Tensor take_object(BoundOutput& output) {
  auto* impl = static_cast<c10::TensorImpl*>(std::exchange(output.object, nullptr));
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim(impl));
}

at::Tensor window_of(const at::Tensor& whole, const BoundOutput& output) {
  return tensor_in_storage(whole.storage(), to_torch(output.dtype), output.sizes, output.strides,
                           offset_in(whole.storage(), output));
}

at::Tensor result_of(BoundOutput& output) {
  at::Tensor tensor = take_object(output);
  const int64_t offset = offset_in(tensor.storage(), output);
  if (is_exactly(tensor, output, offset) && tensor.use_count() == 1) return tensor;
  if (tensor.use_count() != 1) return window_of(tensor, output);
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_and_dtype(c10::Storage(tensor.storage()), c10::scalarTypeToTypeMeta(to_torch(output.dtype)));
  impl->set_sizes_and_strides(output.sizes, output.strides, offset);
  return tensor;
}

}  // namespace npugraph::bridge
