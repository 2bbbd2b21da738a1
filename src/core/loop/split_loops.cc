// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "loop/simplify.h"
#include "loop/walk.h"

namespace npugraph::loop {
namespace {

constexpr size_t kMostParts = 4;

class Splitter {
 public:
  Splitter(Kernel& kernel, int64_t lanes) : kernel_(kernel), lanes_(lanes) {}

  bool run() {
    run_block(kernel_.body);
    return found_;
  }

 private:
  // A comparison of the variable of a loop with a constant.
  struct Condition {
    Op op = Op::kLt;
    int64_t constant = 0;
    bool holds(int64_t i) const {
      switch (op) {
        case Op::kLt: return i < constant;
        case Op::kLe: return i <= constant;
        case Op::kGt: return i > constant;
        default: return i >= constant;
      }
    }
    // The first iteration of the second part.
    int64_t cut() const { return op == Op::kLt || op == Op::kGe ? constant : constant + 1; }
  };
  using Conditions = std::map<ValueId, Condition>;

  void run_block(std::vector<Stmt>& block) {
    std::vector<Stmt> out;
    for (Stmt& stmt : block) {
      if (const auto* let = std::get_if<Let>(&stmt.node)) note(*let);
      auto* loop = std::get_if<For>(&stmt.node);
      if (loop != nullptr && loop->kind == For::Kind::kVector && split(*loop, out)) continue;
      if (loop != nullptr) run_block(loop->body);
      out.push_back(std::move(stmt));
    }
    block = std::move(out);
  }

  void note(const Let& let) {
    if (let.op == Op::kIndex) indices_[let.id] = let.index;
    if (let.op == Op::kConstant && let.number.kind == ScalarKind::kInt) indices_[let.id] = let.number.as_int();
  }

  bool split(const For& loop, std::vector<Stmt>& out) {
    const auto extent = loop.extent.as_int();
    if (!extent || !loop.reductions.empty() || !loop.scans.empty()) return false;
    const Conditions conditions = find_conditions(loop);
    std::set<int64_t> cuts;
    for (const auto& [id, condition] : conditions) {
      const int64_t cut = condition.cut();
      if (cut > 0 && cut < *extent && cut % lanes_ == 0) cuts.insert(cut);
    }
    if (cuts.empty() || cuts.size() >= kMostParts) return false;
    found_ = true;
    int64_t first = 0;
    cuts.insert(*extent);
    for (const int64_t end : cuts) {
      out.push_back({part(loop, conditions, first, end)});
      first = end;
    }
    return true;
  }

  Conditions find_conditions(const For& loop) {
    Conditions found;
    for (const Stmt& stmt : loop.body) {
      const auto* let = std::get_if<Let>(&stmt.node);
      if (let == nullptr) continue;
      note(*let);
      if (let->op < Op::kLt || let->op > Op::kGe) continue;
      const auto is_variable = [&](ValueId id) {
        const auto at = indices_.find(id);
        return at != indices_.end() && at->second == Expr::symbol(loop.var);
      };
      if (const auto constant = constant_index(let->args[1]); constant && is_variable(let->args[0]))
        found[let->id] = {let->op, *constant};
      else if (const auto other = constant_index(let->args[0]); other && is_variable(let->args[1]))
        found[let->id] = {mirrored(let->op), *other};
    }
    return found;
  }

  static Op mirrored(Op op) {
    switch (op) {
      case Op::kLt: return Op::kGt;
      case Op::kLe: return Op::kGe;
      case Op::kGt: return Op::kLt;
      default: return Op::kLe;
    }
  }

  std::optional<int64_t> constant_index(ValueId id) const {
    const auto at = indices_.find(id);
    return at == indices_.end() ? std::nullopt : at->second.as_int();
  }

  // The part with iterations [first, end), with its own variable and values.
  For part(const For& loop, const Conditions& conditions, int64_t first, int64_t end) {
    const std::string var = first == 0 ? loop.var : cat(loop.var, "_", first);
    Names names{{}, {{loop.var, Expr::symbol(var) + Expr(first)}}};
    For made{.var = var, .extent = end - first, .kind = loop.kind, .grain = loop.grain};
    made.body = copy(loop.body, first, names);
    for (Stmt& stmt : made.body) {
      auto* let = std::get_if<Let>(&stmt.node);
      if (let == nullptr) continue;
      const auto original =
          std::ranges::find_if(conditions, [&](const auto& row) { return names.value(row.first) == let->id; });
      if (original == conditions.end()) continue;
      const Condition& condition = original->second;
      // The condition changes within the part if the loop was not cut there.
      if (condition.holds(first) != condition.holds(end - 1)) continue;
      *let = Let{let->id, Op::kConstant, {}, Scalar::of_bool(condition.holds(first)), {}};
    }
    return made;
  }

  struct Names {
    std::unordered_map<ValueId, ValueId> values;
    std::unordered_map<std::string, Expr> variables;
    ValueId value(ValueId id) const {
      const auto at = values.find(id);
      return at == values.end() ? id : at->second;
    }
  };

  ValueId fresh(ValueId id, int64_t first, Names& names) {
    if (first == 0) return id;
    kernel_.dtypes.push_back(kernel_.dtypes[static_cast<size_t>(id)]);
    return names.values[id] = static_cast<ValueId>(kernel_.dtypes.size()) - 1;
  }

  std::vector<Stmt> copy(const std::vector<Stmt>& block, int64_t first, Names& names) {
    std::vector<Stmt> out = block;
    for (Stmt& stmt : out) {
      for_each_operand(stmt, [&](ValueId& id) { id = names.value(id); });
      for_each_expr(stmt, [&](Expr& e) { e = rename(e, names); });
      if (auto* let = std::get_if<Let>(&stmt.node)) let->id = fresh(let->id, first, names);
      if (auto* load = std::get_if<Load>(&stmt.node)) load->id = fresh(load->id, first, names);
      if (auto* loop = std::get_if<For>(&stmt.node)) copy_inner(*loop, first, names);
    }
    return out;
  }

  void copy_inner(For& loop, int64_t first, Names& names) {
    if (first != 0) {
      const std::string var = cat(loop.var, "_", first);
      names.variables.insert_or_assign(loop.var, Expr::symbol(var));
      loop.var = var;
    }
    for (Scan& scan : loop.scans) scan.result = fresh(scan.result, first, names);
    loop.body = copy(loop.body, first, names);
    for (Scan& scan : loop.scans) scan.value = names.value(scan.value);
    for (Reduction& reduction : loop.reductions) {
      reduction.value = names.value(reduction.value);
      reduction.result = fresh(reduction.result, first, names);
      if (reduction.index_result != kNone) reduction.index_result = fresh(reduction.index_result, first, names);
    }
  }

  static Expr rename(const Expr& e, const Names& names) {
    return substitute(e, [&](const Expr& symbol) {
      const auto variable = names.variables.find(symbol.symbol_name());
      if (variable != names.variables.end()) return variable->second;
      const ValueId id = index_value(symbol.symbol_name());
      return id == kNone ? symbol : Expr::symbol(index_name(names.value(id)));
    });
  }

  Kernel& kernel_;
  int64_t lanes_;
  bool found_ = false;
  std::unordered_map<ValueId, Expr> indices_;  // integer values that are index expressions or constants
};

}  // namespace

bool split_loops(Kernel& kernel, int64_t lanes) { return Splitter(kernel, lanes).run(); }

}  // namespace npugraph::loop
