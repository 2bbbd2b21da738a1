// SPDX-License-Identifier: Apache-2.0
// Runs Programs in text form on tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "backend/bridge/convert.h"
#include "backend/bridge/task_makers.h"
#include "backend/bridge/torch_host.h"
#include "program/text.h"
#include "runtime/executable.h"
#include "runtime/observation.h"

namespace npugraph::bridge {

class TorchProgram {
 public:
  explicit TorchProgram(const std::string& text)
      : executable_(std::make_shared<program::Program>(program::parse(text, "test")), TorchHost::instance(), make_task,
                    {}, "test") {}

  // Returns the tensor outputs. If the run fails, there are none, and `error` says why.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) {
    std::vector<runtime::BoundInput> bound(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      bound[i].data = inputs[i].layout() == at::kStrided ? inputs[i].data_ptr() : nullptr;
      bound[i].object = inputs[i].unsafeGetTensorImpl();
      bound[i].sizes = inputs[i].sizes().data();
    }
    outputs.assign(runtime::Observation(executable_).program().outputs.size(), {});
    const runtime::RunResult result = executable_.run({.all = bound}, outputs, dims_);
    error = result.error;
    if (result.status != runtime::RunStatus::kOk) return {};
    std::vector<at::Tensor> tensors;
    for (const runtime::BoundOutput& output : outputs) {
      if (output.object != nullptr) tensors.push_back(take(output));
    }
    return tensors;
  }

  std::string error;
  std::vector<runtime::BoundOutput> outputs;

 private:
  std::vector<int64_t> dims_;  // of outputs
  static at::Tensor take(const runtime::BoundOutput& output) {
    at::Tensor object(c10::intrusive_ptr<c10::TensorImpl>::reclaim(static_cast<c10::TensorImpl*>(output.object)));
    if (output.data == nullptr) return object;
    return at::from_blob(
        output.data, output.sizes, output.strides, [object](void*) {},
        at::TensorOptions().dtype(to_torch(output.dtype)));
  }

  runtime::Executable executable_;
};

}  // namespace npugraph::bridge
