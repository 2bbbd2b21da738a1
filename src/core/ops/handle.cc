// SPDX-License-Identifier: Apache-2.0
#include "ops/handle.h"

#include <algorithm>

#include "base/error.h"

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

}  // namespace npugraph::ops
