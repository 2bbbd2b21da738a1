// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/framework/graph_gradients.h"

#include <unordered_map>

namespace npugraph::npu_ops {
namespace {

std::unordered_map<std::string, RecordGradient>& table() {
  static auto* out = new std::unordered_map<std::string, RecordGradient>;
  return *out;
}

}  // namespace

void set_graph_gradient(const std::string& name, RecordGradient record) { table().emplace(name, record); }

RecordGradient graph_gradient(const std::string& name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

}  // namespace npugraph::npu_ops
