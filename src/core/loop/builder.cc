// SPDX-License-Identifier: Apache-2.0
#include "loop/builder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "loop/op.h"
#include "loop/text.h"

namespace npugraph::loop {
namespace {

// The scalar of the kind in which constants of `dtype` are written.
Scalar number_of(DType dtype, double number) {
  if (is_floating(dtype)) return Scalar::of_float(number);
  NG_CHECK(number == std::trunc(number) && std::abs(number) <= 0x1p53, number, " as a ", name_of(dtype));
  if (dtype == DType::kBool) return Scalar::of_bool(number != 0);
  return Scalar::of_int(static_cast<int64_t>(number));
}

Value like(Value value, double number) {
  NG_CHECK(value.builder != nullptr, "a value that nothing defined");
  return value.builder->constant(value.dtype(), number);
}

}  // namespace

DType Value::dtype() const {
  NG_CHECK(builder != nullptr, "a value that nothing defined");
  return builder->dtype(id);
}

Builder::Builder(std::string name) { kernel_.name = std::move(name); }

BufferId Builder::add_buffer(std::string name, DType dtype, Buffer::Kind kind, Expr elements) {
  kernel_.buffers.push_back({std::move(name), dtype, kind, std::move(elements)});
  return static_cast<BufferId>(kernel_.buffers.size() - 1);
}

Expr Builder::scalar(std::string name, ScalarKind kind) {
  kernel_.scalars.push_back({name, kind});
  return Expr::symbol(std::move(name), kind);
}

Value Builder::read(const Expr& scalar) {
  Let let;
  let.op = Op::kScalar;
  let.index = scalar;
  return add_let(std::move(let), DType::kF64);
}

Value Builder::constant(DType dtype, double number) { return constant(dtype, number_of(dtype, number)); }

Value Builder::constant(DType dtype, Scalar number) {
  Let let;
  let.number = number;
  return add_let(std::move(let), dtype);
}

Value Builder::index(Expr e) {
  Let let;
  let.op = Op::kIndex;
  let.index = std::move(e);
  return add_let(std::move(let), DType::kI64);
}

Value Builder::load(BufferId buffer, Expr index) { return load(buffer, std::move(index), {}, {}); }

Value Builder::load(BufferId buffer, Expr index, Value mask, Value otherwise) {
  const DType dtype = dtype_of(buffer);
  NG_CHECK(mask.id == kNone || mask.dtype() == DType::kBool, "a mask of ", name_of(mask.dtype()));
  NG_CHECK((mask.id == kNone) == (otherwise.id == kNone), "a masked load takes a mask and what masked elements give");
  NG_CHECK(mask.id == kNone || otherwise.dtype() == dtype, "a load of ", name_of(dtype), " gives ",
           name_of(otherwise.dtype()), " where masked");
  const Value result = new_value(dtype);
  block().push_back({Load{result.id, static_cast<int32_t>(buffer), std::move(index), mask.id, otherwise.id}});
  return result;
}

void Builder::store(BufferId buffer, Expr index, Value value, Value mask, bool streaming) {
  const DType dtype = dtype_of(buffer);
  NG_CHECK(value.dtype() == dtype, "a store of ", name_of(value.dtype()), " to a buffer of ", name_of(dtype));
  NG_CHECK(mask.id == kNone || mask.dtype() == DType::kBool, "a mask of ", name_of(mask.dtype()));
  block().push_back({Store{static_cast<int32_t>(buffer), std::move(index), value.id, mask.id, streaming}});
}

void Builder::check(Value condition, std::string message, Value shown) {
  block().push_back({Check{condition.id, shown.id, std::move(message)}});
}

Value Builder::apply(Op op, std::initializer_list<Value> args) {
  Let let;
  let.op = op;
  std::vector<DType> dtypes;
  for (const Value arg : args) {
    NG_CHECK(arg.builder == this, "a value of another kernel, or none, as an argument of ", info_of(op).name);
    let.args.push_back(arg.id);
    dtypes.push_back(arg.dtype());
  }
  const std::optional<DType> result = result_type(op, dtypes);
  NG_CHECK(result, "the result of ", info_of(op).name, " does not follow from its arguments");
  const std::string error = type_error(op, dtypes, *result);
  NG_CHECK(error.empty(), error);
  return add_let(std::move(let), *result);
}

Value Builder::convert(Op op, Value value, DType dtype) {
  const DType from = value.dtype();
  const std::string error = type_error(op, {&from, 1}, dtype);
  NG_CHECK(error.empty(), error);
  Let let;
  let.op = op;
  let.args = {value.id};
  return add_let(std::move(let), dtype);
}

Expr Builder::begin_for(For::Kind kind, Expr extent, Expr grain) {
  For loop;
  do {
    loop.var = cat("i", next_variable_++);
  } while (has_name(loop.var));
  loop.kind = kind;
  loop.extent = std::move(extent);
  loop.grain = std::move(grain);
  open_.push_back(std::move(loop));
  return Expr::symbol(open_.back().var);
}

void Builder::end_for() {
  For loop = std::move(innermost("end_for"));
  open_.pop_back();
  block().push_back({std::move(loop)});
}

Value Builder::reduce(Combine combine, Value value) {
  const std::string error = type_error(combine, value.dtype());
  NG_CHECK(error.empty(), error);
  For& loop = innermost("a reduction");
  const Value result = new_value(value.dtype());
  loop.reductions.push_back({combine, value.id, result.id, kNone});
  return result;
}

Builder::Extreme Builder::reduce_with_index(Combine combine, Value value) {
  const Value result = reduce(combine, value);
  const Value index = new_value(DType::kI64);
  open_.back().reductions.back().index_result = index.id;
  return {result, index};
}

Value Builder::scan(Combine combine, Value value) {
  const std::string error = type_error(combine, value.dtype());
  NG_CHECK(error.empty(), error);
  For& loop = innermost("a scan");
  const Value result = new_value(value.dtype());
  loop.scans.push_back({combine, value.id, result.id});
  return result;
}

Kernel Builder::finish() {
  NG_CHECK(open_.empty(), "the loop ", open_.back().var, " is still open");
  const std::string violation = verify(kernel_);
  NG_CHECK(violation.empty(), violation, " in\n", print(kernel_));
  return std::move(kernel_);
}

Value Builder::new_value(DType dtype) {
  kernel_.dtypes.push_back(dtype);
  return {this, static_cast<ValueId>(kernel_.dtypes.size() - 1)};
}

Value Builder::add_let(Let let, DType dtype) {
  const Value result = new_value(dtype);
  let.id = result.id;
  block().push_back({std::move(let)});
  return result;
}

DType Builder::dtype_of(BufferId buffer) const { return kernel_.buffers.at(static_cast<size_t>(buffer)).dtype; }

std::vector<Stmt>& Builder::block() { return open_.empty() ? kernel_.body : open_.back().body; }

For& Builder::innermost(const char* what) {
  NG_CHECK(!open_.empty(), what, " outside of a loop");
  return open_.back();
}

bool Builder::has_name(const std::string& name) const {
  return std::any_of(kernel_.scalars.begin(), kernel_.scalars.end(),
                     [&](const ScalarArg& scalar) { return scalar.name == name; });
}

Expr as_index(Value value) {
  NG_CHECK(is_integer(value.dtype()), "a value of ", name_of(value.dtype()), " as an index");
  return Expr::symbol(index_name(value.id));
}

Value unary(Op op, Value value) {
  NG_CHECK(value.builder != nullptr, "a value that nothing defined");
  return value.builder->apply(op, {value});
}

Value binary(Op op, Value a, Value b) {
  NG_CHECK(a.builder != nullptr, "a value that nothing defined");
  return a.builder->apply(op, {a, b});
}

Value operator+(Value a, Value b) { return binary(Op::kAdd, a, b); }
Value operator-(Value a, Value b) { return binary(Op::kSub, a, b); }
Value operator*(Value a, Value b) { return binary(Op::kMul, a, b); }
Value operator/(Value a, Value b) { return binary(Op::kDiv, a, b); }
Value operator-(Value a) { return unary(Op::kNeg, a); }
Value operator+(Value a, double b) { return a + like(a, b); }
Value operator+(double a, Value b) { return like(b, a) + b; }
Value operator-(Value a, double b) { return a - like(a, b); }
Value operator-(double a, Value b) { return like(b, a) - b; }
Value operator*(Value a, double b) { return a * like(a, b); }
Value operator*(double a, Value b) { return like(b, a) * b; }
Value operator/(Value a, double b) { return a / like(a, b); }
Value operator/(double a, Value b) { return like(b, a) / b; }
Value operator&(Value a, Value b) { return binary(Op::kBitAnd, a, b); }
Value operator|(Value a, Value b) { return binary(Op::kBitOr, a, b); }
Value operator^(Value a, Value b) { return binary(Op::kBitXor, a, b); }
Value operator~(Value a) { return unary(Op::kBitNot, a); }
Value operator<<(Value a, Value b) { return binary(Op::kShiftLeft, a, b); }
Value operator>>(Value a, Value b) { return binary(Op::kShiftRight, a, b); }
Value operator==(Value a, Value b) { return binary(Op::kEq, a, b); }
Value operator!=(Value a, Value b) { return binary(Op::kNe, a, b); }
Value operator<(Value a, Value b) { return binary(Op::kLt, a, b); }
Value operator<=(Value a, Value b) { return binary(Op::kLe, a, b); }
Value operator>(Value a, Value b) { return binary(Op::kGt, a, b); }
Value operator>=(Value a, Value b) { return binary(Op::kGe, a, b); }
Value operator==(Value a, double b) { return a == like(a, b); }
Value operator!=(Value a, double b) { return a != like(a, b); }
Value operator<(Value a, double b) { return a < like(a, b); }
Value operator<=(Value a, double b) { return a <= like(a, b); }
Value operator>(Value a, double b) { return a > like(a, b); }
Value operator>=(Value a, double b) { return a >= like(a, b); }

Value min(Value a, Value b) { return binary(Op::kMin, a, b); }
Value max(Value a, Value b) { return binary(Op::kMax, a, b); }

Value fma(Value a, Value b, Value c) {
  NG_CHECK(a.builder != nullptr, "a value that nothing defined");
  return a.builder->apply(Op::kFma, {a, b, c});
}

Value select(Value condition, Value a, Value b) {
  NG_CHECK(condition.builder != nullptr, "a value that nothing defined");
  return condition.builder->apply(Op::kSelect, {condition, a, b});
}

Value cast(Value value, DType dtype) { return value.dtype() == dtype ? value : value.builder->cast_to(value, dtype); }

Value bitcast(Value value, DType dtype) { return value.builder->bitcast_to(value, dtype); }

}  // namespace npugraph::loop
