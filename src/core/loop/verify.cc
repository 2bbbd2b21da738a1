// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "loop/op.h"
#include "loop/text.h"
#include "tensor/lexer.h"

namespace npugraph::loop {

namespace {

struct Violation {
  std::string message;
};

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Violation{cat(parts...)};
}

constexpr int64_t kMaxUnrolled = 1024;

bool is_reserved(std::string_view name) {
  return name == "true" || name == "false" || name == "inf" || name == "nan" || name == "none";
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Operators of index expressions: those on integers and booleans, except powers.
bool is_index_op(ExprOp op) {
  switch (op) {
    case ExprOp::kConst:
    case ExprOp::kSymbol:
    case ExprOp::kAdd:
    case ExprOp::kMul:
    case ExprOp::kFloorDiv:
    case ExprOp::kMod:
    case ExprOp::kCeilDiv:
    case ExprOp::kMin:
    case ExprOp::kMax:
    case ExprOp::kShiftLeft:
    case ExprOp::kShiftRight:
    case ExprOp::kBitAnd:
    case ExprOp::kBitOr:
    case ExprOp::kBitXor:
    case ExprOp::kNeg:
    case ExprOp::kAbs:
    case ExprOp::kToInt:
    case ExprOp::kEq:
    case ExprOp::kNe:
    case ExprOp::kLt:
    case ExprOp::kLe:
    case ExprOp::kAnd:
    case ExprOp::kOr:
    case ExprOp::kNot:
    case ExprOp::kWhere: return true;
    default: return false;
  }
}

bool fits(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::kU8: return value >= 0 && value <= UINT8_MAX;
    case DType::kI8: return value >= INT8_MIN && value <= INT8_MAX;
    case DType::kU16: return value >= 0 && value <= UINT16_MAX;
    case DType::kI16: return value >= INT16_MIN && value <= INT16_MAX;
    case DType::kU32: return value >= 0 && value <= UINT32_MAX;
    case DType::kI32: return value >= INT32_MIN && value <= INT32_MAX;
    default: return true;  // 64 bits; those of a u64 are written as an i64
  }
}

// Walks the kernel in order and keeps track of the visible values. No number is trusted before it has been checked.
class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel) {}

  void run() {
    if (kernel_.dtypes.size() > kMaxValues) fail("more than ", kMaxValues, " values");
    state_.assign(kernel_.dtypes.size(), State::kUndefined);
    for (const ScalarArg& scalar : kernel_.scalars) check_name(scalar.name, names_, "scalar");
    check_buffers();
    check_block(kernel_.body, nullptr);
  }

 private:
  enum class State : uint8_t { kUndefined, kVisible, kHidden };

  void check_name(const std::string& name, std::vector<std::string>& used, std::string_view what);
  void check_buffers();
  void check_block(const std::vector<Stmt>& block, const For* loop);
  void check_stmt(const Let& let);
  void check_stmt(const Load& load);
  void check_stmt(const Store& store);
  void check_stmt(const Check& check);
  void check_stmt(const For& loop);
  void check_constant(const Let& let, DType dtype);
  void check_place(const For& loop);
  void check_combined(std::string_view what, Combine combine, ValueId value, ValueId result);
  void check_index(const Expr& e, bool values_allowed);
  void check_part(const Expr& part, const Expr& whole, bool values_allowed);
  void check_symbol(const Expr& symbol, const Expr& whole, bool values_allowed);
  void check_mask(ValueId mask);
  void check_message(std::string_view text);

  const Buffer& buffer(int32_t index, std::string_view what);
  DType type(ValueId id) const { return kernel_.dtypes[id]; }
  DType use(ValueId id, std::string_view what);
  void define(ValueId id);
  const ScalarArg* find_scalar(std::string_view name) const;

  const Kernel& kernel_;
  std::vector<std::string> names_;  // of scalars and loop variables
  std::vector<State> state_;
  std::vector<ValueId> defined_;   // in order, to hide the values of a block at its end
  std::vector<const For*> loops_;  // the enclosing ones
};

void Verifier::check_name(const std::string& name, std::vector<std::string>& used, std::string_view what) {
  if (!is_identifier(name) || is_reserved(name)) fail("the ", what, " name ", quote(name), " is no identifier");
  if (index_value(name) != kNone) fail("the ", what, " name ", name, " is kept for a value");
  if (contains(used, name)) fail("the name ", name, " is used twice");
  used.push_back(name);
}

