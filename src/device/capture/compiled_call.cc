// SPDX-License-Identifier: Apache-2.0
#include "device/capture/compiled_call.h"

#include <cstdint>
#include <span>

#include <ATen/ops/from_blob.h>

#include "backend/bridge/convert.h"
#include "backend/bridge/torch_host.h"
#include "base/env.h"
#include "device/capture/registry.h"
#include "device/capture/replay.h"
#include "device/npu/tensor.h"

namespace npugraph::capture {

CompiledCall::CompiledCall(std::shared_ptr<runtime::Executable> executable, runtime::BoundInputs inputs,
                           std::vector<at::Tensor> tensors)
    : executable_(std::move(executable)),
      program_(runtime::Observation(*executable_).program()),
      bound_(inputs.all.begin(), inputs.all.end()),
      stream_(inputs.stream),
      tensors_(std::move(tensors)),
      outputs_(program_.outputs.size()) {}

void CompiledCall::set_results(std::vector<at::Tensor> results) {
  results_ = std::move(results);
  if (!environment().red_zones) memory_.resize(results_.size());  // theirs is memory of the runtime
}

bool CompiledCall::runs_in_pool_alone() const {
  std::vector<int64_t> bytes(program().buffers.size(), INT64_MAX);
  for (const runtime::BufferLife& life : runtime::Observation(*executable_).lives())
    if (life.buffer) bytes[*life.buffer] = life.bytes;
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (tensors_[i].defined()) bytes[program().inputs[i].buffer] = static_cast<int64_t>(tensors_[i].nbytes());
  return capture::runs_in_pool_alone(program(), bytes);
}

// The owner of a tensor may have given its storage other memory.
void CompiledCall::bind() {
  bool moved = version_ == 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensors_[i].defined()) continue;
    void* data = tensors_[i].mutable_data_ptr();
    moved |= bound_[i].data != data;
    bound_[i].data = data;
  }
  if (moved) version_ = runtime::new_inputs_version();
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (!results_[i].defined()) continue;
    memory_[i] = {.object = results_[i].unsafeGetTensorImpl(),
                  .data = results_[i].mutable_data_ptr(),
                  .bytes = static_cast<int64_t>(results_[i].nbytes())};
  }
}

// Copies a result that is elsewhere to its place, and gives its memory back to the host.
void CompiledCall::take(size_t output) {
  const runtime::BoundOutput& made = outputs_[output];
  if (made.object == nullptr) return;
  const at::Tensor& place = results_[output];
  if (place.defined() && program().outputs[output].input == program::kNone && made.data != place.data_ptr()) {
    const auto options = at::TensorOptions().dtype(bridge::to_torch(made.dtype));
    const at::Tensor from = at::from_blob(made.data, {made.sizes.data(), made.sizes.size()},
                                          {made.strides.data(), made.strides.size()}, options);
    at::Tensor to = npu::is_npu(place) ? npu::cpu_alias(place) : place.detach();
    to.copy_(from);
  }
  bridge::TorchHost::instance().release(made.object);
}

void CompiledCall::run() {
  const Inside inside;
  bind();
  const runtime::BoundInputs inputs{
      .all = bound_, .version = version_, .stream = stream_, .in_captured_graph = true, .results = memory_};
  check_replay(executable_->run(inputs, outputs_, dims_), program());
  for (size_t output = 0; output < outputs_.size(); ++output) take(output);
}

}  // namespace npugraph::capture
