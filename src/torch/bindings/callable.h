// SPDX-License-Identifier: Apache-2.0
// npugraph._C.Callable: an Executable as a Python function.
//
//   boxed(args: list) -> tuple
//   positional(*args) -> tuple
//   named(*args, **kwargs) -> tuple
//
// There is one tensor, int, float or bool per Program input. The list of a boxed one is emptied at once, so that its tensors may
// die as soon as the run no longer needs them (`_boxed_call` is True, AOTAutograd's sign for this). A positional one stands for
// all that AOTAutograd wraps around a boxed one: it counts the writes to its inputs as autograd does. So does a named one, which finds
// its inputs in what it is given (input_template.h). The tuple has one entry per Program output. Runs below autograd: gradients of inputs are ignored and results require none.
//
// ValueError names the input that is not what was compiled for; InputsOverlap says that a written input overlaps another one in
// a way that was not seen at compile time, InputElsewhere that an input of which the graph names places (as_strided) lies
// elsewhere in its storage than at compile time; after either nothing has run. A function given to fall_back_on() is called
// instead of these two. What an operator raises passes through unchanged.
// Thread-safe. Runs that take long, or that may call Python, run without the GIL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <torch/extension.h>

#include "runtime/executable.h"
#include "torch/calls/compiled_function.h"

namespace npugraph::bindings {

// A new reference. `inputs` and `label`, of calls in traces of profilers (empty: none), are of a named one. Throws error_already_set
// when Python is out of memory.
PyObject* make_callable(std::shared_ptr<runtime::Executable> executable, calls::Arguments arguments,
                        std::unique_ptr<calls::InputTemplate> inputs = nullptr, std::string label = {});

// Adds the types Callable, InputsOverlap and InputElsewhere to the module.
void init_callable(pybind11::module_& module);

}  // namespace npugraph::bindings
