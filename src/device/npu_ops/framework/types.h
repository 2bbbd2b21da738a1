// SPDX-License-Identifier: Apache-2.0
// Short names of the types that most operators take and return.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>

#include <ATen/ATen.h>

namespace npugraph::npu_ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using OptionalInt = std::optional<int64_t>;
using OptionalString = std::optional<std::string_view>;

// So many tensors, as results.
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;
using Six = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
using Seven = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
using Eight = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

}  // namespace npugraph::npu_ops
