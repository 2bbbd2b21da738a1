// SPDX-License-Identifier: Apache-2.0
// Visitors of the expressions and operands of statements, for all code that rewrites kernels.
#pragma once

#include <variant>

#include "loop/kernel.h"
#include "loop/op.h"

namespace npugraph::loop {

// Calls fn(Expr&) for each index expression and size of one statement, without those of a loop's body.
template <typename StmtT, typename Fn>
void for_each_expr(StmtT& stmt, Fn fn) {
  if (auto* let = std::get_if<Let>(&stmt.node)) {
    if (let->op == Op::kIndex) fn(let->index);
  } else if (auto* load = std::get_if<Load>(&stmt.node)) {
    fn(load->index);
  } else if (auto* store = std::get_if<Store>(&stmt.node)) {
    fn(store->index);
  } else if (auto* loop = std::get_if<For>(&stmt.node)) {
    fn(loop->extent);
    fn(loop->grain);
  }
}

// Calls fn(ValueId&) for each operand of one statement, kNone included, without index expressions, a loop's body and
// the values that the loop combines.
template <typename StmtT, typename Fn>
void for_each_operand(StmtT& stmt, Fn fn) {
  if (auto* let = std::get_if<Let>(&stmt.node)) {
    for (auto& arg : let->args) fn(arg);
  } else if (auto* load = std::get_if<Load>(&stmt.node)) {
    fn(load->mask);
    fn(load->otherwise);
  } else if (auto* store = std::get_if<Store>(&stmt.node)) {
    fn(store->value);
    fn(store->mask);
  } else if (auto* check = std::get_if<Check>(&stmt.node)) {
    fn(check->condition);
    fn(check->shown);
  }
}

// Calls fn(ValueId) for each value of an index expression.
template <typename Fn>
void for_each_index_value(const Expr& e, Fn fn) {
  if (e.op() == ExprOp::kSymbol) {
    const ValueId id = index_value(e.symbol_name());
    if (id != kNone) fn(id);
  }
  for (const Expr& arg : e.args()) for_each_index_value(arg, fn);
}

// Integer division may fail, and its failure is an effect.
inline bool may_fail(const Let& let, DType dtype) {
  const bool divides =
      let.op == Op::kFmod || let.op == Op::kFloorMod || let.op == Op::kTruncDiv || let.op == Op::kFloorDiv;
  return divides && is_integer(dtype);
}

}  // namespace npugraph::loop
