// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/shapes/shapes.h"

namespace npugraph::ops::shapes {

Types lstm_cell(const Call& call) {
  const auto* gates = call.tensor(0);
  const auto* cell = call.tensor(2);
  if (gates == nullptr || cell == nullptr) return std::nullopt;
  const ir::Type state = dense(cell->dtype, cell->sizes, cell->device);
  return std::vector<ir::Type>{state, state, dense(gates->dtype, gates->sizes, gates->device)};
}

Types ctc_loss(const Call& call) {
  const auto* log_probs = call.tensor(0);
  const auto lengths = call.known_integers(3);
  if (log_probs == nullptr || log_probs->sizes.size() != 3 || !lengths || lengths->empty()) return std::nullopt;
  const Expr& steps = log_probs->sizes[0];
  const Expr& batch = log_probs->sizes[1];
  // A blank before, between and after the labels of the longest target.
  const int64_t states = 2 * std::max<int64_t>(0, *std::max_element(lengths->begin(), lengths->end())) + 1;
  return std::vector<ir::Type>{dense(log_probs->dtype, {batch}, log_probs->device),
                               dense(log_probs->dtype, {batch, steps, states}, log_probs->device)};
}

}  // namespace npugraph::ops::shapes
