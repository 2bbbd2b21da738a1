// SPDX-License-Identifier: Apache-2.0
// The text of a generated task.
#pragma once

#include <string>
#include <variant>

#include "program/program.h"

namespace npugraph::program {

// The first argument of the task if that is a text, as it is of generated tasks without parts; else null.
inline const std::string* text_of(const Task& task) {
  return task.args.empty() ? nullptr : std::get_if<std::string>(&task.args.front());
}

}  // namespace npugraph::program
