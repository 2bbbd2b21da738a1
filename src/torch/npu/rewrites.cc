// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/rewrites.h"

#include <set>

namespace npugraph::npu {
namespace {

// Filled while the library is loaded, and only read afterwards.
std::set<std::string>& rewriting_operators() {
  static auto* all = new std::set<std::string>;
  return *all;
}

}  // namespace

void declare_rewrites(const std::string& op) { rewriting_operators().insert(op); }

bool rewrites_arguments(const std::string& op) { return rewriting_operators().contains(op); }

}  // namespace npugraph::npu
