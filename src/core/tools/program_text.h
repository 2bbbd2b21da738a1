// SPDX-License-Identifier: Apache-2.0
// Programs in words, for users of tools.
#pragma once

#include <cstddef>
#include <string>

#include "program/program.h"

namespace npugraph::tools {

// "f32[s0, 3]", or "a scalar"; ", of the model" behind it for parameters.
std::string input_text(const program::Program& program, size_t input);

// Inputs, outputs, tasks by kind and bytes of constants, in lines.
std::string summary(const program::Program& program);

}  // namespace npugraph::tools
