// SPDX-License-Identifier: Apache-2.0
// Gradients of operators that graphs call whole because they read values. Outside of graphs the gradient of such an
// operator is that of its parts; in a graph it has no parts.
#pragma once

#include <string>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace npugraph::npu_ops {

// Calls the operator and records its gradient, like a kernel of the key Autograd.
using RecordGradient = void (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// `name` is for example "npu::npu_fusion_attention_v3". Must be called while operators are defined.
void set_graph_gradient(const std::string& name, RecordGradient record);
// Null if a graph with gradients cannot hold the operator.
RecordGradient graph_gradient(const std::string& name);

}  // namespace npugraph::npu_ops
