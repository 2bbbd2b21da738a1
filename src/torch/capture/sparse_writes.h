// SPDX-License-Identifier: Apache-2.0
// Operators that write a few places of a large tensor.
#pragma once

#include <optional>
#include <span>

#include <ATen/core/dispatch/Dispatcher.h>

#include "torch/capture/overwritten.h"

namespace npugraph::capture {

// The places of its first argument that an operator of torch writes, as cpu tensors, where these are less than all of it. Nothing
// for others.
std::optional<Places> written_places(const c10::OperatorHandle& op, std::span<const c10::IValue> args);

}  // namespace npugraph::capture
