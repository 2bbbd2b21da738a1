// SPDX-License-Identifier: Apache-2.0
#include "torch/capture/compiled_call.h"

#include <span>

#include "torch/bridge/convert.h"
#include "torch/bridge/torch_host.h"
#include "torch/capture/registry.h"
#include "torch/capture/replay_errors.h"
#include "torch/npu/tensor.h"

namespace npugraph::capture {

CompiledCall::CompiledCall(std::shared_ptr<runtime::Executable> executable, runtime::BoundInputs inputs,
                           std::vector<at::Tensor> tensors)
    : executable_(std::move(executable)),
      bound_(inputs.all.begin(), inputs.all.end()),
      stream_(inputs.stream),
      tensors_(std::move(tensors)),
      outputs_(executable_->program().outputs.size()) {}

// Copies the result to its place, and gives its memory back to the host.
void CompiledCall::take(size_t output) {
  const runtime::BoundOutput& made = outputs_[output];
  if (made.object == nullptr) return;
  if (results_[output].defined() && made.input < 0) {
    const auto options = at::TensorOptions().dtype(bridge::to_torch(made.dtype));
    const at::Tensor from = at::from_blob(made.data, {made.sizes.data(), made.sizes.size()},
                                          {made.strides.data(), made.strides.size()}, options);
    const at::Tensor& place = results_[output];
    at::Tensor to = npu::is_npu(place) ? npu::cpu_alias(place) : place.detach();
    to.copy_(from);
  }
  bridge::TorchHost::instance().release(made.object);
}

void CompiledCall::run() {
  const Inside inside;
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (tensors_[i].defined()) bound_[i].data = tensors_[i].mutable_data_ptr();
  check_replay(executable_->run({.all = bound_, .stream = stream_}, outputs_, dims_), program());
  for (size_t output = 0; output < outputs_.size(); ++output) take(output);
}

}  // namespace npugraph::capture
