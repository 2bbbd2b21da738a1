// SPDX-License-Identifier: Apache-2.0
// Kernels with the candidates among which the compiler chooses, ready to run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace npugraph {

struct Candidate {
  std::string name;
  std::function<void()> run;
};

// The one that the compiler takes comes first.
using Candidates = std::vector<Candidate>;

// Of the loops that a graph in text form becomes: shapes, copies of the bodies of vector loops, and one loop or two.
Candidates nest_candidates(const std::string& graph);

struct Product {
  DType dtype = DType::kF32;
  int64_t m = 0, n = 0, k = 0;
  bool b_is_nk = true;
};

// Of a matrix product: ways to cut it. Each call takes other weights, which come from memory.
Candidates product_candidates(const Product& product);

}  // namespace npugraph
