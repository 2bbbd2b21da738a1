// SPDX-License-Identifier: Apache-2.0
#include "ops/exact.h"

#include <string_view>
#include <unordered_set>

#include "ops/table.h"

namespace npugraph::ops {
namespace {

constexpr std::string_view kExact[] = {
    "aten.neg",
    "aten.abs",
    "aten.relu",
    "aten.sqrt",
    "aten.rsqrt",
    "aten.reciprocal",
    "aten.floor",
    "aten.ceil",
    "aten.trunc",
    "aten.sign",
    "aten.logical_not",
    "aten.bitwise_not",
    "aten.add.Tensor",
    "aten.sub.Tensor",
    "aten.mul.Tensor",
    "aten.div.Tensor",
    "aten.maximum",
    "aten.minimum",
    "aten.logical_and",
    "aten.logical_or",
    "aten.logical_xor",
    "aten.eq.Tensor",
    "aten.ne.Tensor",
    "aten.lt.Tensor",
    "aten.le.Tensor",
    "aten.gt.Tensor",
    "aten.ge.Tensor",
    "aten.eq.Scalar",
    "aten.ne.Scalar",
    "aten.lt.Scalar",
    "aten.le.Scalar",
    "aten.gt.Scalar",
    "aten.ge.Scalar",
    "aten.bitwise_and.Tensor",
    "aten.bitwise_or.Tensor",
    "aten.bitwise_xor.Tensor",
    "aten.where.self",
};

std::unordered_set<const ir::Op*> find_rows() {
  std::unordered_set<const ir::Op*> rows;
  for (const std::string_view name : kExact) {
    const ir::Op& op = require(name);
    rows.insert(&op);
    if (!op.inplace_twin.empty()) rows.insert(&require(op.inplace_twin));
  }
  return rows;
}

// Whether a factor would make two roundings of one, or a fused multiply-add, by the compiler's choice.
bool has_factor(const ir::Node& node) {
  const auto& args = node.op->schema.args;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].name == "alpha") return node.args[i] != args[i].default_value;
  }
  return false;
}

}  // namespace

bool is_exact(const ir::Node& node) {
  static const auto* rows = new std::unordered_set<const ir::Op*>(find_rows());
  return rows->contains(node.op) && !has_factor(node);
}

}  // namespace npugraph::ops
