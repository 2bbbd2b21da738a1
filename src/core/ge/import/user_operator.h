// SPDX-License-Identifier: Apache-2.0
// Operators of users in an IR graph: kernels of their libraries and operators of the host compute them. Such an
// operator is known by its schema: the inputs are the tensors of the schema in its order, and the attributes have the
// names of its other arguments.
#pragma once

#include <optional>
#include <vector>

#include "ge/import/context.h"
#include "ge/import/import.h"
#include "ge/import/operand.h"
#include "ge/model.h"
#include "ir/op.h"

namespace npugraph::ge {

// The schema of the operator that computes `op`: the one that its attribute names, with a kernel in a library or of the
// host, or, unless the operator `has_rule`, the one with a kernel in a library whose name in Ascend IR is its type.
// nullopt if there is none. UserError if nothing computes what the attribute names, or if several kernels have the
// name.
std::optional<ir::Schema> schema_of(const OpDef& op, bool has_rule, const HostSchemas& host);

// Adds the call to the Graph and returns its results, one for each output of `op`. An output with the name of an input
// is that tensor after the call, which writes a copy of it. The other outputs are the new tensors in order; their
// descriptors state types and sizes. UserError if the call does not fit the schema.
std::vector<Operand> call_operator(Context& context, const OpDef& op, const ir::Schema& schema,
                                   const std::vector<Operand*>& operands);

}  // namespace npugraph::ge
