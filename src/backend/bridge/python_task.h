// SPDX-License-Identifier: Apache-2.0
// Python callables as tasks: higher-order operators and whatever else has no operator.
//
// The callable is called as fn(*tensors, *scalars): a tensor for every present TensorRef in the task's arguments, in
// their order, then an int, float or bool for every symbolic scalar (ng_call::scalars), in their order. Constant
// arguments are not passed; whoever registered the callable knows them. It returns one result, or a list or tuple of
// results: tensors and None first, numbered as declared.h says, then one int, float or bool for every symbol that the
// task defines, in their order (also for symbols that are sizes of results; trailing ones may be left out).
//
// It runs with the GIL and with gradients off. Tensors that it keeps stay valid: they get a copy of their bytes.
#pragma once

#include "abi/task.h"
#include "program/program.h"

namespace npugraph::bridge {

// UserError when `task.callable` is not registered.
ng_task build_python_task(const program::Program& program, const program::Task& task);

}  // namespace npugraph::bridge
