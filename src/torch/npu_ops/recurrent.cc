// SPDX-License-Identifier: Apache-2.0
// Recurrent networks, step by step, in float32. Their gradients are those of the steps.
#include <tuple>
#include <vector>

#include "torch/npu_ops/checks.h"
#include "torch/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

using Six = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
using Eight = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

// What is common to layers: one layer, one direction.
struct Layer {
  const char* op;
  int64_t num_layers;
  double dropout;
  bool train, bidirectional, batch_first;
};

void check_layer(const Layer& layer, const Tensor& input, const Tensor& h) {
  check_floating(layer.op, "input", input);
  check_dims(layer.op, "input", input, 3, 3);
  check_dims(layer.op, "h", h, 3, 3);
  TORCH_CHECK(layer.num_layers == 1 && !layer.bidirectional, layer.op, ": num_layers is ", layer.num_layers,
              " and bidirectional ", layer.bidirectional ? "True" : "False", ", allowed are 1 and False");
  TORCH_CHECK(layer.dropout == 0 || !layer.train, layer.op, ": dropout is ", layer.dropout,
              ", allowed is 0: there is no layer after the first");
}

// Steps of the input, [B, I] each.
std::vector<Tensor> steps_of(const Layer& layer, const Tensor& input) {
  return wide(input).unbind(layer.batch_first ? 1 : 0);
}

struct LstmStep {
  Tensor h, c, i, j, f, o, tanhc;
};

// Gates in the order i, j, f, o; j is the candidate.
LstmStep lstm_step(const std::vector<Tensor>& gates, const Tensor& c) {
  LstmStep out;
  out.i = gates[0].sigmoid();
  out.j = gates[1].tanh();
  out.f = gates[2].sigmoid();
  out.o = gates[3].sigmoid();
  out.c = out.f * c + out.i * out.j;
  out.tanhc = out.c.tanh();
  out.h = out.o * out.tanhc;
  return out;
}

Eight lstm_cell(const Tensor& input, const Tensor& w_ih, const Tensor& w_hh, const Tensor& h, const Tensor& c,
                const OptionalTensor& b_ih, const OptionalTensor& b_hh) {
  constexpr const char* kOp = "npu_lstm_cell";
  check_floating(kOp, "input", input);
  check_dims(kOp, "input", input, 2, 2);
  check_same_shape(kOp, "c", c, "h", h);
  const Tensor sum = at::linear(wide(input), wide(w_ih), wide(b_ih)) + at::linear(wide(h), wide(w_hh), wide(b_hh));
  const auto gates = sum.chunk(4, 1);  // i, f, j, o
  const LstmStep out = lstm_step({gates[0], gates[2], gates[1], gates[3]}, wide(c));
  const auto narrow = [&](const Tensor& x) { return x.to(input.scalar_type(), /*non_blocking=*/false, /*copy=*/true); };
  return {narrow(out.h), narrow(out.h), narrow(out.c), narrow(out.i),
          narrow(out.j), narrow(out.f), narrow(out.o), narrow(out.tanhc)};
}

Eight lstm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor&, const Tensor& h,
           const Tensor& c, bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional,
           bool batch_first, bool flag_seq, bool direction) {
  const Layer layer = {"npu_lstm", num_layers, dropout, train, bidirectional, batch_first};
  check_layer(layer, input, h);
  check_same_shape(layer.op, "c", c, "h", h);
  TORCH_CHECK(!flag_seq, layer.op, ": flag_seq is True, allowed is False: all sequences are as long as the input");
  const auto steps = steps_of(layer, input);
  Tensor last_h = wide(h).select(0, 0), last_c = wide(c).select(0, 0);
  std::vector<std::vector<Tensor>> out(7, std::vector<Tensor>(steps.size()));
  for (size_t n = 0; n < steps.size(); ++n) {
    const size_t t = direction ? steps.size() - 1 - n : n;
    Tensor sum = at::cat({steps[t], last_h}, 1).matmul(wide(weight));
    if (has_biases) sum = sum + wide(bias);
    const LstmStep step = lstm_step(sum.chunk(4, 1), last_c);
    last_h = step.h;
    last_c = step.c;
    const Tensor results[] = {step.h, step.c, step.i, step.j, step.f, step.o, step.tanhc};
    for (size_t k = 0; k < out.size(); ++k) out[k][t] = results[k];
  }
  const auto all = [&](size_t k) { return at::stack(out[k]).to(input.scalar_type()); };
  return {at::stack(out[0], batch_first ? 1 : 0).to(input.scalar_type()),
          all(0),
          all(1),
          all(2),
          all(3),
          all(4),
          all(5),
          all(6)};
}

Six gru(const Tensor& input, const Tensor& hx, const Tensor& weight_input, const Tensor& weight_hidden,
        const Tensor& bias_input, const Tensor& bias_hidden, const Tensor&, bool has_biases, int64_t num_layers,
        double dropout, bool train, bool bidirectional, bool batch_first) {
  const Layer layer = {"npu_gru", num_layers, dropout, train, bidirectional, batch_first};
  check_layer(layer, input, hx);
  const auto steps = steps_of(layer, input);
  Tensor h = wide(hx).select(0, 0);
  std::vector<std::vector<Tensor>> out(5);
  for (const Tensor& x : steps) {
    Tensor of_x = x.matmul(wide(weight_input)), of_h = h.matmul(wide(weight_hidden));
    if (has_biases) {
      of_x = of_x + wide(bias_input);
      of_h = of_h + wide(bias_hidden);
    }
    const auto from_x = of_x.chunk(3, 1), from_h = of_h.chunk(3, 1);  // reset, update, new
    const Tensor reset = (from_x[0] + from_h[0]).sigmoid(), update = (from_x[1] + from_h[1]).sigmoid();
    const Tensor next = (from_x[2] + reset * from_h[2]).tanh();
    h = (1 - update) * next + update * h;
    const Tensor results[] = {h, update, reset, next, from_h[2]};
    for (size_t k = 0; k < out.size(); ++k) out[k].push_back(results[k]);
  }
  const auto all = [&](size_t k) { return at::stack(out[k]).to(input.scalar_type()); };
  return {at::stack(out[0], batch_first ? 1 : 0).to(input.scalar_type()), all(0), all(1), all(2), all(3), all(4)};
}

}  // namespace

void define_recurrent(Definitions& npu) {
  npu.composed("npu_gru", &gru,
               "torch.nn.GRU of one layer and direction, with weights [I, 3 * H] and [H, 3 * H] of reset, update and "
               "new (Cho et al., "
               "2014); sequences are as long as the input. Results: y, and step by step h, update, reset, new, and the "
               "hidden part "
               "of new");
  npu.composed("npu_lstm", &lstm,
               "torch.nn.LSTM of one layer and direction (direction: from the last step on), with a weight [I + H, 4 * "
               "H] of the gates i, j, "
               "f, o (Hochreiter and Schmidhuber, 1997). Results: y, and step by step h, c, i, j, f, o, tanh(c)");
  npu.composed("npu_lstm_cell", &lstm_cell,
               "torch.lstm_cell, whose gates are i, f, j, o. Results: y (which is h), h, c, i, j, f, o, tanh(c)");
}

}  // namespace npugraph::npu_ops
