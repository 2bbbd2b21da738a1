// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/recurrent/recurrent_steps.h"

#include "device/npu_ops/framework/call_arguments.h"

namespace npugraph::npu_ops {

std::vector<Tensor> Direction::steps_of(const Tensor& rows) const {
  return batch_sizes ? rows.split_with_sizes(*batch_sizes) : rows.unbind(0);
}

Tensor Direction::rows_of(const std::vector<Tensor>& steps) const {
  return batch_sizes ? at::cat(steps) : at::stack(steps);
}

Tensor Direction::after(const Tensor& rows, const Tensor& state) const {
  if (!batch_sizes || rows.size(0) == state.size(0)) return rows;
  return at::cat({rows, state.slice(0, rows.size(0))});
}

Tensor Direction::start_of(const Tensor& rows, const Tensor& state) const {
  return batch_sizes ? state.narrow(0, 0, rows.size(0)) : state;
}

Direction packed(const char* op, const Tensor& rows, const Tensor& batch_sizes, const Tensor& first, bool reverse) {
  Direction out = {reverse, values_of(batch_sizes)};
  int64_t sum = 0, before = first.size(-2);
  for (const int64_t size : *out.batch_sizes) {
    TORCH_CHECK(size > 0 && size <= before, op, ": batch_sizes are ", at::IntArrayRef(*out.batch_sizes),
                ", allowed are numbers that do not grow, the first up to the ", first.size(-2),
                " sequences of the state");
    sum += before = size;
  }
  TORCH_CHECK(sum == rows.size(0), op, ": batch_sizes sum up to ", sum, ", and input has ", rows.size(0), " rows");
  return out;
}

namespace {

// Converts a struct of tensors for all steps into one struct for each step, and back.
template <typename Steps, size_t count>
using Fields = Tensor Steps::* const[count];

template <typename Steps, size_t count>
std::vector<Steps> taken_apart(const Direction& direction, const Steps& all, Fields<Steps, count>& fields) {
  std::vector<Steps> out;
  for (auto field : fields) {
    const auto steps = direction.steps_of(all.*field);
    out.resize(steps.size());
    for (size_t t = 0; t < steps.size(); ++t) out[t].*field = steps[t];
  }
  return out;
}

template <typename Steps, size_t count>
Steps put_together(const Direction& direction, const std::vector<Steps>& steps, Fields<Steps, count>& fields) {
  Steps out;
  for (auto field : fields) {
    std::vector<Tensor> of_field;
    for (const Steps& step : steps) of_field.push_back(step.*field);
    out.*field = direction.rows_of(of_field);
  }
  return out;
}

constexpr Tensor LstmSteps::* const kLstmFields[] = {&LstmSteps::h, &LstmSteps::c, &LstmSteps::i,    &LstmSteps::j,
                                                     &LstmSteps::f, &LstmSteps::o, &LstmSteps::tanhc};
constexpr Tensor GruSteps::* const kGruFields[] = {&GruSteps::h, &GruSteps::update, &GruSteps::reset, &GruSteps::next,
                                                   &GruSteps::hidden};

// The state that each step started from, given the states after the steps and the initial state `first`.
std::vector<Tensor> states_before(const Direction& direction, const std::vector<Tensor>& states, const Tensor& first) {
  std::vector<Tensor> out(states.size());
  Tensor state = first;
  for (size_t n = 0; n < states.size(); ++n) {
    const size_t t = direction.place(n, states.size());
    out[t] = direction.start_of(states[t], state);
    state = direction.after(states[t], state);
  }
  return out;
}

// Gradients of the weight and the bias of a linear layer, from the gradient of its result and from its input.
Tensor of_weight(const Tensor& grad, const Tensor& x) { return grad.flatten(0, -2).t().matmul(x.flatten(0, -2)); }
Tensor of_bias(const Tensor& grad) { return grad.flatten(0, -2).sum(0); }

Tensor or_zeros(const Tensor& grad, const Tensor& like) { return grad.defined() ? grad : at::zeros_like(like); }

// The gradient of the inputs of the gates. `c` is the state that the step started from. `grad` is the gradient of the
// results of the step; its part c is replaced by the gradient for `c`.
Tensor lstm_step_gradient(const LstmSteps& step, const Tensor& c, LstmState& grad, const GateOrder& order) {
  const Tensor of_c = grad.c + grad.h * step.o * (1 - step.tanhc.square());
  const auto of_sigmoid = [](const Tensor& of_gate, const Tensor& gate) { return of_gate * gate * (1 - gate); };
  const Tensor gates[] = {of_sigmoid(of_c * step.j, step.i), of_c * step.i * (1 - step.j.square()),
                          of_sigmoid(of_c * c, step.f), of_sigmoid(grad.h * step.tanhc, step.o)};
  grad.c = of_c * step.f;
  return at::cat({gates[order[0]], gates[order[1]], gates[order[2]], gates[order[3]]}, 1);
}

}  // namespace

LstmSteps lstm_step(const Tensor& sum, const Tensor& c, const GateOrder& order) {
  const auto gates = sum.chunk(4, 1);
  LstmSteps out;
  out.i = gates[order[0]].sigmoid();
  out.j = gates[order[1]].tanh();
  out.f = gates[order[2]].sigmoid();
  out.o = gates[order[3]].sigmoid();
  out.c = out.f * c + out.i * out.j;
  out.tanhc = out.c.tanh();
  out.h = out.o * out.tanhc;
  return out;
}

LstmRun run_lstm(const Direction& direction, const Tensor& x, const LstmState& first, const LstmWeights& weights) {
  const auto from_x = direction.steps_of(at::linear(x, weights.of_x, weights.bias));
  std::vector<LstmSteps> steps(from_x.size());
  LstmState state = first;
  for (size_t n = 0; n < steps.size(); ++n) {
    const size_t t = direction.place(n, steps.size());
    const Tensor h = direction.start_of(from_x[t], state.h), c = direction.start_of(from_x[t], state.c);
    steps[t] = lstm_step(from_x[t] + at::linear(h, weights.of_h), c, weights.order);
    state = {direction.after(steps[t].h, state.h), direction.after(steps[t].c, state.c)};
  }
  return {put_together(direction, steps, kLstmFields), state};
}

LstmGradients lstm_gradients(const Direction& direction, const Tensor& x, const LstmState& first,
                             const LstmWeights& weights, const LstmSteps& all, const LstmResultGradients& grad) {
  const auto steps = taken_apart(direction, all, kLstmFields);
  const auto h_before = states_before(direction, direction.steps_of(all.h), first.h);
  const auto c_before = states_before(direction, direction.steps_of(all.c), first.c);
  const auto of_h = direction.steps_of(or_zeros(grad.h, all.h)), of_c = direction.steps_of(or_zeros(grad.c, all.c));
  LstmState state = {or_zeros(grad.last.h, first.h), or_zeros(grad.last.c, first.c)};
  std::vector<Tensor> of_sums(steps.size());
  for (size_t n = steps.size(); n-- > 0;) {
    const size_t t = direction.place(n, steps.size());
    LstmState its = {direction.start_of(of_h[t], state.h) + of_h[t], direction.start_of(of_c[t], state.c) + of_c[t]};
    of_sums[t] = lstm_step_gradient(steps[t], c_before[t], its, weights.order);
    state = {direction.after(of_sums[t].matmul(weights.of_h), state.h), direction.after(its.c, state.c)};
  }
  const Tensor sums = direction.rows_of(of_sums);
  return {sums.matmul(weights.of_x), state,
          LstmWeights{of_weight(sums, x), of_weight(sums, direction.rows_of(h_before)), of_bias(sums), weights.order}};
}

GruRun run_gru(const Direction& direction, const Tensor& x, const Tensor& first, const GruWeights& weights) {
  const auto of_x = direction.steps_of(at::linear(x, weights.of_x, weights.bias_x));
  std::vector<GruSteps> steps(of_x.size());
  Tensor state = first;
  for (size_t n = 0; n < steps.size(); ++n) {
    const size_t t = direction.place(n, steps.size());
    const Tensor h = direction.start_of(of_x[t], state);
    const auto from_x = of_x[t].chunk(3, 1), from_h = at::linear(h, weights.of_h, weights.bias_h).chunk(3, 1);
    GruSteps& step = steps[t];
    step.reset = (from_x[0] + from_h[0]).sigmoid();
    step.update = (from_x[1] + from_h[1]).sigmoid();
    step.hidden = from_h[2];
    step.next = (from_x[2] + step.reset * step.hidden).tanh();
    step.h = (1 - step.update) * step.next + step.update * h;
    state = direction.after(step.h, state);
  }
  return {put_together(direction, steps, kGruFields), state};
}

GruGradients gru_gradients(const Direction& direction, const Tensor& x, const Tensor& first, const GruWeights& weights,
                           const GruSteps& all, const Tensor& grad, const Tensor& last) {
  const auto steps = taken_apart(direction, all, kGruFields);
  const auto before = states_before(direction, direction.steps_of(all.h), first);
  const auto of_h = direction.steps_of(or_zeros(grad, all.h));
  Tensor state = or_zeros(last, first);
  std::vector<Tensor> of_x_sums(steps.size()), of_h_sums(steps.size());
  for (size_t n = steps.size(); n-- > 0;) {
    const size_t t = direction.place(n, steps.size());
    const GruSteps& step = steps[t];
    const Tensor its = direction.start_of(of_h[t], state) + of_h[t];
    const Tensor of_next = its * (1 - step.update) * (1 - step.next.square());
    const Tensor of_reset = of_next * step.hidden * step.reset * (1 - step.reset);
    const Tensor of_update = its * (before[t] - step.next) * step.update * (1 - step.update);
    of_x_sums[t] = at::cat({of_reset, of_update, of_next}, 1);
    of_h_sums[t] = at::cat({of_reset, of_update, of_next * step.reset}, 1);
    state = direction.after(its * step.update + of_h_sums[t].matmul(weights.of_h), state);
  }
  const Tensor x_sums = direction.rows_of(of_x_sums), h_sums = direction.rows_of(of_h_sums);
  return {
      x_sums.matmul(weights.of_x), state,
      GruWeights{of_weight(x_sums, x), of_weight(h_sums, direction.rows_of(before)), of_bias(x_sums), of_bias(h_sums)}};
}

}  // namespace npugraph::npu_ops
