// SPDX-License-Identifier: Apache-2.0
#include "loop/slices.h"

#include <algorithm>
#include <string>
#include <vector>

#include "loop/walk.h"

namespace npugraph::loop {
namespace {

// The only buffer that is written, if all buffers are arguments.
std::optional<size_t> find_result(const Kernel& kernel) {
  std::optional<size_t> result;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const Buffer::Kind kind = kernel.buffers[i].kind;
    if (kind == Buffer::Kind::kIn) continue;
    if (kind != Buffer::Kind::kOut || result) return {};
    result = i;
  }
  return result;
}

// The same with x - n * floordiv(x, n) for mod(x, n), so that the parts into which a nest cuts rows follow each other:
// 8 * floordiv(i, 2) + 4 * mod(i, 2) is 4 * i.
Expr without_remainders(const Expr& e) {
  if (e.is_constant() || e.args().empty()) return e;
  std::vector<Expr> args;
  for (const Expr& arg : e.args()) args.push_back(without_remainders(arg));
  if (e.op() == ExprOp::kMod) return args[0] - args[1] * Expr::make(ExprOp::kFloorDiv, args);
  return Expr::make(e.op(), std::move(args));
}

// What each iteration of the loop stores. All loops inside have constant extents, so every iteration stores elements at
// the same distances from its first one. Since all iterations together store a dense array, these are one slice of it.
class Finder {
 public:
  Finder(const Kernel& kernel, const For& loop) : kernel_(kernel), variable_(loop.var) {}

  // The number of elements; nullopt if the iterations differ in more than the place of their slices.
  std::optional<int64_t> each(const std::vector<Stmt>& body) {
    return are_known(body) && each_ > 0 ? std::optional(each_) : std::nullopt;
  }

 private:
  bool are_known(const std::vector<Stmt>& body) {
    return std::ranges::all_of(body, [&](const Stmt& stmt) {
      if (const auto* let = std::get_if<Let>(&stmt.node)) return !may_fail(*let, kernel_.dtypes[let->id]);
      if (const auto* store = std::get_if<Store>(&stmt.node)) return is_known(*store);
      if (const auto* loop = std::get_if<For>(&stmt.node)) return loop->extent.as_int() && are_known(loop->body);
      return std::holds_alternative<Load>(stmt.node);
    });
  }

  // Sets each_ where it is not known yet.
  bool is_known(const Store& store) {
    const Expr index = without_remainders(store.index), first = at(index, 0);
    const auto apart = (at(index, 1) - first).as_int();
    if (store.mask != kNone || !apart || (each_ != 0 && *apart != each_)) return false;
    each_ = *apart;
    bool computed = false;
    for_each_index_value(store.index, [&](ValueId) { computed = true; });
    return !computed && index == first + Expr(each_) * Expr::symbol(variable_);
  }

  Expr at(const Expr& index, int64_t iteration) const {
    return substitute(index,
                      [&](const Expr& symbol) { return symbol.symbol_name() == variable_ ? Expr(iteration) : symbol; });
  }

  const Kernel& kernel_;
  const std::string variable_;
  int64_t each_ = 0;
};

}  // namespace

std::optional<Slices> find_slices(const Kernel& kernel) {
  const auto result = find_result(kernel);
  const For* loop = kernel.body.size() == 1 ? std::get_if<For>(&kernel.body.front().node) : nullptr;
  if (!result || loop == nullptr || loop->kind != For::Kind::kParallel || !kernel.scalars.empty()) return {};
  const auto iterations = loop->extent.as_int(), each = Finder(kernel, *loop).each(loop->body);
  if (!iterations || !each) return {};
  return Slices{.result = *result, .iterations = *iterations, .each = *each};
}

}  // namespace npugraph::loop
