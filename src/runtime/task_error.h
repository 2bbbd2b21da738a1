// SPDX-License-Identifier: Apache-2.0
// The errors that stop a call. Executable::run() turns them into a RunResult; Executable::time_tasks() lets them pass.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "program/program.h"

namespace npugraph::runtime {

class TaskError : public std::runtime_error {
 public:
  explicit TaskError(const std::string& message, int32_t failed_task = program::kNone)
      : std::runtime_error(message), task(failed_task) {}
  const int32_t task;
};

// An input that a call must not use. Thrown before any task runs.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace npugraph::runtime
