// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/eager_task.h"

#include "target/target.h"
#include "torch/npu/eager_host.h"

namespace npugraph::npu {
namespace {

// What a task keeps from its binding to its run.
class Bound {
 public:
  Bound(const ng_task& task, const ng_call& call) : task_(task) {
    is_bound_ = task.bind == nullptr || task.bind(task.context, &call, &state_) == NG_OK;
  }
  ~Bound() {
    if (task_.unbind != nullptr && state_ != nullptr) task_.unbind(task_.context, state_);
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  bool is_bound() const { return is_bound_; }
  bool run(ng_call& call) const { return task_.run(task_.context, state_, &call) == NG_OK; }

 private:
  const ng_task& task_;
  void* state_ = nullptr;
  bool is_bound_ = false;
};

}  // namespace

std::optional<DType> generated_dtype(at::ScalarType type) {
  if (type == at::kFloat) return DType::kF32;
  if (type == at::kBFloat16) return DType::kBF16;
  if (type == at::kHalf && target::host_target().f16c) return DType::kF16;
  return std::nullopt;
}

ng_buffer buffer_of(const at::Tensor& tensor, int32_t dtype) {
  return {.data = tensor.numel() == 0 ? nullptr : tensor.data_ptr(),
          .object = tensor.unsafeGetTensorImpl(),
          .sizes = tensor.sizes().data(),
          .strides = tensor.strides().data(),
          .rank = static_cast<int32_t>(tensor.dim()),
          .dtype = dtype,
          .flags = 0,
          .reserved = 0};
}

EagerTask::~EagerTask() {
  if (task_.destroy != nullptr) task_.destroy(task_.context);
}

std::optional<std::string> EagerTask::run(std::span<ng_buffer> buffers, std::span<const ng_scalar> scalars) const {
  ng_call call{.buffers = buffers.data(),
               .scalars = scalars.data(),
               .defined = nullptr,
               .workspace = nullptr,
               .host = nullptr,
               .num_buffers = static_cast<uint32_t>(buffers.size()),
               .num_scalars = static_cast<uint32_t>(scalars.size()),
               .num_defined = 0,
               .abi_version = NG_TASK_ABI_VERSION};
  const Bound bound(task_, call);
  if (!bound.is_bound()) return std::string();
  const EagerHost host;
  const int64_t bytes = task_.workspace != nullptr ? task_.workspace(task_.context, &call) : 0;
  const at::Tensor workspace = bytes > 0 ? at::empty({bytes}, at::kByte) : at::Tensor();
  call.workspace = bytes > 0 ? workspace.data_ptr() : nullptr;
  call.host = host.table();
  if (bound.run(call)) return std::nullopt;
  return host.error();
}

}  // namespace npugraph::npu
