// SPDX-License-Identifier: Apache-2.0
// CPU kernels as kernels of the npu device, for any operator: what has no wrapper of its own (unboxed.h) runs through here.
#pragma once

#include <string>

#include <c10/util/FunctionRef.h>
#include <torch/library.h>

namespace npugraph::device {

// Registers, at PrivateUse1, the boxed kernel of every operator of a namespace that has a CPU kernel and none of npu yet. The
// registrations live as long as the process.
//
// Without it, operators that have a composite kernel beside the CPU one would take the composite: the dispatcher prefers it
// to a fallback, which also has to find its kernel at each call.
void register_boxed_kernels(const std::string& name_space);

// The fallback for operators that are made later: those of users.
void register_boxed_fallback();

// The boxed kernel of any operator.
void call_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// One call of a kernel, `run`, while streams are captured: recorded, where `stream` is. The arguments stand at the end of
// `stack`; `run` puts its results there.
void launch_watched(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::Stream stream,
                    c10::function_ref<void()> run);
// In the current stream of the first tensor's device.
void launch_watched(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run);

}  // namespace npugraph::device
