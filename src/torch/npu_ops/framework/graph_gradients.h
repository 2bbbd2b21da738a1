// SPDX-License-Identifier: Apache-2.0
// Gradients of operators that graphs call whole, because they read values. Elsewhere the gradient of an operator is that of its
// parts, which in a graph do not exist.
#pragma once

#include <string>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace npugraph::npu_ops {

// Calls the operator and records its gradient, as a kernel of the key Autograd does.
using RecordGradient = void (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// `name`: "npu::npu_fusion_attention_v3". To be called while operators are defined.
void set_graph_gradient(const std::string& name, RecordGradient record);
// Null where a graph with gradients cannot hold the operator.
RecordGradient graph_gradient(const std::string& name);

}  // namespace npugraph::npu_ops
