// SPDX-License-Identifier: Apache-2.0
// A call of a Program with made-up inputs that end at pages which must not be touched, and its results as numbers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "program/program.h"
#include "runtime/executable.h"

namespace npugraph::fuzz {

class GuardedMemory;

// A result, or what a call left in an input.
struct Numbers {
  DType dtype = DType::kF32;
  std::vector<int64_t> sizes;
  std::vector<double> elements;  // in the order of the sizes
};

// All unknown sizes are equal.
class Run {
 public:
  explicit Run(std::shared_ptr<const program::Program> program);
  ~Run();

  // Whether no tensor of the graph has many elements. Loops over some of them are long although they fill no memory.
  bool is_small(const ir::Graph& graph) const;

  // Runs with inputs whose floating-point elements are multiplied by `scale`. The results are empty if a task failed.
  // UserError as of Executable::run().
  std::vector<Numbers> run(double scale);

 private:
  int64_t value(const Expr& expr) const;
  int64_t value(const program::Dim& dim) const { return value(program_->expr(dim)); }
  std::vector<int64_t> values(const std::vector<program::Dim>& dims) const;
  void bind(double scale);

  std::shared_ptr<const program::Program> program_;
  std::map<std::string, Scalar> values_;
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<std::unique_ptr<GuardedMemory>> memory_;
  std::vector<runtime::BoundInput> bound_;
};

// The share of a result by which roundings may change it, for the element types of the graph.
double rounding_of(const ir::Graph& graph);
// Says where results differ from the expected ones; empty if they agree. Elements of floating-point types may differ by
// the share `rounding`, all elements by what `expected` and `nearby` differ: results for almost the same inputs.
std::string difference(const std::vector<Numbers>& got, const std::vector<Numbers>& expected,
                       const std::vector<Numbers>& nearby, double rounding);

}  // namespace npugraph::fuzz
