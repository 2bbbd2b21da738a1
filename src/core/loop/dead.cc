// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "loop/simplify.h"
#include "loop/walk.h"

namespace npugraph::loop {
namespace {

// Walks backwards, so that all uses of a value are known at its definition.
class DeadRemover {
 public:
  explicit DeadRemover(Kernel& kernel) : kernel_(kernel), used_(kernel.dtypes.size()), read_(kernel.buffers.size()) {}

  bool run() {
    find_reads(kernel_.body);
    run_block(kernel_.body, nullptr);
    return removed_;
  }

 private:
  void find_reads(const std::vector<Stmt>& block) {
    for (const Stmt& stmt : block) {
      if (const auto* load = std::get_if<Load>(&stmt.node)) read_[load->buffer] = true;
      if (const auto* loop = std::get_if<For>(&stmt.node)) find_reads(loop->body);
    }
  }

  void run_block(std::vector<Stmt>& block, const For* loop) {
    std::vector<Stmt> kept;
    for (auto stmt = block.rbegin(); stmt != block.rend(); ++stmt) {
      if (!is_alive(*stmt, loop)) {
        removed_ = true;
        continue;
      }
      for_each_operand(*stmt, [this](ValueId id) { use(id); });
      for_each_expr(*stmt, [this](const Expr& e) { for_each_index_value(e, [this](ValueId id) { use(id); }); });
      kept.push_back(std::move(*stmt));
    }
    std::reverse(kept.begin(), kept.end());
    block = std::move(kept);
  }

  bool is_alive(Stmt& stmt, const For* loop) {
    if (const auto* let = std::get_if<Let>(&stmt.node)) {
      return is_used(let->id, loop) || may_fail(*let, kernel_.dtypes[let->id]);
    }
    if (const auto* load = std::get_if<Load>(&stmt.node)) return is_used(load->id, loop);
    if (const auto* store = std::get_if<Store>(&stmt.node)) {
      return read_[store->buffer] || !is_scratch(kernel_.buffers[store->buffer].kind);
    }
    if (auto* inner = std::get_if<For>(&stmt.node)) {
      run_loop(*inner, loop);
      return !inner->body.empty();
    }
    return true;
  }

  void run_loop(For& loop, const For* outer) {
    const size_t results = loop.reductions.size() + loop.scans.size();
    std::erase_if(loop.reductions, [&](Reduction& reduction) {
      if (reduction.index_result != kNone && !is_used(reduction.index_result, outer)) {
        reduction.index_result = kNone;
        removed_ = true;
      }
      return reduction.index_result == kNone && !is_used(reduction.result, outer);
    });
    for (const Reduction& reduction : loop.reductions) use(reduction.value);
    run_block(loop.body, &loop);
    std::erase_if(loop.scans, [&](const Scan& scan) { return !is_used(scan.result, &loop); });
    removed_ = removed_ || loop.reductions.size() + loop.scans.size() != results;
  }

  void use(ValueId id) {
    if (id != kNone) used_[id] = true;
  }

  // A value of a loop's body is also used if a scan of it has a used result.
  bool is_used(ValueId id, const For* loop) const {
    if (used_[id]) return true;
    if (loop == nullptr) return false;
    return std::any_of(loop->scans.begin(), loop->scans.end(),
                       [&](const Scan& scan) { return scan.value == id && is_used(scan.result, loop); });
  }

  Kernel& kernel_;
  std::vector<bool> used_;
  std::vector<bool> read_;
  bool removed_ = false;
};

// Gives values numbers in the order of their definitions.
class Numberer {
 public:
  explicit Numberer(Kernel& kernel) : kernel_(kernel), number_(kernel.dtypes.size(), kNone) {}

  void run() {
    find_definitions(kernel_.body);
    rename(kernel_.body);
    kernel_.dtypes = std::move(dtypes_);
  }

 private:
  void define(ValueId id) {
    if (id == kNone) return;
    number_[id] = static_cast<ValueId>(dtypes_.size());
    dtypes_.push_back(kernel_.dtypes[id]);
  }

  void find_definitions(const std::vector<Stmt>& block) {
    for (const Stmt& stmt : block) {
      if (const auto* let = std::get_if<Let>(&stmt.node)) define(let->id);
      if (const auto* load = std::get_if<Load>(&stmt.node)) define(load->id);
      const auto* loop = std::get_if<For>(&stmt.node);
      if (loop == nullptr) continue;
      for (const Scan& scan : loop->scans) define(scan.result);
      find_definitions(loop->body);
      for (const Reduction& reduction : loop->reductions) {
        define(reduction.result);
        define(reduction.index_result);
      }
    }
  }

  void rename(ValueId& id) {
    if (id != kNone) id = number_[id];
  }

  void rename(Expr& e) {
    e = substitute(e, [this](const Expr& symbol) {
      const ValueId id = index_value(symbol.symbol_name());
      return id == kNone ? symbol : Expr::symbol(index_name(number_[id]));
    });
  }

  void rename(std::vector<Stmt>& block) {
    for (Stmt& stmt : block) {
      for_each_operand(stmt, [this](ValueId& id) { rename(id); });
      for_each_expr(stmt, [this](Expr& e) { rename(e); });
      if (auto* let = std::get_if<Let>(&stmt.node)) rename(let->id);
      if (auto* load = std::get_if<Load>(&stmt.node)) rename(load->id);
      if (auto* loop = std::get_if<For>(&stmt.node)) rename(*loop);
    }
  }

  void rename(For& loop) {
    for (Scan& scan : loop.scans) {
      rename(scan.result);
      rename(scan.value);
    }
    for (Reduction& reduction : loop.reductions) {
      rename(reduction.result);
      rename(reduction.index_result);
      rename(reduction.value);
    }
    rename(loop.body);
  }

  Kernel& kernel_;
  std::vector<ValueId> number_;  // by old number
  std::vector<DType> dtypes_;    // by new number
};

}  // namespace

bool remove_dead(Kernel& kernel) { return DeadRemover(kernel).run(); }
void number_values(Kernel& kernel) { Numberer(kernel).run(); }

}  // namespace npugraph::loop
