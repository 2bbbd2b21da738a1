// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernel/body.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/emit/casts.h"
#include "codegen/emit/loops.h"
#include "codegen/emit/operators.h"
#include "loop/op.h"

namespace npugraph::codegen {

using llvm::Value;
using loop::Check;
using loop::For;
using loop::Let;
using loop::Load;
using loop::Op;
using loop::Stmt;
using loop::Store;
using loop::ValueId;

namespace {

void collect_symbols(const std::vector<Stmt>& statements, std::vector<std::string>& out) {
  for (const Stmt& stmt : statements) {
    if (const auto* let = std::get_if<Let>(&stmt.node)) npugraph::collect_symbols(let->index, out);
    if (const auto* load = std::get_if<Load>(&stmt.node)) npugraph::collect_symbols(load->index, out);
    if (const auto* store = std::get_if<Store>(&stmt.node)) npugraph::collect_symbols(store->index, out);
    if (const auto* loop = std::get_if<For>(&stmt.node)) collect_symbols(loop->body, out);
  }
}

}  // namespace

BodyEmitter::BodyEmitter(Ir& b, const loop::Kernel& kernel, const target::Target& target, BodyHooks hooks,
                         std::optional<int> copies)
    : b_(b), kernel_(kernel), target_(target), hooks_(std::move(hooks)), copies_(copies), index_(b) {
  buffers_.resize(kernel.buffers.size());
  values_.resize(kernel.dtypes.size());
  std::vector<std::string> symbols;
  collect_symbols(kernel.body, symbols);
  indices_.insert(symbols.begin(), symbols.end());
}

void BodyEmitter::bind_symbol(const std::string& name, Value* value) {
  scalars_[name] = value;
  if (!value->getType()->isDoubleTy()) index_.bind(name, value);
}

void BodyEmitter::emit(const std::vector<Stmt>& statements) {
  for (const Stmt& stmt : statements) std::visit([this](const auto& node) { emit_statement(node); }, stmt.node);
}

void BodyEmitter::define(ValueId id, Value* value) {
  values_[static_cast<size_t>(id)] = {value, index_.depth()};
  if (loop::is_integer(dtype(id)) && indices_.contains(loop::index_name(id)))
    index_.bind(loop::index_name(id), emit_cast(b_, target_, value, dtype(id), DType::kI64));
  if (scanning_ != nullptr) emit_scans(id);
}

Value* BodyEmitter::argument(ValueId id, bool in_lanes) {
  const Known& known = values_[static_cast<size_t>(id)];
  NG_CHECK(known.value != nullptr, "the value %", id, " of ", kernel_.name, " has no code yet");
  return in_lanes ? index_.splat_outside(known.value, known.depth, lanes_) : known.value;
}

void BodyEmitter::emit_statement(const Let& let) {
  const DType type = dtype(let.id);
  if (let.op == Op::kConstant) return define(let.id, emit_constant(b_, target_, let.number, type));
  if (let.op == Op::kIndex) return define(let.id, index_.emit(let.index));
  if (let.op == Op::kScalar) {
    Value* scalar = scalars_.at(let.index.symbol_name());
    if (!scalar->getType()->isDoubleTy())
      scalar = scalar->getType()->isIntegerTy(1) ? b_.CreateUIToFP(scalar, b_.getDoubleTy())
                                                 : b_.CreateSIToFP(scalar, b_.getDoubleTy());
    return define(let.id, scalar);
  }
  const bool lanes =
      std::any_of(let.args.begin(), let.args.end(), [this](ValueId arg) { return is_vector(value(arg)); });
  // A division of 16 lanes takes 10 cycles on Intel and AMD processors.
  if (let.op == Op::kDiv && type == DType::kF32 && lanes && target_.masks && !is_vector(value(let.args[1])))
    return define(let.id, divide_by_scalar(b_, argument(let.args[0], true), argument(let.args[1], false)));
  llvm::SmallVector<Value*, 4> args;
  for (ValueId arg : let.args) args.push_back(argument(arg, lanes));
  const DType from = dtype(let.args.front());
  if (divides_integers(let.op, from)) emit_check(b_.CreateIsNotNull(args[1]), kZeroDivision, nullptr, from);
  define(let.id, emit_operator(b_, target_, let.op, args, from, type));
}

// The lanes in which an access happens, null for all. A uniform access happens when any lane runs, so that only its own
// mask counts.
Value* BodyEmitter::mask_of(ValueId mask, bool in_lanes) {
  Value* own = mask == loop::kNone ? nullptr : argument(mask, in_lanes);
  const bool by_lane = in_lanes || (own != nullptr && is_vector(own));
  return by_lane ? both(b_, mask_, own, lanes_) : own;
}

void BodyEmitter::emit_statement(const Load& load) {
  const BufferAccess& buffer = buffers_[static_cast<size_t>(load.buffer)];
  if (buffer.load) return define(load.id, buffer.load(load));
  Place place = index_.place(load.index);
  place.base = buffer.base;
  const bool in_lanes = place.kind != Place::Kind::kUniform;
  Value* mask = mask_of(load.mask, in_lanes);
  Value* otherwise = load.mask == loop::kNone ? nullptr : argument(load.otherwise, in_lanes);
  if (load.ahead && target_.fetch_streams && place.kind == Place::Kind::kUp && mask == nullptr)
    fetch_ahead(load, place);
  define(load.id, emit_load(b_, dtype(load.id), place, lanes_, mask, otherwise));
}

// Prefetches a page ahead, because processors by themselves do not prefetch beyond a page.
void BodyEmitter::fetch_ahead(const Load& load, const Place& place) {
  constexpr int64_t kPage = 4096, kLine = 64;
  const DType type = dtype(load.id);
  Value* from = b_.CreateGEP(memory_type(b_.getContext(), type), place.base, place.index);
  for (int64_t line = 0; line < lanes_ * size_of(type); line += kLine)
    emit_prefetch(b_, b_.CreateConstGEP1_64(b_.getInt8Ty(), from, static_cast<uint64_t>(kPage + line)));
}

void BodyEmitter::emit_statement(const Store& store) {
  const DType type = kernel_.buffers[static_cast<size_t>(store.buffer)].dtype;
  Place place = index_.place(store.index);
  place.base = buffers_[static_cast<size_t>(store.buffer)].base;
  NG_CHECK(place.base != nullptr, "a store to ", kernel_.buffers[static_cast<size_t>(store.buffer)].name,
           ", which is not in memory");
  const bool in_lanes = place.kind != Place::Kind::kUniform || is_vector(value(store.value));
  Value* mask = mask_of(store.mask, in_lanes);
  const bool streaming = &store == aligned_ && mask == nullptr;
  emit_store(b_, type, argument(store.value, in_lanes), place, lanes_, mask, streaming);
}

void BodyEmitter::emit_statement(const Check& check) {
  const bool shows = check.shown != loop::kNone;
  Value* condition = value(check.condition);
  const bool lanes = is_vector(condition) || (shows && is_vector(value(check.shown)));
  emit_check(argument(check.condition, lanes), check.message, shows ? argument(check.shown, lanes) : nullptr,
             shows ? dtype(check.shown) : DType::kI64);
}

void BodyEmitter::emit_check(Value* condition, const std::string& message, Value* shown, DType shown_type) {
  Value* failed = b_.CreateNot(condition);
  if (is_vector(failed)) failed = both(b_, mask_, failed, lanes_);
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* leave = llvm::BasicBlock::Create(b_.getContext(), "", function);
  auto* next = llvm::BasicBlock::Create(b_.getContext(), "", function);
  b_.CreateCondBr(any_lane(b_, failed), leave, next);
  b_.SetInsertPoint(leave);
  if (shown != nullptr) {
    if (is_vector(shown)) {
      Value* bits = b_.CreateBitCast(failed, b_.getIntNTy(static_cast<unsigned>(lanes_)));
      shown = b_.CreateExtractElement(shown, b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, b_.getTrue()));
    }
    shown = emit_cast(b_, target_, shown, shown_type, DType::kI64);
  }
  hooks_.fail(message, shown);
  b_.SetInsertPoint(next);
}

void BodyEmitter::emit_statement(const For& loop) {
  switch (loop.kind) {
    case For::Kind::kVector: return emit_vector(loop);
    case For::Kind::kUnrolled: return emit_unrolled(loop);
    case For::Kind::kParallel:
      if (hooks_.parallel) return hooks_.parallel(loop);
      [[fallthrough]];
    case For::Kind::kSerial: return emit_iterations(loop, b_.getInt64(0), index_.emit(loop.extent));
  }
}

}  // namespace npugraph::codegen
