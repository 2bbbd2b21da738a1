// SPDX-License-Identifier: Apache-2.0
#include "loop/simplify.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/hash.h"
#include "loop/algebra.h"
#include "loop/bounds.h"
#include "loop/text.h"
#include "loop/walk.h"

namespace npugraph::loop {

namespace {

// A round may make further simplifications possible in the next one, but hardly ever in more than a few.
constexpr int kMaxRounds = 4;

void find_stores(const std::vector<Stmt>& block, std::unordered_set<int32_t>& stored) {
  for (const Stmt& stmt : block) {
    if (const auto* store = std::get_if<Store>(&stmt.node)) stored.insert(store->buffer);
    if (const auto* loop = std::get_if<For>(&stmt.node)) find_stores(loop->body, stored);
  }
}

// One walk from front to back. Statements are rewritten with what is known of the values that they use and appended to
// the new block.
class Simplifier {
 public:
  explicit Simplifier(Kernel& kernel) : kernel_(kernel) {
    definitions_.find = [this](ValueId id) { return find_let(id); };
    definitions_.dtypes = &kernel.dtypes;
  }

  void run() {
    Block top;
    run_stmts(kernel_.body, top);
    kernel_.body = std::move(top.out);
  }

 private:
  // A block under construction. Values that `loop` combines must stay in this block.
  struct Block {
    Block* parent = nullptr;
    const For* loop = nullptr;
    std::vector<Stmt> out;
    std::unordered_set<ValueId> defined;
    std::unordered_multimap<size_t, ValueId> lets;  // by hash
    std::vector<Load> loads;                        // from buffers that no store has changed since
  };

  void run_stmts(std::vector<Stmt>& stmts, Block& block) {
    for (Stmt& stmt : stmts) run_stmt(stmt, block);
  }
  void run_stmt(Stmt& stmt, Block& block);
  void run_let(Let let, Block& block);
  void run_load(Load load, Block& block);
  void run_store(Store store, Block& block);
  void run_for(For loop, Block& block);
  void place(Let let, Block& block);
  ValueId place_constant(DType dtype, Scalar number, Block& block);

  Expr rewrite(const Expr& e) const;
  bool stays(ValueId id, const Block& block) const;
  bool replace(ValueId id, ValueId by, const Block& block);
  bool can_leave(const Let& let, const Block& block) const;
  std::optional<bool> constant_bool(ValueId id) const;
  const Let* find_let(ValueId id) const;
  ValueId resolve(ValueId id) const {
    const auto found = replaced_.find(id);
    return found == replaced_.end() ? id : found->second;
  }

