// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace npugraph::ir {

// Nothing can compute an operator of a graph. `node` is the name that its origin has; empty if it has none.
class OperatorRefused : public UserError {
 public:
  OperatorRefused(std::string node, const std::string& message) : UserError(message), node_(std::move(node)) {}
  const std::string& node() const { return node_; }

 private:
  std::string node_;
};

}  // namespace npugraph::ir
