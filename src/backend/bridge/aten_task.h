// SPDX-License-Identifier: Apache-2.0
// Operators of torch's dispatcher as tasks: an out-variant or an in-place operator on planned memory, or a functional
// operator whose results are adopted.
//
// Tensors are CPU and dense unless opaque. Operators run below autograd, autocast and Python dispatch modes, directly
// in the CPU kernel if the dispatcher has one. Random operators draw from torch's default generator.
#pragma once

#include <cstddef>
#include <span>

#include <ATen/core/ivalue.h>

#include "abi/task.h"
#include "backend/own_kernels/export.h"
#include "program/program.h"

namespace npugraph::bridge {

// The value of an argument that a Program cannot hold, such as a generator; in the Program it is None.
struct FixedArgument {
  size_t position = 0;
  c10::IValue value;
};

// UserError when the dispatcher does not know `task.name`, has it with another schema than `task.schema`, or an
// argument does not fit it.
NPUGRAPH_EXPORT ng_task build_aten_task(const program::Program& program, const program::Task& task,
                                        std::span<const FixedArgument> fixed = {});

}  // namespace npugraph::bridge
