// SPDX-License-Identifier: Apache-2.0
// One direction of one layer of a recurrent network, step by step, and its gradient in closed form. All tensors are in float32
// or float64; weights stand as torch.nn.Linear has them, gates above each other.
#pragma once

#include <array>
#include <vector>

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// A result of the type of `of`, in memory of its own: what is one tensor in float32 must not be one for its users.
inline Tensor rounded_like(const Tensor& x, const Tensor& of) {
  return x.to(of.scalar_type(), /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
}

// How steps follow each other: [T, B, ...], or the rows of packed sequences (torch.nn.utils.rnn.PackedSequence), [rows, ...],
// of which each step has as many as batch_sizes say: no more than the step before it.
struct Direction {
  bool reverse = false;
  std::optional<std::vector<int64_t>> batch_sizes;

  std::vector<Tensor> steps_of(const Tensor& rows) const;
  Tensor rows_of(const std::vector<Tensor>& steps) const;
  // Of `count` steps, the one that is taken as number `n`.
  size_t place(size_t n, size_t count) const { return reverse ? count - 1 - n : n; }
  // The state of all sequences after a step that has given some of them `rows`.
  Tensor after(const Tensor& rows, const Tensor& state) const;
  // The part of a state of all sequences that a step of these `rows` starts from.
  Tensor start_of(const Tensor& rows, const Tensor& state) const;
};

// Of packed sequences, whose initial state is `first`, [..., B, H].
Direction packed(const char* op, const Tensor& rows, const Tensor& batch_sizes, const Tensor& first, bool reverse);

// Where the gates i, j, f and o stand in weights; j is the candidate.
using GateOrder = std::array<size_t, 4>;
constexpr GateOrder kGatesIjfo = {0, 1, 2, 3};
constexpr GateOrder kGatesIfjo = {0, 2, 1, 3};  // torch

struct LstmWeights {
  Tensor of_x, of_h;  // [4 * H, I], [4 * H, H]
  Tensor bias;        // [4 * H]; may be undefined
  GateOrder order = kGatesIfjo;
};
struct LstmState {
  Tensor h, c;  // [B, H]
};
// Of one step, or of all of them.
struct LstmSteps {
  Tensor h, c, i, j, f, o, tanhc;
};
// `sum` is what the gates are made of, [B, 4 * H].
LstmSteps lstm_step(const Tensor& sum, const Tensor& c, const GateOrder& order);
struct LstmRun {
  LstmSteps all;
  LstmState last;
};
LstmRun run_lstm(const Direction& direction, const Tensor& x, const LstmState& first, const LstmWeights& weights);

// Of what a run gives; those that are undefined are zero.
struct LstmResultGradients {
  Tensor h, c;  // of all steps
  LstmState last;
};
struct LstmGradients {
  Tensor x;
  LstmState first;
  LstmWeights weights;
};
LstmGradients lstm_gradients(const Direction& direction, const Tensor& x, const LstmState& first,
                             const LstmWeights& weights, const LstmSteps& all, const LstmResultGradients& grad);

// Gates reset, update and new.
struct GruWeights {
  Tensor of_x, of_h;      // [3 * H, I], [3 * H, H]
  Tensor bias_x, bias_h;  // [3 * H]; may be undefined
};
// Of one step, or of all of them; `hidden` is what h gives the candidate `next`.
struct GruSteps {
  Tensor h, update, reset, next, hidden;
};
struct GruRun {
  GruSteps all;
  Tensor last;  // [B, H]
};
GruRun run_gru(const Direction& direction, const Tensor& x, const Tensor& first, const GruWeights& weights);

struct GruGradients {
  Tensor x, first;
  GruWeights weights;
};
// `grad` is of h of all steps, `last` of the last one; either may be undefined.
GruGradients gru_gradients(const Direction& direction, const Tensor& x, const Tensor& first, const GruWeights& weights,
                           const GruSteps& all, const Tensor& grad, const Tensor& last);

}  // namespace npugraph::npu_ops
