// SPDX-License-Identifier: Apache-2.0
// Turns results of a run of an Executable into tensors, and its errors into exceptions.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "backend/own_kernels/export.h"
#include "program/program.h"
#include "runtime/call.h"

namespace npugraph::bridge {

// Throws the exception that a task of this thread threw last; if there is none, `error` as the exception of eager mode.
[[noreturn]] void rethrow(const std::string& error);
// Throws the exception of a run that failed. Does nothing after a successful run.
NPUGRAPH_EXPORT void check_run(const runtime::RunResult& result, const program::Program& program);

// The object of a result, which must have one. Takes its reference.
at::Tensor take_object(runtime::BoundOutput& output);
// The window that `output` describes, in the storage of `whole`.
at::Tensor window_of(const at::Tensor& whole, const runtime::BoundOutput& output);
// The tensor of a result that has an object: the object itself if nobody else holds it, or a view of it if several
// results are windows of it. Takes the reference.
at::Tensor result_of(runtime::BoundOutput& output);

}  // namespace npugraph::bridge
