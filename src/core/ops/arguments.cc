// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "ops/handle.h"
#include "ops/row.h"

namespace npugraph::ops {

std::optional<size_t> ArgumentName::position(const ir::Op& op) const {
  const auto& args = op.schema.args;
  const auto found = std::ranges::find(args, name, &ir::SchemaArg::name);
  return found == args.end() ? std::nullopt : std::optional(static_cast<size_t>(found - args.begin()));
}

const Attr* ArgumentName::find(const ir::Node& node) const {
  const auto at = position(*node.op);
  return at ? &node.args[*at] : nullptr;
}

const Attr& ArgumentName::operator()(const ir::Node& node) const {
  const Attr* found = find(node);
  NG_CHECK(found != nullptr, node.op->name, " has no argument ", name);
  return *found;
}

Attr& ArgumentName::operator()(ir::Node& node) const {
  return const_cast<Attr&>((*this)(static_cast<const ir::Node&>(node)));
}

const ir::TensorType* Call::tensor(size_t i) const {
  const auto* ref = std::get_if<TensorRef>(&args[i]);
  if (ref == nullptr || ref->id == TensorRef::kAbsent) return nullptr;
  return std::get_if<ir::TensorType>(&graph.value(ref->id).type);
}

std::optional<Expr> Call::integer(size_t i) const {
  const auto* e = std::get_if<Expr>(&args[i]);
  if (e == nullptr || e->kind() != ScalarKind::kInt) return std::nullopt;
  return *e;
}

std::optional<int64_t> Call::known_integer(size_t i) const {
  const auto e = integer(i);
  return e ? e->as_int() : std::nullopt;
}

std::optional<std::vector<Expr>> Call::integers(size_t i) const {
  const auto* list = std::get_if<std::vector<Expr>>(&args[i]);
  if (list == nullptr) return std::nullopt;
  return *list;
}

std::optional<std::vector<int64_t>> Call::known_integers(size_t i) const {
  const auto* list = std::get_if<std::vector<Expr>>(&args[i]);
  if (list == nullptr) return std::nullopt;
  std::vector<int64_t> values;
  for (const Expr& e : *list) {
    if (!e.as_int()) return std::nullopt;
    values.push_back(*e.as_int());
  }
  return values;
}

std::optional<bool> Call::boolean(size_t i) const {
  const auto* e = std::get_if<Expr>(&args[i]);
  if (e == nullptr || !e->is_constant() || e->kind() == ScalarKind::kFloat) return std::nullopt;
  return e->value().as_int() != 0;
}

std::optional<size_t> Call::find(std::string_view name) const {
  const auto& schema = op.schema.args;
  const auto arg = std::find_if(schema.begin(), schema.end(), [&](const ir::SchemaArg& a) { return a.name == name; });
  if (arg == schema.end()) return std::nullopt;
  return static_cast<size_t>(arg - schema.begin());
}

std::optional<Expr> Call::defined_size(int32_t result, int32_t dim) const {
  for (const ir::SymbolDef& def : defines) {
    if (def.result == result && def.dim == dim) return Expr::symbol(def.symbol, def.kind);
  }
  return std::nullopt;
}

int64_t normalise_dim(const Call& call, int64_t dim, int64_t rank) {
  const int64_t limit = std::max<int64_t>(rank, 1);
  if (dim < -limit || dim >= limit) {
    throw UserError(cat(call.op.name, ": dimension ", dim, " is out of range for a tensor of rank ", rank));
  }
  return dim < 0 ? dim + limit : dim;
}

}  // namespace npugraph::ops
