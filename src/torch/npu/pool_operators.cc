// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/pool_operators.h"

#include <set>

namespace npugraph::npu {
namespace {

// Filled while the library is loaded, and only read afterwards.
std::set<std::string, std::less<>>& pool_operators() {
  static auto* all = new std::set<std::string, std::less<>>;
  return *all;
}

}  // namespace

void declare_pool_operators(std::initializer_list<std::string> names) {
  pool_operators().insert(names.begin(), names.end());
}

bool is_pool_operator(std::string_view name) {
  const size_t overload = name.find('.', name.find('.') + 1);
  return pool_operators().contains(name.substr(0, overload));
}

}  // namespace npugraph::npu
