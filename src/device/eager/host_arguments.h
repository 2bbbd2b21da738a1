// SPDX-License-Identifier: Apache-2.0
// Arguments that an operator by its definition takes from the host: lengths and indices, which may be cpu tensors
// beside npu tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace npugraph::eager {

bool may_be_on_host(const c10::OperatorHandle& op, const c10::Argument& argument);

}  // namespace npugraph::eager
