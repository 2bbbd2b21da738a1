// SPDX-License-Identifier: Apache-2.0
// Expressions by their text. A symbol that starts with f is a float, with b a bool, all others are integers.
#pragma once

#include <map>
#include <string>

#include "base/error.h"
#include "tensor/expr.h"

namespace npugraph {

inline ScalarKind kind_of(std::string_view name) {
  if (name[0] == 'f') return ScalarKind::kFloat;
  return name[0] == 'b' ? ScalarKind::kBool : ScalarKind::kInt;
}

inline Expr expr(std::string_view text) { return parse_expr(text, kind_of); }

// The normalised text of `text`.
inline std::string normal(std::string_view text) { return expr(text).str(); }

using Values = std::map<std::string, Scalar>;

inline Scalar value(const Expr& e, const Values& values = {}) {
  return evaluate(e, [&](const std::string& name) {
    auto found = values.find(name);
    if (found == values.end()) throw UserError(cat("unknown symbol ", name));
    return found->second;
  });
}

inline Scalar value(std::string_view text, const Values& values = {}) { return value(expr(text), values); }

// The message of the UserError that `fn` throws; "no error" if it throws none.
template <typename Fn>
std::string error_of(Fn fn) {
  try {
    fn();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace npugraph
