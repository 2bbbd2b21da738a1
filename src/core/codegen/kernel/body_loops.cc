// SPDX-License-Identifier: Apache-2.0
// Loops, and the reductions and scans that they carry.
#include <algorithm>

#include "base/error.h"
#include "codegen/emit/combine.h"
#include "codegen/kernel/body.h"
#include "loop/op.h"

namespace npugraph::codegen {

using llvm::Value;
using loop::For;
using loop::Let;
using loop::Load;
using loop::Reduction;
using loop::Scan;
using loop::Stmt;
using loop::Store;
using loop::ValueId;

namespace {

// An addition of floats takes several cycles, so sums go to several accumulators in turn.
constexpr int kFloatAccumulators = 4;

// A vector loop around a small loop with reductions or scans works on neighbouring elements in this many registers, so
// that all of each line of memory that the inner loop reaches is read at once. Its body has at most kColumnStatements
// statements.
constexpr int kColumnRegisters = 4;
constexpr int kColumnStatements = 8;

// The contents of the body of a vector loop.
struct BodySummary {
  int statements = 0;
  int combined = 0;             // reductions and scans of loops inside
  int64_t largest_element = 1;  // bytes
  bool has_loops = false;
  const Store* streaming = nullptr;
};

void summarise(const loop::Kernel& kernel, const std::vector<Stmt>& statements, BodySummary& out) {
  const auto see = [&](ValueId id) {
    ++out.statements;
    out.largest_element = std::max(out.largest_element, size_of(kernel.dtypes[static_cast<size_t>(id)]));
  };
  for (const Stmt& stmt : statements) {
    if (const auto* let = std::get_if<Let>(&stmt.node); let && let->op != loop::Op::kConstant) see(let->id);
    if (const auto* load = std::get_if<Load>(&stmt.node)) see(load->id);
    if (const auto* store = std::get_if<Store>(&stmt.node)) {
      see(store->value);
      if (store->streaming && store->mask == loop::kNone && !out.streaming) out.streaming = store;
    }
    if (const auto* loop = std::get_if<For>(&stmt.node)) {
      out.has_loops = true;
      out.combined += static_cast<int>(loop->reductions.size() + loop->scans.size());
      summarise(kernel, loop->body, out);
    }
  }
}

// Whether `e` is a multiple of n whatever its symbols are.
bool is_multiple(const Expr& e, int64_t n) {
  if (const std::optional<int64_t> value = e.as_int()) return *value % n == 0;
  const std::span<const Expr> args = e.args();
  const auto multiple = [n](const Expr& arg) { return is_multiple(arg, n); };
  if (e.op() == ExprOp::kAdd) return std::all_of(args.begin(), args.end(), multiple);
  return e.op() == ExprOp::kMul && std::any_of(args.begin(), args.end(), multiple);
}

// Whether successive iterations of `variable` store to successive elements, at places that are known before the loop.
bool is_contiguous(const Store& store, const std::string& variable) {
  std::vector<std::string> symbols;
  collect_symbols(store.index, symbols);
  const auto is_value = [](const std::string& name) { return loop::index_value(name) != loop::kNone; };
  if (std::any_of(symbols.begin(), symbols.end(), is_value)) return false;
  const auto next = [&](const Expr& s) { return s.symbol_name() == variable ? s + 1 : s; };
  return (substitute(store.index, next) - store.index).is_int(1);
}

bool has_index(const Reduction& reduction) { return reduction.index_result != loop::kNone; }

// The number of accumulators of each reduction without an index. Additions of integers take one cycle and need only
// one.
int accumulators_for(const loop::Kernel& kernel, const For& loop) {
  const bool floats = std::any_of(loop.reductions.begin(), loop.reductions.end(), [&](const Reduction& reduction) {
    return is_floating(kernel.dtypes[static_cast<size_t>(reduction.value)]);
  });
  const std::optional<int64_t> extent = loop.extent.as_int();
  return floats && !(extent && *extent < 2 * kFloatAccumulators) ? kFloatAccumulators : 1;
}

}  // namespace

BodyEmitter::Carried BodyEmitter::start_carried(const For& loop, int accumulators, int lanes) {
  Carried out = {&loop, accumulators, {}};
  for (const Reduction& reduction : loop.reductions) {
    Value* start = splat(b_, identity_of(b_, reduction.combine, dtype(reduction.value)), lanes);
    if (has_index(reduction)) {
      out.values.push_back(start);
      out.values.push_back(splat(b_, b_.getInt64(0), lanes));
      continue;
    }
    out.values.insert(out.values.end(), static_cast<size_t>(accumulators), start);
  }
  // In a vector loop a scan continues from the last lane.
  const int scan_lanes = loop.kind == For::Kind::kVector ? 0 : lanes;
  for (const Scan& scan : loop.scans)
    out.values.push_back(splat(b_, identity_of(b_, scan.combine, dtype(scan.value)), scan_lanes));
  return out;
}

// Combines the values of the iteration whose body was just emitted into the reductions.
void BodyEmitter::accumulate(Carried& carried, int slot, Value* iteration) {
  const bool across = carried.loop->kind == For::Kind::kVector;
  Value* mask = across ? mask_ : nullptr;
  size_t at = 0;
  for (const Reduction& reduction : carried.loop->reductions) {
    const DType type = dtype(reduction.value);
    Value* next = argument(reduction.value, lanes_ > 0);
    if (has_index(reduction)) {
      const Extreme before = {carried.values[at], carried.values[at + 1]};
      Value* index = splat(b_, iteration, lanes_);
      if (across) index = b_.CreateAdd(index, lane_numbers(b_, lanes_));
      Extreme after = with_later(b_, reduction.combine, type, before, {next, index});
      if (mask != nullptr)
        after = {b_.CreateSelect(mask, after.value, before.value), b_.CreateSelect(mask, after.index, before.index)};
      carried.values[at] = after.value;
      carried.values[at + 1] = after.index;
      at += 2;
      continue;
    }
    Value*& sum = carried.values[at + static_cast<size_t>(slot)];
    Value* combined = emit_combine(b_, reduction.combine, type, sum, next);
    sum = mask == nullptr ? combined : b_.CreateSelect(mask, combined, sum);
    at += static_cast<size_t>(carried.accumulators);
  }
}

void BodyEmitter::rotate(Carried& carried, int by) const {
  auto at = carried.values.begin();
  for (const Reduction& reduction : carried.loop->reductions) {
    const int count = has_index(reduction) ? 2 : carried.accumulators;
    if (!has_index(reduction)) std::rotate(at, at + by % count, at + count);
    at += count;
  }
}

void BodyEmitter::finish_carried(const Carried& carried, bool across_lanes) {
  size_t at = 0;
  for (const Reduction& reduction : carried.loop->reductions) {
    const DType type = dtype(reduction.value);
    if (has_index(reduction)) {
      Extreme extreme = {carried.values[at], carried.values[at + 1]};
      if (across_lanes) extreme = combine_lanes(b_, reduction.combine, type, extreme);
      define(reduction.result, extreme.value);
      define(reduction.index_result, extreme.index);
      at += 2;
      continue;
    }
    const auto count = static_cast<size_t>(carried.accumulators);
    Values parts(carried.values.begin() + static_cast<ptrdiff_t>(at),
                 carried.values.begin() + static_cast<ptrdiff_t>(at + count));
    for (; parts.size() > 1; parts.resize(parts.size() / 2))
      for (size_t i = 0; i < parts.size() / 2; ++i)
        parts[i] = emit_combine(b_, reduction.combine, type, parts[i], parts[parts.size() / 2 + i]);
    define(reduction.result, across_lanes ? combine_lanes(b_, reduction.combine, type, parts[0]) : parts[0]);
    at += count;
  }
}

void BodyEmitter::emit_scans(ValueId value) {
  const std::vector<Scan>& scans = scanning_->loop->scans;
  for (size_t i = 0; i < scans.size(); ++i) {
    if (scans[i].value != value) continue;
    const DType type = dtype(value);
    const loop::Combine combine = scans[i].combine;
    Value*& last = scanning_->values[scanning_->values.size() - scans.size() + i];
    Value* next = argument(value, lanes_ > 0);
    if (scanning_->loop->kind == For::Kind::kVector) {
      if (mask_ != nullptr) next = b_.CreateSelect(mask_, next, splat(b_, identity_of(b_, combine, type), lanes_));
      next = emit_combine(b_, combine, type, splat(b_, last, lanes_), prefix_lanes(b_, combine, type, next));
      last = b_.CreateExtractElement(next, static_cast<uint64_t>(lanes_ - 1));
    } else {
      last = next = emit_combine(b_, combine, type, last, next);
    }
    define(scans[i].result, next);
  }
}

void BodyEmitter::emit_iterations(const For& loop, Value* begin, Value* end) {
  // Values of several registers keep several additions in flight already.
  const bool is_wide = lanes_ * 4 > target_.vector_bytes();
  Carried start = start_carried(loop, is_wide ? 1 : accumulators_for(kernel_, loop), lanes_);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  Carried* const outer = scanning_;
  const auto body = [&](Value* i, const Values& values) {
    Carried carried = {&loop, start.accumulators, values};
    scanning_ = &carried;
    index_.open_scope(before->getTerminator());
    index_.bind(loop.var, i);
    if (loop.kind == For::Kind::kParallel && hooks_.iteration) hooks_.iteration(i);
    emit(loop.body);
    accumulate(carried, 0, i);
    rotate(carried, 1);
    index_.close_scope();
    return carried.values;
  };
  start.values = emit_loop(b_, begin, end, 1, start.values, body);
  scanning_ = outer;
  finish_carried(start, false);
}

void BodyEmitter::emit_unrolled(const For& loop) {
  const std::optional<int64_t> extent = loop.extent.as_int();
  NG_CHECK(extent, "the unrolled loop ", loop.var, " of ", kernel_.name, " has no constant extent");
  Carried carried = start_carried(loop, accumulators_for(kernel_, loop), lanes_);
  Carried* const outer = scanning_;
  for (int64_t i = 0; i < *extent; ++i) {
    Value* iteration = b_.getInt64(static_cast<uint64_t>(i));
    scanning_ = &carried;
    index_.open_scope(nullptr);
    index_.bind(loop.var, iteration);
    emit(loop.body);
    accumulate(carried, 0, iteration);
    rotate(carried, 1);
    index_.close_scope();
  }
  scanning_ = outer;
  finish_carried(carried, false);
}

int BodyEmitter::lanes_for(const For& loop) const {
  BodySummary body;
  summarise(kernel_, loop.body, body);
  // Elements of 8 bytes fill two registers, rather than halve the number of lanes of all others.
  return static_cast<int>(target_.vector_bytes() / std::min<int64_t>(body.largest_element, 4));
}

BodyEmitter::VectorPlan BodyEmitter::plan_vector(const For& loop) const {
  BodySummary body;
  summarise(kernel_, loop.body, body);
  VectorPlan plan = {lanes_for(loop), 1, nullptr, false, false};
  const bool is_column = body.has_loops && loop.reductions.empty() && loop.scans.empty();
  if (is_column && body.combined > 0 && body.combined <= 2 && body.statements <= kColumnStatements) {
    plan.lanes *= kColumnRegisters;
    if (const auto extent = loop.extent.as_int())
      while (plan.lanes > lanes_for(loop) && *extent <= plan.lanes / 2) plan.lanes /= 2;
  }
  if (loop.scans.empty() && !body.has_loops) {
    const VectorBody vector = {body.statements, plan.lanes, loop.extent.as_int()};
    const std::vector<int> candidates = copy_candidates(vector);
    const bool is_wanted = std::find(candidates.begin(), candidates.end(), copies_.value_or(0)) != candidates.end();
    plan.copies = is_wanted ? *copies_ : choose_copies(vector, target_);
  }
  // The address of the streaming store decides where the main loop begins. The order of sums must not depend on that.
  const bool carries = !loop.reductions.empty() || !loop.scans.empty();
  if (body.streaming && !carries && !body.has_loops && is_contiguous(*body.streaming, loop.var)) {
    plan.streaming = body.streaming;
    // Stores that bypass the caches write whole registers.
    const int full = target_.lanes(kernel_.buffers[static_cast<size_t>(body.streaming->buffer)].dtype);
    while (plan.copies > 1 && plan.lanes < full) {
      plan.copies /= 2;
      plan.lanes *= 2;
    }
  }
  plan.whole_vectors = plan.streaming == nullptr && is_multiple(loop.extent, plan.lanes);
  plan.whole_copies = plan.streaming == nullptr && is_multiple(loop.extent, int64_t{plan.lanes} * plan.copies);
  return plan;
}

void BodyEmitter::emit_vector_body(const For& loop, int lanes, Value* first, Value* mask, int copy,
                                   llvm::Instruction* entry, Carried& carried) {
  NG_CHECK(lanes_ == 0, "the vector loop ", loop.var, " of ", kernel_.name, " is inside another one");
  Carried* const outer = scanning_;
  scanning_ = &carried;
  lanes_ = lanes;
  mask_ = mask;
  index_.open_scope(entry);
  index_.bind_lanes(loop.var, first, lanes);
  emit(loop.body);
  accumulate(carried, copy % std::max(carried.accumulators, 1), first);
  index_.close_scope();
  lanes_ = 0;
  mask_ = nullptr;
  scanning_ = outer;
}

void BodyEmitter::emit_lanes(const For& loop, Value* first, int lanes, Value* mask) {
  NG_CHECK(loop.reductions.empty() && loop.scans.empty(), "the loop ", loop.var, " carries values");
  Carried nothing = {&loop, 1, {}};
  index_.open_barrier();
  emit_vector_body(loop, lanes, first, mask, 0, nullptr, nothing);
  index_.close_scope();
}

// Emits vectors of which some lanes may not run.
void BodyEmitter::emit_masked(const For& loop, const VectorPlan& plan, Value* begin, Value* end, Carried& carried) {
  llvm::BasicBlock* before = b_.GetInsertBlock();
  carried.values = emit_loop(b_, begin, end, plan.lanes, carried.values, [&](Value* i, const Values& values) {
    Carried next = {&loop, carried.accumulators, values};
    Value* mask = plan.whole_vectors ? nullptr : first_lanes(b_, b_.CreateSub(end, i), plan.lanes);
    emit_vector_body(loop, plan.lanes, i, mask, 0, before->getTerminator(), next);
    return next.values;
  });
}

// Number of iterations before the first one that stores to an address aligned to a whole vector.
Value* BodyEmitter::elements_before_alignment(const For& loop, const VectorPlan& plan, Value* extent) {
  const Store& store = *plan.streaming;
  const auto size = static_cast<uint64_t>(size_of(kernel_.buffers[static_cast<size_t>(store.buffer)].dtype));
  // The address of the element that iteration 0 stores to.
  const Expr first = substitute(store.index, [&](const Expr& s) { return s.symbol_name() == loop.var ? Expr(0) : s; });
  Value* base = b_.CreatePtrToInt(buffers_[static_cast<size_t>(store.buffer)].base, b_.getInt64Ty());
  Value* address = b_.CreateAdd(base, b_.CreateMul(index_.emit(first), b_.getInt64(size)));
  const uint64_t bytes = static_cast<uint64_t>(plan.lanes) * size;
  Value* missing = b_.CreateAnd(b_.CreateNeg(address), b_.getInt64(bytes - 1));
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateUDiv(missing, b_.getInt64(size)), extent);
}

