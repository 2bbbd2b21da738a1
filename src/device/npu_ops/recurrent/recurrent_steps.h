// SPDX-License-Identifier: Apache-2.0
// One direction of one layer of a recurrent network, step by step, and its gradient in closed form. All tensors are in
// float32 or float64. Weights are those of torch.nn.Linear, with the rows of the gates one after another.
#pragma once

#include <array>
#include <vector>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// `x` in the type of `of`, in its own memory: results that are one tensor in float32 must not share memory.
inline Tensor rounded_like(const Tensor& x, const Tensor& of) {
  return x.to(of.scalar_type(), /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
}

// A state of one step, [1, B, H] or [B, H], as [B, H].
inline Tensor without_step(const Tensor& state) { return state.dim() == 3 ? state.select(0, 0) : state; }

// How steps follow each other: [T, B, ...], or the rows of packed sequences (torch.nn.utils.rnn.PackedSequence), [rows,
// ...], where step t has batch_sizes[t] rows, no more than the step before it.
struct Direction {
  bool reverse = false;
  std::optional<std::vector<int64_t>> batch_sizes;

  std::vector<Tensor> steps_of(const Tensor& rows) const;
  Tensor rows_of(const std::vector<Tensor>& steps) const;
  // The step that is processed as number `n` of `count`.
  size_t place(size_t n, size_t count) const { return reverse ? count - 1 - n : n; }
  // The state of all sequences after a step that computed `rows` for some of them.
  Tensor after(const Tensor& rows, const Tensor& state) const;
  // The part of a state of all sequences that a step with these `rows` starts from.
  Tensor start_of(const Tensor& rows, const Tensor& state) const;
};

// The direction of packed sequences with the initial state `first`, [..., B, H].
Direction packed(const char* op, const Tensor& rows, const Tensor& batch_sizes, const Tensor& first, bool reverse);

// Positions of the gates i, j, f and o in weights; j is the candidate.
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
// Values of one step, or of all of them.
struct LstmSteps {
  Tensor h, c, i, j, f, o, tanhc;
};
// `sum` is the input of the gates, [B, 4 * H].
LstmSteps lstm_step(const Tensor& sum, const Tensor& c, const GateOrder& order);
struct LstmRun {
  LstmSteps all;
  LstmState last;
};
LstmRun run_lstm(const Direction& direction, const Tensor& x, const LstmState& first, const LstmWeights& weights);

// Gradients of the results of a run; undefined ones count as zero.
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

// In the order of the gates reset, update, new.
struct GruWeights {
  Tensor of_x, of_h;      // [3 * H, I], [3 * H, H]
  Tensor bias_x, bias_h;  // [3 * H]; may be undefined
};
// Values of one step, or of all of them; `hidden` is the part of the candidate `next` that comes from h.
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
// `grad` is the gradient of h of all steps, `last` that of the last state; either may be undefined.
GruGradients gru_gradients(const Direction& direction, const Tensor& x, const Tensor& first, const GruWeights& weights,
                           const GruSteps& all, const Tensor& grad, const Tensor& last);

}  // namespace npugraph::npu_ops
