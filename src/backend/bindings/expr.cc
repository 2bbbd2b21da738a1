// SPDX-License-Identifier: Apache-2.0
#include "tensor/expr.h"

#include <map>
#include <string>
#include <vector>

#include "backend/bindings/init.h"
#include "base/error.h"

namespace npugraph::bindings {

namespace {

// Function names of the text form, and the operators behind + and *.
const std::map<std::string, ExprOp>& operators() {
  static const std::map<std::string, ExprOp> table = {
      {"add", ExprOp::kAdd},
      {"mul", ExprOp::kMul},
      {"floordiv", ExprOp::kFloorDiv},
      {"mod", ExprOp::kMod},
      {"ceildiv", ExprOp::kCeilDiv},
      {"min", ExprOp::kMin},
      {"max", ExprOp::kMax},
      {"pow", ExprOp::kPow},
      {"shl", ExprOp::kShiftLeft},
      {"shr", ExprOp::kShiftRight},
      {"bitand", ExprOp::kBitAnd},
      {"bitor", ExprOp::kBitOr},
      {"bitxor", ExprOp::kBitXor},
      {"truediv", ExprOp::kTrueDiv},
      {"neg", ExprOp::kNeg},
      {"abs", ExprOp::kAbs},
      {"floor", ExprOp::kFloor},
      {"ceil", ExprOp::kCeil},
      {"trunc", ExprOp::kTrunc},
      {"round", ExprOp::kRound},
      {"sqrt", ExprOp::kSqrt},
      {"exp", ExprOp::kExp},
      {"log", ExprOp::kLog},
      {"log2", ExprOp::kLog2},
      {"sin", ExprOp::kSin},
      {"cos", ExprOp::kCos},
      {"tan", ExprOp::kTan},
      {"tanh", ExprOp::kTanh},
      {"to_float", ExprOp::kToFloat},
      {"to_int", ExprOp::kToInt},
      {"eq", ExprOp::kEq},
      {"ne", ExprOp::kNe},
      {"lt", ExprOp::kLt},
      {"le", ExprOp::kLe},
      {"and", ExprOp::kAnd},
      {"or", ExprOp::kOr},
      {"not", ExprOp::kNot},
      {"where", ExprOp::kWhere},
  };
  return table;
}

std::string op_name(ExprOp op) {
  for (const auto& [name, entry] : operators()) {
    if (entry == op) return name;
  }
  return op == ExprOp::kSymbol ? "symbol" : "constant";
}

Expr make(const std::string& op, std::vector<Expr> args) {
  const auto at = operators().find(op);
  if (at == operators().end()) throw UserError(cat("unknown operator \"", op, "\" in an expression"));
  return Expr::make(at->second, std::move(args));
}

}  // namespace

void init_expr(py::module_& module) {
  py::enum_<ScalarKind>(module, "ScalarKind")
      .value("int", ScalarKind::kInt)
      .value("float", ScalarKind::kFloat)
      .value("bool", ScalarKind::kBool);
  py::class_<Expr>(module, "Expr")
      .def_static("integer", [](int64_t v) { return Expr(v); })
      .def_static("floating", [](double v) { return Expr::constant(Scalar::of_float(v)); })
      .def_static("boolean", [](bool v) { return Expr::constant(Scalar::of_bool(v)); })
      .def_static("symbol", &Expr::symbol)
      .def_static("make", &make)
      // "constant", "symbol", or a name that make() takes.
      .def_property_readonly("op", [](const Expr& e) { return e.is_constant() ? "constant" : op_name(e.op()); })
      .def_property_readonly("args", [](const Expr& e) { return std::vector<Expr>(e.args().begin(), e.args().end()); })
      .def("__eq__", [](const Expr& a, const Expr& b) { return a == b; })
      .def("__hash__", &Expr::hash)
      .def("__str__", &Expr::str)
      .def("__repr__", &Expr::str);
}

}  // namespace npugraph::bindings
