// SPDX-License-Identifier: Apache-2.0
// npugraph._C.Callable: an Executable as a Python function.
//
//   boxed(args: list) -> tuple
//   positional(*args) -> tuple
//   named(*args, **kwargs) -> tuple
//
// There is one tensor, int, float or bool per Program input. A boxed callable empties its list at once, so that the
// tensors may die as soon as the run no longer needs them (`_boxed_call` is True, AOTAutograd's sign for this). A
// positional one replaces AOTAutograd's wrappers around a boxed one: it counts the writes to its inputs as autograd
// does. So does a named one, which finds its inputs inside of its arguments (input_template.h). The tuple has one entry
// per Program output. Runs below autograd: gradients of inputs are ignored and results require none.
//
// ValueError names the input that does not fit the graph. InputsOverlap: a written input overlaps another one in a way
// that was not seen at compile time. InputElsewhere: an input whose storage offset the graph relies on (as_strided) has
// another one than at compile time. After these two nothing has run; a function given to fall_back_on() is called
// instead of raising them. Exceptions of operators pass through unchanged.
// Thread-safe. Runs that take long, or that may call Python, run without the GIL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "backend/calls/compiled_function.h"
#include "runtime/executable.h"

namespace npugraph::bindings {

// Returns a new reference. Only a named callable has `inputs`, and a `label` that names its calls in profiler traces
// (empty: no name). Throws error_already_set when Python is out of memory.
PyObject* make_callable(std::shared_ptr<runtime::Executable> executable, calls::Arguments arguments,
                        std::unique_ptr<calls::InputTemplate> inputs = nullptr, std::string label = {});

// Adds the types Callable, InputsOverlap and InputElsewhere to the module.
void init_callable(pybind11::module_& module);

}  // namespace npugraph::bindings
