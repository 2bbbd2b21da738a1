// SPDX-License-Identifier: Apache-2.0
// How a C++ exception leaves a task, which must not throw: it is kept for
// the calling thread, and the host gets its text.
#pragma once

#include <exception>

#include "abi/task.h"
#include "backend/own_kernels/export.h"

namespace npugraph::bridge {

// To be called in a catch block. Keeps the current exception for take_kept_exception(), tells the host its text when
// there is a host, and returns NG_ERROR.
NPUGRAPH_EXPORT ng_status report_current_exception(const ng_call* call) noexcept;

void keep_exception(std::exception_ptr thrown);
// Returns the exception that the calling thread kept last, or null, and forgets it.
std::exception_ptr take_kept_exception();

}  // namespace npugraph::bridge