void Verifier::check_buffers() {
  std::vector<std::string> used;
  Buffer::Kind last = Buffer::Kind::kIn;
  for (const Buffer& buffer : kernel_.buffers) {
    if (!is_identifier(buffer.name)) fail("the buffer name ", quote(buffer.name), " is no identifier");
    if (contains(used, buffer.name)) fail("the buffer name ", buffer.name, " is used twice");
    used.push_back(buffer.name);
    if (!is_value_type(buffer.dtype)) fail("the buffer ", buffer.name, " has elements of ", name_of(buffer.dtype));
    if (is_scratch(last) && buffer.kind < last)
      fail("the buffer ", buffer.name, " is ", is_scratch(buffer.kind) ? "shared" : "an argument", " after a ",
           name_in(kBufferKindNames, last), " buffer");
    last = buffer.kind;
    const bool sized = is_scratch(buffer.kind);
    if (!sized && !buffer.elements.is_int(0)) fail("the buffer ", buffer.name, " has a size but is an argument");
    if (sized) check_index(buffer.elements, false);
  }
}

void Verifier::check_block(const std::vector<Stmt>& block, const For* loop) {
  const size_t outside = defined_.size();
  for (const Stmt& stmt : block) {
    const size_t before = defined_.size();
    std::visit([this](const auto& node) { check_stmt(node); }, stmt.node);
    if (loop == nullptr) continue;
    // A scan's result may be the value of another scan.
    for (size_t i = before; i < defined_.size(); ++i) {
      for (const Scan& scan : loop->scans) {
        if (scan.value != defined_[i]) continue;
        define(scan.result);
        check_combined("scan", scan.combine, scan.value, scan.result);
      }
    }
  }
  const auto check_source = [&](ValueId value, std::string_view what) {
    const auto first = defined_.begin() + static_cast<int64_t>(outside);
    if (std::find(first, defined_.end(), value) != defined_.end()) return;
    fail("the value %", value, " of a ", what, " is not defined in the body of loop ", loop->var);
  };
  if (loop != nullptr) {
    for (const Scan& scan : loop->scans) check_source(scan.value, "scan");
    for (const Reduction& reduction : loop->reductions) check_source(reduction.value, "reduction");
  }
  for (size_t i = outside; i < defined_.size(); ++i) state_[defined_[i]] = State::kHidden;
  defined_.resize(outside);
}

void Verifier::check_combined(std::string_view what, Combine combine, ValueId value, ValueId result) {
  if (const std::string error = type_error(combine, type(value)); !error.empty()) fail("a ", what, ": ", error);
  if (type(result) == type(value)) return;
  fail("a ", what, " of ", name_of(type(value)), " values gives ", name_of(type(result)));
}

void Verifier::check_stmt(const Let& let) {
  std::vector<DType> args;
  for (const ValueId arg : let.args) args.push_back(use(arg, "an argument"));
  define(let.id);
  const DType dtype = type(let.id);
  if (const std::string error = type_error(let.op, args, dtype); !error.empty()) fail("%", let.id, ": ", error);
  if (let.op == Op::kConstant) check_constant(let, dtype);
  if (let.op == Op::kIndex) {
    if (dtype != DType::kI64) fail("%", let.id, ": index gives i64, not ", name_of(dtype));
    check_index(let.index, true);
  }
  if (let.op != Op::kScalar) return;
  if (dtype != DType::kF64) fail("%", let.id, ": scalar gives f64, not ", name_of(dtype));
  if (let.index.op() != ExprOp::kSymbol) fail("%", let.id, ": scalar takes a symbol, got ", let.index.str());
  const ScalarArg* scalar = find_scalar(let.index.symbol_name());
  if (scalar == nullptr) fail("%", let.id, ": there is no scalar ", let.index.symbol_name());
  if (scalar->kind != let.index.kind()) fail("%", let.id, ": the scalar ", scalar->name, " is of another kind");
}

void Verifier::check_constant(const Let& let, DType dtype) {
  const ScalarKind kind = dtype == DType::kBool ? ScalarKind::kBool
                          : is_floating(dtype)  ? ScalarKind::kFloat
                                                : ScalarKind::kInt;
  if (let.number.kind != kind) {
    fail("%", let.id, ": a constant of ", name_of(dtype), " is written as ", name_in(kScalarKindNames, kind));
  }
  if (kind == ScalarKind::kInt && !fits(let.number.i, dtype)) {
    fail("%", let.id, ": ", let.number.i, " does not fit ", name_of(dtype));
  }
}

void Verifier::check_stmt(const Load& load) {
  const Buffer& from = buffer(load.buffer, "a load");
  check_index(load.index, true);
  check_mask(load.mask);
  if ((load.mask == kNone) != (load.otherwise == kNone)) {
    fail("the load %", load.id, " has a mask or a value for masked elements, but not both");
  }
  const bool masked = load.otherwise != kNone;
  if (masked && use(load.otherwise, "a value for masked elements") != from.dtype) {
    fail("the load %", load.id, " gives ", name_of(type(load.otherwise)), " where masked, and ", name_of(from.dtype));
  }
  define(load.id);
  if (type(load.id) == from.dtype) return;
  fail("the load %", load.id, " gives ", name_of(type(load.id)), ", but ", from.name, " holds ", name_of(from.dtype));
}

