// SPDX-License-Identifier: Apache-2.0
// Results of a Program -> Python objects. No memory is copied: results are the storages that the Program wrote.
#pragma once

#include <cstdint>
#include <span>

#include <torch/csrc/python_headers.h>

#include "backend/calls/call_inputs.h"
#include "program/program.h"
#include "runtime/call.h"

namespace npugraph::calls {

// A tuple with one entry per output: a new reference. Takes over the references that `outputs` hold, also when it
// throws.
PyObject* wrap_outputs(const program::Program& program, std::span<runtime::BoundOutput> outputs,
                       const CallInputs& inputs);

}  // namespace npugraph::calls