  Kernel& kernel_;
  Definitions definitions_;
  Bounds bounds_;
  std::unordered_map<ValueId, ValueId> replaced_;
  std::unordered_map<ValueId, Let> lets_;            // as placed
  std::unordered_map<std::string, Expr> variables_;  // of loops that were merged into their block
};

const Let* Simplifier::find_let(ValueId id) const {
  const auto found = lets_.find(id);
  return found == lets_.end() ? nullptr : &found->second;
}

std::optional<bool> Simplifier::constant_bool(ValueId id) const {
  const Let* let = id == kNone ? nullptr : find_let(id);
  return let != nullptr && let->op == Op::kConstant ? std::optional(let->number.as_bool()) : std::nullopt;
}

// Index expressions see through kIndex and integer constants.
Expr Simplifier::rewrite(const Expr& e) const {
  const Expr substituted = substitute(e, [this](const Expr& symbol) {
    if (const auto found = variables_.find(symbol.symbol_name()); found != variables_.end()) return found->second;
    const ValueId id = resolve(index_value(symbol.symbol_name()));
    if (id == kNone) return symbol;
    const Let* let = find_let(id);
    if (let != nullptr && let->op == Op::kIndex) return let->index;
    if (let != nullptr && let->op == Op::kConstant) return Expr(let->number.as_int());
    return Expr::symbol(index_name(id));
  });
  return bounds_.simplify(substituted);
}

// Whether a reduction or a scan of the block's loop takes the value.
bool Simplifier::stays(ValueId id, const Block& block) const {
  if (block.loop == nullptr) return false;
  const auto takes = [id](const auto& combined) { return combined.value == id; };
  return std::any_of(block.loop->reductions.begin(), block.loop->reductions.end(), takes) ||
         std::any_of(block.loop->scans.begin(), block.loop->scans.end(), takes);
}

bool Simplifier::replace(ValueId id, ValueId by, const Block& block) {
  if (stays(id, block) && !block.defined.contains(by)) return false;
  replaced_[id] = by;
  return true;
}

void Simplifier::run_stmt(Stmt& stmt, Block& block) {
  for_each_operand(stmt, [this](ValueId& id) { id = resolve(id); });
  for_each_expr(stmt, [this](Expr& e) { e = rewrite(e); });
  if (auto* let = std::get_if<Let>(&stmt.node)) return run_let(std::move(*let), block);
  if (auto* load = std::get_if<Load>(&stmt.node)) return run_load(std::move(*load), block);
  if (auto* store = std::get_if<Store>(&stmt.node)) return run_store(std::move(*store), block);
  if (auto* loop = std::get_if<For>(&stmt.node)) return run_for(std::move(*loop), block);
  if (constant_bool(std::get<Check>(stmt.node).condition).value_or(false)) return;
  block.out.push_back(std::move(stmt));
}

void Simplifier::run_let(Let let, Block& block) {
  while (reduce_work(let, definitions_)) {
  }
  if (const auto same = find_same(let, definitions_)) {
    if (replace(let.id, *same, block)) return;
  }
  if (const auto reciprocal = exact_reciprocal(let, definitions_)) {
    let.op = Op::kMul;
    let.args[1] = place_constant(kernel_.dtypes[let.id], *reciprocal, block);
  }
  place(std::move(let), block);
}

ValueId Simplifier::place_constant(DType dtype, Scalar number, Block& block) {
  const auto id = static_cast<ValueId>(kernel_.dtypes.size());
  kernel_.dtypes.push_back(dtype);
  place(Let{id, Op::kConstant, {}, number, {}}, block);
  return resolve(id);
}

// Whether the value can move in front of the block's loop: it is the same in all iterations. Operators that may fail
// stay, and so do index expressions, which may divide by a zero extent.
bool Simplifier::can_leave(const Let& let, const Block& block) const {
  if (block.parent == nullptr || block.loop->kind == For::Kind::kParallel || stays(let.id, block)) return false;
  if (let.op == Op::kIndex || may_fail(let, kernel_.dtypes[let.id])) return false;
  return std::none_of(let.args.begin(), let.args.end(), [&](ValueId id) { return block.defined.contains(id); });
}

// Appends the value to the outermost block in which it can be, unless an equal one is there.
void Simplifier::place(Let let, Block& block) {
  if (can_leave(let, block)) return place(std::move(let), *block.parent);
  const DType dtype = kernel_.dtypes[let.id];
  size_t hash = hash_of(static_cast<int>(let.op), static_cast<int>(dtype), let.number.i, let.index.hash());
  for (const ValueId arg : let.args) hash_combine(hash, arg);
  const auto [first, last] = block.lets.equal_range(hash);
  for (auto entry = first; entry != last; ++entry) {
    const Let& other = lets_.at(entry->second);
    const bool equal = other.op == let.op && other.args == let.args && other.number == let.number &&
                       other.index == let.index && kernel_.dtypes[other.id] == dtype;
    if (equal && replace(let.id, other.id, block)) return;
  }
  block.lets.emplace(hash, let.id);
  block.defined.insert(let.id);
  lets_[let.id] = let;
  block.out.push_back({std::move(let)});
}

void Simplifier::run_load(Load load, Block& block) {
  if (const auto mask = constant_bool(load.mask)) {
    if (!*mask && replace(load.id, load.otherwise, block)) return;
    if (*mask) load.mask = load.otherwise = kNone;
  }
  for (const Load& other : block.loads) {
    const bool equal = other.buffer == load.buffer && other.index == load.index && other.mask == load.mask &&
                       other.otherwise == load.otherwise;
    if (equal && replace(load.id, other.id, block)) return;
  }
  block.defined.insert(load.id);
  block.loads.push_back(load);
  block.out.push_back({std::move(load)});
}

void Simplifier::run_store(Store store, Block& block) {
  if (const auto mask = constant_bool(store.mask)) {
    if (!*mask) return;
    store.mask = kNone;
  }
  std::erase_if(block.loads, [&](const Load& load) { return load.buffer == store.buffer; });
  block.out.push_back({std::move(store)});
}

void Simplifier::run_for(For loop, Block& block) {
  const bool combines = !loop.reductions.empty() || !loop.scans.empty();
  if (loop.extent.is_int(0) && !combines) return;
  if (loop.extent.is_int(1) && !combines) {
    variables_[loop.var] = 0;
    return run_stmts(loop.body, block);
  }
  Block inside;
  inside.parent = &block;
  inside.loop = &loop;
  for (const Scan& scan : loop.scans) inside.defined.insert(scan.result);
  std::unordered_set<int32_t> stored;
  find_stores(loop.body, stored);
  std::erase_if(block.loads, [&](const Load& load) { return stored.contains(load.buffer); });

  bounds_.enter(loop.var, loop.extent);
  run_stmts(loop.body, inside);
  bounds_.leave();
  loop.body = std::move(inside.out);
  for (Scan& scan : loop.scans) scan.value = resolve(scan.value);
  for (Reduction& reduction : loop.reductions) {
    reduction.value = resolve(reduction.value);
    block.defined.insert(reduction.result);
    if (reduction.index_result != kNone) block.defined.insert(reduction.index_result);
  }
  block.out.push_back({std::move(loop)});
}

void find_buffers(const std::vector<Stmt>& block, std::vector<bool>& used) {
  for (const Stmt& stmt : block) {
    if (const auto* load = std::get_if<Load>(&stmt.node)) used[load->buffer] = true;
    if (const auto* store = std::get_if<Store>(&stmt.node)) used[store->buffer] = true;
    if (const auto* loop = std::get_if<For>(&stmt.node)) find_buffers(loop->body, used);
  }
}

void renumber_buffers(std::vector<Stmt>& block, const std::vector<int32_t>& number) {
  for (Stmt& stmt : block) {
    if (auto* load = std::get_if<Load>(&stmt.node)) load->buffer = number[load->buffer];
    if (auto* store = std::get_if<Store>(&stmt.node)) store->buffer = number[store->buffer];
    if (auto* loop = std::get_if<For>(&stmt.node)) renumber_buffers(loop->body, number);
  }
}

void remove_unused_scratch(Kernel& kernel) {
  std::vector<bool> used(kernel.buffers.size());
  find_buffers(kernel.body, used);
  std::vector<int32_t> number(kernel.buffers.size(), kNone);
  std::vector<Buffer> kept;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    if (!used[i] && is_scratch(kernel.buffers[i].kind)) continue;
    number[i] = static_cast<int32_t>(kept.size());
    kept.push_back(std::move(kernel.buffers[i]));
  }
  kernel.buffers = std::move(kept);
  renumber_buffers(kernel.body, number);
}

}  // namespace

