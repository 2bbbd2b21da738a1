// SPDX-License-Identifier: Apache-2.0
// Programs in words, for users of tools.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "program/program.h"
#include "tensor/dtype.h"

namespace npugraph::tools {

// "f32[2, 3]"
std::string shape_text(DType dtype, std::span<const int64_t> sizes);
// "f32[s0, 3]"
std::string shape_text(const program::Program& program, DType dtype, const std::vector<program::Dim>& sizes);
// "input 0 (L['x'])"
std::string input_name(const program::Program& program, size_t input);
// "f32[s0, 3]", or "a scalar"; ", of the model" behind it for parameters.
std::string input_text(const program::Program& program, size_t input);

// Inputs, outputs, tasks by kind and bytes of constants, in lines.
std::string summary(const program::Program& program);

}  // namespace npugraph::tools
