// SPDX-License-Identifier: Apache-2.0
// The table of the operators of Ascend's namespaces "npu", "atb" and "air": what the device, capture and compiled
// graphs ask about an operator. Its rows are written in device/npu_ops. The table is empty until npugraph._ascend, the
// module with the operators, has registered them, and is only read afterwards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

namespace npugraph::npu {

// How calls are computed.
enum class Computation {
  // By the operators that the kernel calls. They depend only on sizes and types of the arguments, so compiled graphs
  // contain them instead of the call, and the gradient of the call is theirs.
  kParts,
  // Like kParts, but the call itself never appears to a tracer. For operators that write arguments of which the schema
  // does not say so, or that write their own results.
  kComposite,
  // By a kernel that reads values of its arguments. Compiled graphs contain the call.
  kWhole,
  // By a kernel that needs npu tensors, for example their formats. Compiled graphs contain the call.
  kOnNpu,
  // By a kernel that creates tensors on the device of its argument `device`.
  kFactory,
  // The operator has no tensors and marks a place in a graph.
  kMark,
  // Not at all: only sizes, strides and types of the results are known. Calls raise NotImplementedError.
  kSizes,
};

// What the schema of an operator does not say about its arguments.
struct Traits {
  // Written arguments of which a call writes a few rows, which it announces (call_record.h).
  std::vector<std::string> writes_rows_of;
  // A call writes all elements of each argument that it writes, so a graph may compute the new values instead.
  bool overwrites = false;
  // Tensors, for example lengths, that may be on the cpu beside npu tensors.
  std::vector<std::string> on_host;
  // The kernel computes in the calling thread and the threads of the pool (runtime/threads), not in loops of torch.
  bool in_pool = false;
  // A call acts beyond its results and written arguments, so that a graph keeps calls whose results nobody reads.
  bool has_effect = false;
};

// Calls the operator and records its gradient, like a kernel of the key Autograd.
using RecordGradient = void (*)(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);

struct Operator {
  std::string name;  // "npu::npu_rms_norm", "npu::npu_slice.out"
  std::string definition;
  Computation computation;
  // A call with one of these arguments is computed as kWhole, although `computation` is kParts.
  std::vector<std::string> whole_with;
  Traits traits;
  // Of calls that graphs contain whole. Null if a graph with gradients cannot contain the operator.
  RecordGradient gradient = nullptr;
  // Name of the second form, which writes the same and returns nothing (npu_ops/framework/operator_library.h); empty if
  // there is none.
  std::string graph_form;
};

void declare_operator(const c10::OperatorHandle& op, Operator facts);

std::vector<const Operator*> operators();  // in the order of their names
// Null for operators of other namespaces.
const Operator* find_operator(const c10::OperatorHandle& op);

// Whether calls of `op` announce all of their writes to this argument.
bool writes_rows_of(const c10::OperatorHandle& op, std::string_view argument);

}  // namespace npugraph::npu
