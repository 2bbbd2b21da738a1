// SPDX-License-Identifier: Apache-2.0
#include "loop/specialise.h"

#include <functional>
#include <map>
#include <string>

#include "base/error.h"
#include "loop/simplify.h"
#include "loop/text.h"
#include "loop/walk.h"

namespace npugraph::loop {
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