void Verifier::check_stmt(const Store& store) {
  const Buffer& to = buffer(store.buffer, "a store");
  if (to.kind == Buffer::Kind::kIn) fail("a store to ", to.name, ", which is only read");
  check_index(store.index, true);
  check_mask(store.mask);
  const DType dtype = use(store.value, "a stored value");
  if (dtype != to.dtype) fail("a store of ", name_of(dtype), " to ", to.name, ", which holds ", name_of(to.dtype));
}

void Verifier::check_mask(ValueId mask) {
  if (mask == kNone) return;
  const DType dtype = use(mask, "a mask");
  if (dtype != DType::kBool) fail("the mask %", mask, " is ", name_of(dtype), ", not bool");
}

void Verifier::check_stmt(const Check& check) {
  const DType dtype = use(check.condition, "a condition");
  if (dtype != DType::kBool) fail("the condition %", check.condition, " of a check is ", name_of(dtype), ", not bool");
  if (check.message.empty()) fail("a check has no message");
  const auto places = std::count(check.message.begin(), check.message.end(), '%');
  if (places > 1) fail("a check's message has more than one '%': ", check.message);
  if ((places == 1) != (check.shown != kNone)) {
    fail("a check shows a value where its message has a '%', and only then: ", check.message);
  }
  for (const std::string_view text : expressions_in(check.message)) check_message(text);
  if (check.shown == kNone) return;
  if (!is_integer(use(check.shown, "a shown value"))) fail("the value %", check.shown, " of a check is no integer");
}

// An expression in the message of a check.
void Verifier::check_message(std::string_view text) {
  const auto kind_of = [this](std::string_view name) {
    const ScalarArg* scalar = find_scalar(name);
    return scalar == nullptr ? ScalarKind::kInt : scalar->kind;
  };
  Expr e;
  try {
    e = parse_expr(text, kind_of);
  } catch (const UserError& error) {
    fail("the message of a check has {", text, "}: ", error.what());
  }
  check_index(e, false);
  std::vector<std::string> symbols;
  collect_symbols(e, symbols);
  for (const std::string& symbol : symbols) {
    if (find_scalar(symbol) == nullptr)
      fail("the message of a check has {", text, "}, where ", symbol, " is no scalar");
  }
}

void Verifier::check_stmt(const For& loop) {
  check_index(loop.extent, false);
  const auto extent = loop.extent.as_int();
  if (extent && *extent < 0) fail("the loop ", loop.var, " has the extent ", *extent);
  if (loop.kind == For::Kind::kUnrolled && !(extent && *extent <= kMaxUnrolled)) {
    fail("the unrolled loop ", loop.var, " has the extent ", loop.extent.str(), "; a number up to ", kMaxUnrolled,
         " is needed");
  }
  check_index(loop.grain, false);
  if (loop.kind != For::Kind::kParallel && !loop.grain.is_int(1))
    fail("the loop ", loop.var, " has a grain but is not parallel");
  if (loop.grain.as_int() && *loop.grain.as_int() < 1) fail("the loop ", loop.var, " has the grain ", loop.grain.str());
  check_place(loop);
  check_name(loop.var, names_, "loop variable");
  loops_.push_back(&loop);
  check_block(loop.body, &loop);
  loops_.pop_back();
  for (const Reduction& reduction : loop.reductions) {
    define(reduction.result);
    check_combined("reduction", reduction.combine, reduction.value, reduction.result);
    if (reduction.index_result == kNone) continue;
    define(reduction.index_result);
    if (type(reduction.index_result) != DType::kI64)
      fail("the index %", reduction.index_result, " of a reduction is no i64");
    if (reduction.combine != Combine::kMin && reduction.combine != Combine::kMax) {
      fail("a reduction with an index is ", name_in(kCombineNames, reduction.combine), ", not min or max");
    }
  }
}

void Verifier::check_place(const For& loop) {
  if (loops_.size() >= kMaxLoopDepth) fail("loops nest deeper than ", kMaxLoopDepth, " levels");
  const bool has_results = !loop.reductions.empty() || !loop.scans.empty();
  if (loop.kind == For::Kind::kParallel && !loops_.empty())
    fail("the parallel loop ", loop.var, " is inside another loop");
  if (loop.kind == For::Kind::kParallel && has_results)
    fail("the parallel loop ", loop.var, " has a reduction or a scan");
  if (loop.kind == For::Kind::kUnrolled && !loop.scans.empty()) fail("the unrolled loop ", loop.var, " has a scan");
  for (const For* outer : loops_) {
    if (outer->kind != For::Kind::kVector) continue;
    if (loop.kind == For::Kind::kVector) fail("the vector loop ", loop.var, " is inside the vector loop ", outer->var);
    std::vector<std::string> symbols;
    collect_symbols(loop.extent, symbols);
    if (contains(symbols, outer->var)) {
      fail("the extent of loop ", loop.var, " depends on the variable of the vector loop ", outer->var);
    }
  }
}

