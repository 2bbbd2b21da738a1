// SPDX-License-Identifier: Apache-2.0
// Operators of an IR graph that kernels of users' libraries compute. Such an operator is known by the schema of its kernel:
// the inputs are the tensors of the schema in its order, and the attributes have the names of its other arguments.
#pragma once

#include <vector>

#include "ge/import/context.h"
#include "ge/import/operand.h"
#include "ge/model.h"
#include "libraries/library.h"

namespace npugraph::ge {

// The kernel that computes `op`: the one that its attribute names, or, unless the operator `has_rule`, the one whose
// operator has its type as the name in Ascend IR. Null if there is none. UserError if the attribute names a kernel that is
// not loaded, or if several have the name.
const libraries::Kernel* kernel_of(const OpDef& op, bool has_rule);

// Adds the call to the Graph and returns its results, one for each output of `op`. An output with the name of an input is
// that tensor after the call, which writes a copy of it. The other outputs are the new tensors in order; their descriptors
// state types and sizes. UserError if the call does not fit the schema.
std::vector<Operand> call_kernel(Context& context, const OpDef& op, const libraries::Kernel& kernel,
                                 const std::vector<Operand*>& operands);

}  // namespace npugraph::ge
