// SPDX-License-Identifier: Apache-2.0
// CPU kernels as kernels of the npu device, for any operator: operators
// without a wrapper of their own (unboxed.cc) run here.
#pragma once

#include <string>

#include <c10/util/FunctionRef.h>
#include <torch/library.h>

namespace npugraph::eager {

// Registers, at PrivateUse1, the boxed kernel of every operator of a namespace that has a CPU kernel and no npu kernel
// yet. The registrations live as long as the process.
//
// Without it, operators that have a composite kernel beside the CPU one would take the composite: the dispatcher
// prefers it to a fallback, which also has to find its kernel at each call.
void register_boxed_kernels(const std::string& name_space);

// Registers the fallback for operators that are defined later, by users.
void register_boxed_fallback();

// The boxed kernel of any operator.
void call_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// One call of a kernel, `run`, while streams are captured; it is recorded if `stream` is captured. The arguments are at
// the end of `stack`; `run` puts its results there.
void launch_watched(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::Stream stream,
                    c10::function_ref<void()> run);
// The same in the current stream of the first npu tensor's device.
void launch_watched(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run);

}  // namespace npugraph::eager