// Emits the iterations before and behind the main part [begin, end) of a loop.
void BodyEmitter::emit_ends(const For& loop, const VectorPlan& plan, Value* begin, Value* end, Value* extent) {
  llvm::BasicBlock* before = b_.GetInsertBlock();
  emit_loop(b_, b_.getInt64(0), b_.getInt64(2), 1, [&](Value* part) {
    index_.open_scope(before->getTerminator());
    Value* is_first = b_.CreateIsNull(part);
    Carried nothing = {&loop, 1, {}};
    emit_masked(loop, plan, b_.CreateSelect(is_first, b_.getInt64(0), end), b_.CreateSelect(is_first, begin, extent),
                nothing);
    index_.close_scope();
  });
}

void BodyEmitter::emit_vector(const For& loop) {
  const VectorPlan plan = plan_vector(loop);
  const int64_t step = int64_t{plan.lanes} * plan.copies;
  Value* extent = index_.emit(loop.extent);
  Value* begin = b_.getInt64(0);
  if (plan.streaming != nullptr) begin = elements_before_alignment(loop, plan, extent);
  Value* count = b_.CreateSub(extent, begin);
  Value* whole = b_.CreateSub(extent, b_.CreateAnd(count, b_.getInt64(static_cast<uint64_t>(step - 1))));
  if (plan.whole_copies) whole = extent;

  Carried carried = start_carried(loop, std::max(accumulators_for(kernel_, loop), 1), plan.lanes);
  const std::optional<int64_t> constant = loop.extent.as_int();
  if (!constant || *constant >= step) {
    llvm::BasicBlock* before = b_.GetInsertBlock();
    carried.values = emit_loop(b_, begin, whole, step, carried.values, [&](Value* i, const Values& values) {
      Carried next = {&loop, carried.accumulators, values};
      aligned_ = plan.streaming;
      for (int copy = 0; copy < plan.copies; ++copy) {
        Value* first = b_.CreateAdd(i, b_.getInt64(static_cast<uint64_t>(copy) * static_cast<uint64_t>(plan.lanes)));
        emit_vector_body(loop, plan.lanes, first, nullptr, copy, before->getTerminator(), next);
      }
      aligned_ = nullptr;
      rotate(next, plan.copies);
      return next.values;
    });
  }
  if (plan.streaming != nullptr)
    emit_ends(loop, plan, begin, whole, extent);
  else if (!plan.whole_copies)
    emit_masked(loop, plan, whole, extent, carried);
  finish_carried(carried, true);
}

