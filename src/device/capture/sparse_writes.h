// SPDX-License-Identifier: Apache-2.0
// Operators that write a few places of a large tensor.
#pragma once

#include <optional>
#include <span>

#include <ATen/core/dispatch/Dispatcher.h>

#include "device/capture/overwritten.h"

namespace npugraph::capture {

// The places that an operator of torch writes in its first argument, as cpu tensors. Nullopt if these may be all of it,
// or if the operator is not one of those known here.
std::optional<Places> written_places(const c10::OperatorHandle& op, std::span<const c10::IValue> args);

}  // namespace npugraph::capture
