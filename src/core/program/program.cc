// SPDX-License-Identifier: Apache-2.0
#include "program/program.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace npugraph::program {

Dim Program::dim(const Expr& e) {
  if (const auto constant = e.as_int()) return {.constant = *constant};
  const auto [entry, is_new] = expr_index_.try_emplace(e, static_cast<int32_t>(exprs.size()));
  if (is_new) exprs.push_back(e);
  return {.expr = entry->second};
}

Expr Program::expr(const Dim& d) const { return d.is_constant() ? Expr(d.constant) : exprs.at(d.expr); }

bool same_window(const Operand& a, const Operand& b) {
  return size_of(a.dtype) == size_of(b.dtype) && a.byte_offset == b.byte_offset && a.sizes == b.sizes &&
         a.strides == b.strides;
}

namespace {

// Sizes and strides without dimensions of one element; contiguous neighbours of constant size and stride are merged.
std::vector<std::pair<Dim, Dim>> folded(const Operand& operand) {
  std::vector<std::pair<Dim, Dim>> dims;
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    const Dim size = operand.sizes[d], stride = operand.strides[d];
    if (size == Dim{1}) continue;
    const bool known = size.is_constant() && stride.is_constant() && !dims.empty() && dims.back().first.is_constant() &&
                       dims.back().second.is_constant();
    if (known && dims.back().second.constant == size.constant * stride.constant)
      dims.back() = {Dim{dims.back().first.constant * size.constant}, stride};
    else
      dims.emplace_back(size, stride);
  }
  return dims;
}

}  // namespace

bool same_elements(const Operand& a, const Operand& b) {
  return size_of(a.dtype) == size_of(b.dtype) && a.byte_offset == b.byte_offset && folded(a) == folded(b);
}

bool has_streams(const Program& program) {
  return std::ranges::any_of(program.tasks,
                             [&](const Task& task) { return task.stream != program.tasks.front().stream; });
}

std::vector<int32_t> defining_tasks(const Program& program) {
  std::unordered_map<std::string_view, int32_t> task_of;
  for (const Symbol& symbol : program.symbols) task_of.emplace(symbol.name, symbol.task);

  std::vector<int32_t> last(program.exprs.size(), kNone);
  std::vector<std::string> names;
  for (size_t i = 0; i < program.exprs.size(); ++i) {
    names.clear();
    collect_symbols(program.exprs[i], names);
    for (const std::string& name : names) {
      const auto symbol = task_of.find(name);
      NG_CHECK(symbol != task_of.end(), "expression ", program.exprs[i].str(), " uses an unknown symbol");
      last[i] = std::max(last[i], symbol->second);
    }
  }
  return last;
}

}  // namespace npugraph::program
