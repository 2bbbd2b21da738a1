// SPDX-License-Identifier: Apache-2.0
// npugraph._C.Callable: an Executable as a Python function of boxed arguments.
//
//   callable(args: list) -> tuple
//
// `args` has one tensor, int, float or bool per Program input; it is emptied at once, so that its tensors may die as soon as
// the run no longer needs them (`_boxed_call` is True, AOTAutograd's sign for this). The tuple has one entry per Program
// output. Runs below autograd: gradients of inputs are ignored and results require none.
//
// ValueError names the input that is not what was compiled for; InputsOverlap says that a written input overlaps another one in
// a way that was not seen at compile time, InputElsewhere that an input of which the graph names places (as_strided) lies
// elsewhere in its storage than at compile time; after either nothing has run. What an operator raises passes through unchanged.
// Thread-safe. Runs that take long, or that may call Python, run without the GIL.
#pragma once

#include <memory>

#include <torch/extension.h>

#include "runtime/executable.h"

namespace npugraph::bindings {

// A new reference. Throws error_already_set when Python is out of memory.
PyObject* make_callable(std::shared_ptr<runtime::Executable> executable);

// Adds the types Callable, InputsOverlap and InputElsewhere to the module.
void init_callable(pybind11::module_& module);

}  // namespace npugraph::bindings
