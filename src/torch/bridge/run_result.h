// SPDX-License-Identifier: Apache-2.0
// What a run of an Executable gives -> tensors, and exceptions.
#pragma once

#include <string>

#include <ATen/ATen.h>

#include "program/program.h"
#include "runtime/executable.h"

namespace npugraph::bridge {

// "aten.mm (model.py:12 in forward)".
std::string place_of(const program::Task& task);
// Throws what a task of this thread has thrown, else `error` as the exception that eager mode raises.
[[noreturn]] void rethrow(const std::string& error);
// The exception of a run that failed; nothing where it did not.
void check_run(const runtime::RunResult& result, const program::Program& program);

// The object of a result, which must have one. Takes its reference.
at::Tensor take_object(runtime::BoundOutput& output);
// The window that `output` names in the storage of `whole`.
at::Tensor window_of(const at::Tensor& whole, const runtime::BoundOutput& output);
// A result with an object of its own: an object that nobody else holds becomes the result itself; one of several windows of an
// object becomes a view of it. Takes the reference.
at::Tensor result_of(runtime::BoundOutput& output);

}  // namespace npugraph::bridge
