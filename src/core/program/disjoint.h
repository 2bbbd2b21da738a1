// SPDX-License-Identifier: Apache-2.0
// Whether windows share memory.
#pragma once

#include "program/program.h"

namespace npugraph::program {

// Whether two windows of one Program surely have no byte in common: they lie in different buffers, in different ranges
// of one, or they are different parts of one array, such as the parts of a concatenation. Sizes may be expressions in
// the outermost dimension only. Different buffers are taken as different memory, also those of inputs.
bool are_disjoint(const Operand& a, const Operand& b);

}  // namespace npugraph::program
