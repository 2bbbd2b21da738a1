// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels: y[i] = f(a[i], b[i], c[i]) over broadcast windows. Inputs may be scalars.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "kernels/kernel_task.h"
#include "kernels/strided_loop.h"

namespace npugraph::kernels {

// The operation `f` on elements of certain types.
struct PointwiseOp {
  // Computes a row of elements; the last window is the result.
  void (*row)(const Row& row);
  // Computes one element.
  void (*element)(const std::array<const char*, kMaxWindows>& inputs, char* result);
  std::vector<DType> inputs;
  DType result;
};

class Pointwise {
 public:
  struct State {
    StridedLoop loop;
    // Scalars, converted to the type of their input.
    alignas(8) std::array<std::array<char, 8>, kMaxWindows> scalars{};
  };

  // UserError when the operands do not fit `op`.
  Pointwise(const ng_definition& task, PointwiseOp op);

  bool bind(const ng_call& call, State& state) const;
  ng_status run(const State& state, ng_call& call) const;
  // The same by plain loops over indices.
  ng_status run_reference(const ng_call& call) const;

 private:
  void convert_scalars(const ng_call& call, State& state) const;

  PointwiseOp op_;
  std::vector<Argument> inputs_;
  int32_t result_;  // index of its operand
};

}  // namespace npugraph::kernels
