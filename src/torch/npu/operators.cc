// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/operators.h"

#include <algorithm>
#include <iterator>

namespace npugraph::npu {
namespace {

// Filled while the operators are registered, and only read afterwards.
struct Table {
  std::vector<Operator> rows;
  std::vector<GraphForm> forms;
};

Table& table() {
  static auto* out = new Table;
  return *out;
}

}  // namespace

void declare_operators(std::vector<Operator> rows, std::vector<GraphForm> forms) {
  Table& all = table();
  std::ranges::move(rows, std::back_inserter(all.rows));
  std::ranges::move(forms, std::back_inserter(all.forms));
  std::ranges::sort(all.rows, {}, &Operator::name);
}

const std::vector<Operator>& operators() { return table().rows; }

const std::vector<GraphForm>& graph_forms() { return table().forms; }

}  // namespace npugraph::npu
