// SPDX-License-Identifier: Apache-2.0
// The kernels on which the cost model is measured.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/cpp/candidates.h"

namespace npugraph {

struct RegretCase {
  std::string name;
  std::function<Candidates()> candidates;
};

std::vector<RegretCase> regret_cases();

}  // namespace npugraph
