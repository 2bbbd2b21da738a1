// SPDX-License-Identifier: Apache-2.0
// Writes kernels:
//
//   Builder b("row_sums");
//   const Expr m = b.scalar("m"), n = b.scalar("n");
//   const BufferId x = b.in("x", DType::kBF16), y = b.out("y", DType::kF32);
//   b.parallel_for(m, 64, [&](const Expr& i) {
//     Value sum;
//     b.vector_for(n, [&](const Expr& j) { sum = b.sum(cast(b.load(x, i * n + j), DType::kF32)); });
//     b.store(y, i, sum * 2.0);
//   });
//   Kernel kernel = b.finish();
//
// Every operation checks its types at once (InternalError). Statements go to the innermost open loop. A builder belongs
// to one thread; values hold a pointer to it and must not outlive it.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "loop/kernel.h"

namespace npugraph::loop {

class Builder;

// A value of a kernel that is being built. Operators take values of one type, or a value and a number of its type.
struct Value {
  Builder* builder = nullptr;
  ValueId id = kNone;
  DType dtype() const;
};

// Index into Kernel::buffers.
enum class BufferId : int32_t {};

class Builder {
 public:
  explicit Builder(std::string name);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // Arguments, in the order of the task's operands; then shared buffers, then locals.
  BufferId in(std::string name, DType dtype) { return add_buffer(std::move(name), dtype, Buffer::Kind::kIn, 0); }
  BufferId out(std::string name, DType dtype) { return add_buffer(std::move(name), dtype, Buffer::Kind::kOut, 0); }
  BufferId inout(std::string name, DType dtype) { return add_buffer(std::move(name), dtype, Buffer::Kind::kInOut, 0); }
  BufferId local(std::string name, DType dtype, Expr elements) {
    return add_buffer(std::move(name), dtype, Buffer::Kind::kLocal, std::move(elements));
  }
  BufferId shared(std::string name, DType dtype, Expr elements) {
    return add_buffer(std::move(name), dtype, Buffer::Kind::kShared, std::move(elements));
  }
  // A scalar argument as a symbol of index expressions; `read` gives any scalar as an f64 value.
  Expr scalar(std::string name, ScalarKind kind = ScalarKind::kInt);
  Value read(const Expr& scalar);

  Value constant(DType dtype, double number);  // for integer types: whole, magnitude at most 2^53
  Value constant(DType dtype, Scalar number);
  Value index(Expr e);  // as i64
  Value load(BufferId buffer, Expr index);
  Value load(BufferId buffer, Expr index, Value mask, Value otherwise);
  void store(BufferId buffer, Expr index, Value value, Value mask = {}, bool streaming = false);
  // Fails the kernel with `message` if the condition is false, see Check.
  void check(Value condition, std::string message, Value shown = {});
  Value apply(Op op, std::initializer_list<Value> args);

  // Loops. `body` takes the loop variable.
  template <typename Body>
  void serial_for(Expr extent, Body body) {
    run(For::Kind::kSerial, std::move(extent), 1, body);
  }
  template <typename Body>
  void parallel_for(Expr extent, Expr grain, Body body) {
    run(For::Kind::kParallel, std::move(extent), std::move(grain), body);
  }
  template <typename Body>
  void vector_for(Expr extent, Body body) {
    run(For::Kind::kVector, std::move(extent), 1, body);
  }
  template <typename Body>
  void unrolled_for(int64_t extent, Body body) {
    run(For::Kind::kUnrolled, extent, 1, body);
  }
  // The same in two steps; begin_for returns the loop variable.
  Expr begin_for(For::Kind kind, Expr extent, Expr grain = 1);
  void end_for();

  // Combines a value of the innermost loop's body over its iterations. The result may be used after the loop.
  Value reduce(Combine combine, Value value);
  Value sum(Value value) { return reduce(Combine::kSum, value); }
  struct Extreme {
    Value value;
    Value index;  // the first iteration that has the value, i64
  };
  Extreme reduce_with_index(Combine combine, Value value);
  // The combination of the innermost loop's values so far, including this one. It may be used in the rest of the body.
  Value scan(Combine combine, Value value);

  // The kernel, verified. Nothing may be added afterwards.
  Kernel finish();

  DType dtype(ValueId id) const { return kernel_.dtypes.at(id); }
  Value cast_to(Value value, DType dtype) { return convert(Op::kCast, value, dtype); }
  Value bitcast_to(Value value, DType dtype) { return convert(Op::kBitcast, value, dtype); }

 private:
  template <typename Body>
  void run(For::Kind kind, Expr extent, Expr grain, Body& body) {
    const Expr variable = begin_for(kind, std::move(extent), std::move(grain));
    body(variable);
    end_for();
  }
  BufferId add_buffer(std::string name, DType dtype, Buffer::Kind kind, Expr elements);
  Value convert(Op op, Value value, DType dtype);
  Value new_value(DType dtype);
  Value add_let(Let let, DType dtype);
  DType dtype_of(BufferId buffer) const;
  std::vector<Stmt>& block();
  For& innermost(const char* what);
  bool has_name(const std::string& name) const;

  Kernel kernel_;
  std::vector<For> open_;  // outermost first
  int next_variable_ = 0;
};

// An integer value inside an index expression.
Expr as_index(Value value);

Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);  // floats
Value operator-(Value a);
Value operator+(Value a, double b);
Value operator+(double a, Value b);
Value operator-(Value a, double b);
Value operator-(double a, Value b);
Value operator*(Value a, double b);
Value operator*(double a, Value b);
Value operator/(Value a, double b);
Value operator/(double a, Value b);
Value operator&(Value a, Value b);
Value operator|(Value a, Value b);
Value operator^(Value a, Value b);
Value operator~(Value a);
Value operator<<(Value a, Value b);
Value operator>>(Value a, Value b);
Value operator==(Value a, Value b);
Value operator!=(Value a, Value b);
Value operator<(Value a, Value b);
Value operator<=(Value a, Value b);
Value operator>(Value a, Value b);
Value operator>=(Value a, Value b);
Value operator==(Value a, double b);
Value operator!=(Value a, double b);
Value operator<(Value a, double b);
Value operator<=(Value a, double b);
Value operator>(Value a, double b);
Value operator>=(Value a, double b);

Value min(Value a, Value b);
Value max(Value a, Value b);
Value fma(Value a, Value b, Value c);
Value select(Value condition, Value a, Value b);
Value cast(Value value, DType dtype);  // the value itself if it has that type
Value bitcast(Value value, DType dtype);
Value unary(Op op, Value value);  // unary(Op::kExp, x)
Value binary(Op op, Value a, Value b);

}  // namespace npugraph::loop
