// SPDX-License-Identifier: Apache-2.0
// Operators and Python callables as tasks, and the maker of all kinds.
#pragma once

#include <cstddef>
#include <span>

#include <ATen/core/ivalue.h>

#include "abi/task.h"
#include "backend/own_kernels/export.h"
#include "program/program.h"

namespace npugraph::bridge {

// Makes tasks of every kind: operators, Python callables, collectives and control flow, besides those of
// compiler::task_makers(). A runtime::MakeTask. Thread-safe.
NPUGRAPH_EXPORT ng_task make_task(const program::Program& program, const program::Task& task);

// The value of an argument that a Program cannot hold, such as a generator; in the Program it is None.
struct FixedArgument {
  size_t position = 0;
  c10::IValue value;
};

// Operators of torch's dispatcher as tasks: an out-variant or an in-place operator on planned memory, or a functional
// operator whose results are adopted.
//
// Tensors are CPU and dense unless opaque. Operators run below autograd, autocast and Python dispatch modes, directly
// in the CPU kernel if the dispatcher has one. Random operators draw from torch's default generator.
//
// UserError when the dispatcher does not know `task.name`, has it with another schema than `task.schema`, or an
// argument does not fit it.
NPUGRAPH_EXPORT ng_task build_aten_task(const program::Program& program, const program::Task& task,
                                        std::span<const FixedArgument> fixed = {});

// Python callables as tasks: higher-order operators and whatever else has no operator.
//
// The callable is called as fn(*tensors, *scalars): a tensor for every present TensorRef in the task's arguments, in
// their order, then an int, float or bool for every symbolic scalar (ng_call::scalars), in their order. Constant
// arguments are not passed; whoever registered the callable knows them. It returns one result, or a list or tuple of
// results: tensors and None first, numbered as declared.h says, then one int, float or bool for every symbol that the
// task defines, in their order (also for symbols that are sizes of results; trailing ones may be left out).
//
// It runs with the GIL and with gradients off. Tensors that it keeps stay valid: they get a copy of their bytes.
//
// UserError when `task.callable` is not registered.
ng_task build_python_task(const program::Program& program, const program::Task& task);

}  // namespace npugraph::bridge