namespace {

constexpr int kMostCopies = 4;
constexpr double kLoop = 2;    // instructions of an iteration beside its body
constexpr double kMasked = 3;  // additional ones of a vector of which some lanes may not run
constexpr int64_t kUsualVectors = 64;

}  // namespace

std::vector<int> copy_candidates(const VectorBody& body) {
  std::vector<int> candidates = {1};
  for (int copies = 2; copies <= kMostCopies; copies *= 2) {
    if (!body.extent || *body.extent >= int64_t{body.lanes} * copies) candidates.push_back(copies);
  }
  return candidates;
}

double cost_of_copies(const VectorBody& body, int copies, const target::Target& target) {
  // Statements whose values do not fit in registers wait for each other.
  const double held = 0.625 * target.vector_registers;
  const double waiting = std::max(0.0, body.statements * copies - held) / 8;
  const double whole = body.statements + kLoop / copies + waiting;
  const int64_t extent = body.extent.value_or(kUsualVectors * body.lanes);
  const int64_t vectors = std::max<int64_t>((extent + body.lanes - 1) / body.lanes, 1);
  const int64_t step = int64_t{body.lanes} * copies;
  // The remaining iterations run under a mask, one vector at a time.
  const int64_t masked = (extent % step + body.lanes - 1) / body.lanes;
  const double left = static_cast<double>(masked) * (body.statements + kLoop + kMasked);
  return (static_cast<double>(vectors - masked) * whole + left) / static_cast<double>(vectors);
}

int choose_copies(const VectorBody& body, const target::Target& target) {
  const std::vector<int> candidates = copy_candidates(body);
  return *std::min_element(candidates.begin(), candidates.end(), [&](int a, int b) {
    return cost_of_copies(body, a, target) < cost_of_copies(body, b, target);
  });
}

}  // namespace npugraph::codegen
