// SPDX-License-Identifier: Apache-2.0
// The operators of an IR graph in an order in which producers come before readers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ge/model.h"

namespace npugraph::ge {

struct OrderedGraph {
  std::vector<const OpDef*> order;
  std::map<std::string, const OpDef*, std::less<>> by_name;
};

// Operators keep the order of the graph where data and control edges leave a choice. UserError if a name is given
// twice or is empty, if an operator reads one that is not there, or if operators wait for each other.
OrderedGraph order_operators(const GraphDef& graph);

}  // namespace npugraph::ge
