// SPDX-License-Identifier: Apache-2.0
#include "ge/import/order.h"

#include <cstdint>
#include <functional>
#include <queue>

#include "base/error.h"

namespace npugraph::ge {

OrderedGraph order_operators(const GraphDef& graph) {
  OrderedGraph ordered;
  std::map<const OpDef*, size_t> position;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const OpDef& op = graph.ops[i];
    if (op.name.empty()) throw UserError(cat("operator ", i, " of type ", op.type, " has no name"));
    if (!ordered.by_name.emplace(op.name, &op).second) throw UserError(cat("two operators are called '", op.name, "'"));
    position.emplace(&op, i);
  }
  std::vector<std::vector<size_t>> readers(graph.ops.size());
  std::vector<size_t> waits_for(graph.ops.size(), 0);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    for (const InputRef& input : graph.ops[i].inputs) {
      if (input.is_absent()) continue;
      const auto producer = ordered.by_name.find(input.producer);
      if (producer == ordered.by_name.end())
        throw UserError(
            cat("operator '", graph.ops[i].name, "' reads '", input.producer, "', which the graph does not have"));
      readers[position.at(producer->second)].push_back(i);
      ++waits_for[i];
    }
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (waits_for[i] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    ordered.order.push_back(&graph.ops[i]);
    for (const size_t reader : readers[i]) {
      if (--waits_for[reader] == 0) ready.push(reader);
    }
  }
  for (size_t i = 0; i < graph.ops.size() && ordered.order.size() < graph.ops.size(); ++i) {
    if (waits_for[i] != 0) throw UserError(cat("operator '", graph.ops[i].name, "' waits for its own results"));
  }
  return ordered;
}

}  // namespace npugraph::ge
