// SPDX-License-Identifier: Apache-2.0
// The errors that stop a call. Executable::run() turns them into a RunResult; Executable::time_tasks() lets them pass.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "program/program.h"

namespace npugraph::runtime {

class TaskError : public std::runtime_error {
 public:
  explicit TaskError(const std::string& message, int32_t failed_task = program::kNone)
      : std::runtime_error(message), task(failed_task) {}
  const int32_t task;
};

// An input that a call must not use: a size out of its bounds, or memory that ends too early. Thrown before any task
// runs.
struct InputError : UserError {
  using UserError::UserError;
};

}  // namespace npugraph::runtime
