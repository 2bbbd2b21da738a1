// SPDX-License-Identifier: Apache-2.0
#include "device/npu/operators.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace npugraph::npu {
namespace {

std::unordered_map<c10::OperatorHandle, Operator>& table() {
  static auto* out = new std::unordered_map<c10::OperatorHandle, Operator>;
  return *out;
}

}  // namespace

void declare_operator(const c10::OperatorHandle& op, Operator facts) { table().emplace(op, std::move(facts)); }

std::vector<const Operator*> operators() {
  std::vector<const Operator*> out;
  for (const auto& [op, facts] : table()) out.push_back(&facts);
  std::ranges::sort(out, {}, [](const Operator* facts) { return std::string_view(facts->name); });
  return out;
}

const Operator* find_operator(const c10::OperatorHandle& op) {
  const auto found = table().find(op);
  return found == table().end() ? nullptr : &found->second;
}

bool writes_rows_of(const c10::OperatorHandle& op, std::string_view argument) {
  const Operator* found = find_operator(op);
  return found != nullptr &&
         std::ranges::find(found->traits.writes_rows_of, argument) != found->traits.writes_rows_of.end();
}

}  // namespace npugraph::npu
