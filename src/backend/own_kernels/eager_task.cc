// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels/eager_task.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/ScopeExit.h>

#include "runtime/threads/worker_pool.h"
#include "target/target.h"

namespace npugraph::own {

bool has_memory(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kStandsForAnother({c10::DispatchKey::Python, c10::DispatchKey::Functionalize});
  return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.has_storage() &&
         !tensor.key_set().has_any(kStandsForAnother);
}

bool wants_gradient(std::initializer_list<const at::Tensor*> tensors) {
  return at::GradMode::is_enabled() &&
         std::ranges::any_of(tensors, [](const at::Tensor* tensor) { return tensor->requires_grad(); });
}

EagerHost::EagerHost()
    : table_{this, runtime::WorkerPool::instance().size(), parallel_for, set_error, [](const ng_host*, int64_t) {}} {}

void EagerHost::parallel_for(const ng_host*, int64_t begin, int64_t end, int64_t grain,
                             void (*body)(void* arg, int64_t begin, int64_t end), void* arg) {
  runtime::WorkerPool::instance().parallel_for(begin, end, grain, body, arg);
}

void EagerHost::set_error(const ng_host* host, const char* message) {
  static_cast<EagerHost*>(host->self)->error_ = message;
}

namespace {

// Bindings that a task keeps. A model calls one task with so many sizes and strides.
constexpr size_t kMostKept = 64;

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
  for (const auto& binding : kept_) unbind(*binding);
  if (task_.destroy != nullptr) task_.destroy(task_.context);
}

EagerTask::Key EagerTask::key_of(const ng_call& call) {
  Key key;
  for (const ng_buffer& buffer : std::span(call.buffers, call.num_buffers)) {
    key.push_back(buffer.rank);
    key.append(buffer.sizes, buffer.sizes + buffer.rank);
    key.append(buffer.strides, buffer.strides + buffer.rank);
  }
  for (const ng_scalar& scalar : std::span(call.scalars, call.num_scalars)) key.push_back(scalar.i);
  return key;
}

std::unique_ptr<EagerTask::Binding> EagerTask::take(const ng_call& call) const {
  Key key = key_of(call);
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [&](const auto& kept) { return kept->key == key; });
    if (found != kept_.rend()) {
      auto binding = std::move(*found);
      kept_.erase(std::next(found).base());
      return binding;
    }
  }
  auto binding = std::make_unique<Binding>(std::move(key));
  if (task_.bind != nullptr && task_.bind(task_.context, &call, &binding->state) != NG_OK) {
    unbind(*binding);
    return nullptr;
  }
  binding->workspace = task_.workspace != nullptr ? task_.workspace(task_.context, &call) : 0;
  return binding;
}

void EagerTask::give_back(std::unique_ptr<Binding> binding) const {
  {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(binding));
    if (kept_.size() <= kMostKept) return;
    binding = std::move(kept_.front());
    kept_.erase(kept_.begin());
  }
  unbind(*binding);
}

void EagerTask::unbind(const Binding& binding) const {
  if (task_.unbind != nullptr && binding.state != nullptr) task_.unbind(task_.context, binding.state);
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
  std::unique_ptr<Binding> binding = take(call);
  if (binding == nullptr) return std::string();
  const EagerHost host;
  const at::Tensor workspace = binding->workspace > 0 ? at::empty({binding->workspace}, at::kByte) : at::Tensor();
  call.workspace = workspace.defined() ? workspace.data_ptr() : nullptr;
  call.host = host.table();
  const auto keep = c10::make_scope_exit([&] { give_back(std::move(binding)); });
  if (task_.run(task_.context, binding->state, &call) == NG_OK) return std::nullopt;
  return host.error();
}

}  // namespace npugraph::own