void Verifier::check_index(const Expr& e, bool values_allowed) {
  if (e.kind() != ScalarKind::kInt) fail("the expression ", e.str(), " is no integer");
  check_part(e, e, values_allowed);
}

void Verifier::check_part(const Expr& part, const Expr& whole, bool values_allowed) {
  if (part.kind() == ScalarKind::kFloat) fail("the expression ", whole.str(), " computes with floats");
  if (!is_index_op(part.op())) fail("the expression ", whole.str(), " has an operator that indices do not have");
  if (part.op() == ExprOp::kSymbol) check_symbol(part, whole, values_allowed);
  for (const Expr& arg : part.args()) check_part(arg, whole, values_allowed);
}

void Verifier::check_symbol(const Expr& symbol, const Expr& whole, bool values_allowed) {
  const std::string& name = symbol.symbol_name();
  const auto is_loop = [&](const For* loop) { return loop->var == name; };
  if (std::any_of(loops_.begin(), loops_.end(), is_loop) && symbol.kind() == ScalarKind::kInt) return;
  if (const ScalarArg* scalar = find_scalar(name); scalar != nullptr) {
    if (scalar->kind == symbol.kind()) return;
    fail("the symbol ", name, " in ", whole.str(), " is of another kind than the scalar");
  }
  const ValueId id = index_value(name);
  if (id == kNone) fail("the symbol ", name, " in ", whole.str(), " is not visible");
  if (!values_allowed)
    fail("the value ", name, " in ", whole.str(), ": a size depends on scalars and loop variables alone");
  if (!is_integer(use(id, "an index"))) fail("the value ", name, " in ", whole.str(), " is no integer");
}

const Buffer& Verifier::buffer(int32_t index, std::string_view what) {
  if (index >= 0 && static_cast<size_t>(index) < kernel_.buffers.size()) return kernel_.buffers[index];
  fail(what, " names the buffer ", index, " of ", kernel_.buffers.size());
}

DType Verifier::use(ValueId id, std::string_view what) {
  if (id < 0 || static_cast<size_t>(id) >= state_.size()) fail(what, " is %", id, " of ", state_.size(), " values");
  if (state_[id] != State::kVisible) fail(what, ", %", id, ", is not visible where it is used");
  return type(id);
}

void Verifier::define(ValueId id) {
  if (id < 0 || static_cast<size_t>(id) >= state_.size())
    fail("a definition of %", id, " of ", state_.size(), " values");
  if (state_[id] != State::kUndefined) fail("the value %", id, " is defined twice");
  if (!is_value_type(type(id))) fail("the value %", id, " is ", name_of(type(id)));
  state_[id] = State::kVisible;
  defined_.push_back(id);
}

const ScalarArg* Verifier::find_scalar(std::string_view name) const {
  const auto found = std::find_if(kernel_.scalars.begin(), kernel_.scalars.end(),
                                  [&](const ScalarArg& scalar) { return scalar.name == name; });
  return found == kernel_.scalars.end() ? nullptr : &*found;
}

}  // namespace

bool is_index(const Expr& expr) {
  return expr.kind() != ScalarKind::kFloat && is_index_op(expr.op()) && std::ranges::all_of(expr.args(), is_index);
}

std::string verify(const Kernel& kernel) {
  try {
    Verifier(kernel).run();
  } catch (const Violation& violation) {
    return violation.message;
  }
  return "";
}

namespace {

void replace_first(std::string& text, const std::string& part, int64_t by) {
  const size_t at = text.find(part);
  if (at != std::string::npos) text.replace(at, part.size(), std::to_string(by));
}

}  // namespace

std::vector<std::string_view> expressions_in(std::string_view message) {
  std::vector<std::string_view> found;
  size_t begin = message.find('{');
  while (begin != std::string_view::npos) {
    const size_t end = message.find('}', begin);
    if (end == std::string_view::npos) break;
    found.push_back(message.substr(begin + 1, end - begin - 1));
    begin = message.find('{', end);
  }
  return found;
}

std::string fill_in(const std::string& message, int64_t shown,
                    const std::function<Scalar(const std::string&)>& scalar) {
  std::string filled = message;
  replace_first(filled, "%", shown);
  for (const std::string_view text : expressions_in(message)) {
    const Expr e = parse_expr(text, [&](std::string_view name) { return scalar(std::string(name)).kind; });
    replace_first(filled, "{" + std::string(text) + "}", evaluate(e, scalar).as_int());
  }
  return filled;
}

}  // namespace npugraph::loop