void simplify(Kernel& kernel) {
  std::string before;
  for (int round = 0; round < kMaxRounds; ++round) {
    Simplifier(kernel).run();
    while (remove_dead(kernel)) {
    }
    remove_unused_scratch(kernel);
    number_values(kernel);
    std::string after = print(kernel);
    if (after == before) return;
    before = std::move(after);
  }
}

namespace {

using Substitute = std::function<Expr(const Expr&)>;

void rewrite_all(std::vector<Stmt>& statements, const Substitute& substitute) {
  for (Stmt& stmt : statements) {
    for_each_expr(stmt, [&](Expr& e) { e = substitute(e); });
    if (auto* loop = std::get_if<For>(&stmt.node)) rewrite_all(loop->body, substitute);
  }
}

}  // namespace

Kernel specialised(Kernel kernel, std::span<const std::optional<int64_t>> values) {
  NG_CHECK(values.size() == kernel.scalars.size(), values.size(), " values for ", kernel.scalars.size(), " scalars");
  std::map<std::string, int64_t> known;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] && kernel.scalars[i].kind == ScalarKind::kInt) known.emplace(kernel.scalars[i].name, *values[i]);
  }
  const Substitute replace = [&](const Expr& e) {
    return npugraph::substitute(e, [&](const Expr& symbol) {
      const auto found = known.find(symbol.symbol_name());
      return found == known.end() ? symbol : Expr(found->second);
    });
  };
  rewrite_all(kernel.body, replace);
  for (Buffer& buffer : kernel.buffers) buffer.elements = replace(buffer.elements);
  const std::string violation = verify(kernel);
  NG_CHECK(violation.empty(), violation);
  simplify(kernel);
  return kernel;
}

}  // namespace npugraph::loop
