// SPDX-License-Identifier: Apache-2.0
// Whether what a kernel takes fits the schema of its operator.
#pragma once

#include <string>
#include <vector>

#include "abi/library.h"
#include "ir/op.h"

namespace npugraph::libraries {

// The words of ng_kernel::parameters that a kernel of this schema has. UserError that names an argument or a result
// which no kernel can take.
std::vector<std::string> parameters_of(const ir::Schema& schema);

// UserError if the kernel says what it takes, and that is something else.
void check_parameters(const ir::Schema& schema, const ng_kernel& kernel);

}  // namespace npugraph::libraries
