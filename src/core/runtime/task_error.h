// SPDX-License-Identifier: Apache-2.0
// The errors that stop a call. Executable::run() turns them into a RunResult; time_tasks() lets them pass.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace npugraph::runtime {

class TaskError : public std::runtime_error {
 public:
  explicit TaskError(const std::string& message, std::optional<int32_t> failed_task = std::nullopt)
      : std::runtime_error(message), task(failed_task) {}
  const std::optional<int32_t> task;  // that failed; nullopt: it is not known
};

// An input that a call must not use: a size out of its bounds, or memory that ends too early. Thrown before any task
// runs.
struct InputError : UserError {
  using UserError::UserError;
};

}  // namespace npugraph::runtime
