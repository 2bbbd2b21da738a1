// SPDX-License-Identifier: Apache-2.0
// Values whose elements follow from their places: numbers in order, and one number everywhere. Loops compute their
// elements instead of loading them, through any view. The node that makes such a value has a task only if something
// else reads its memory.
//
//   %p = aten.arange(s0)                                        no task
//   %q = aten.unsqueeze(%p, 1) view(0)
//   %m = aten.le.Tensor(%p, %q)                                 loop.le.where: compares places
//   %y = aten.where.self(%m, %x, -inf)
#pragma once

#include <optional>
#include <unordered_map>

#include "ir/alias.h"
#include "ir/graph.h"
#include "loop/builder.h"

namespace npugraph::lower {

// Element `i`, counted in memory from the first one, is `number`, or first + i * step.
struct Ramp {
  std::optional<Scalar> number;
  Expr first;
  Expr step;
  bool is_same_everywhere() const { return number || step.is_int(0); }
};

// A snapshot of a Graph. Immutable, safe to share.
class Ramps {
 public:
  Ramps(const ir::Graph& graph, const ir::AliasInfo& aliases);

  // Null if the value must be read from memory.
  const Ramp* find(ir::ValueId value) const {
    const auto at = of_values_.find(value);
    return at == of_values_.end() ? nullptr : &at->second;
  }

 private:
  void add(const ir::Graph& graph, const ir::AliasInfo& aliases, ir::ValueId root, const Ramp& made);

  std::unordered_map<ir::ValueId, Ramp> of_values_;
};

// Element `index`, counted in memory from the first one, of this type.
loop::Value emit_element(loop::Builder& builder, const Ramp& ramp, DType dtype, const Expr& index);

// Whether an element of this type can hold this number, as torch converts it.
bool can_hold(DType dtype, const Scalar& number);
// The number, converted to this type. Requires can_hold().
loop::Value emit_number(loop::Builder& builder, DType dtype, const Scalar& number);

}  // namespace npugraph::lower
