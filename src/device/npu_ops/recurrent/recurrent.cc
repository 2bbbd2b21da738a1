// SPDX-License-Identifier: Apache-2.0
// Recurrent networks of one layer and direction, in float32. Their gradients are those of the steps.

#include "device/npu_ops/families.h"
#include "device/npu_ops/recurrent/recurrent_steps.h"

namespace npugraph::npu_ops {
namespace {

// Arguments of all operators here, which support one layer and one direction.
struct Layer {
  const char* op;
  int64_t num_layers;
  double dropout;
  bool train, bidirectional, batch_first;
};

void check_layer(const Layer& layer, const Tensor& input, const Tensor& h, int64_t input_dims) {
  check_floating(layer.op, "input", input);
  check_dims(layer.op, "input", input, input_dims, input_dims);
  check_dims(layer.op, "h", h, 3, 3);
  TORCH_CHECK(layer.num_layers == 1 && !layer.bidirectional, layer.op, ": num_layers is ", layer.num_layers,
              " and bidirectional ", layer.bidirectional ? "True" : "False", ", allowed are 1 and False");
  TORCH_CHECK(layer.dropout == 0 || !layer.train, layer.op, ": dropout is ", layer.dropout,
              ", allowed is 0: there is no layer after the first");
}

Eight lstm_cell(const Tensor& input, const Tensor& w_ih, const Tensor& w_hh, const Tensor& h, const Tensor& c,
                const OptionalTensor& b_ih, const OptionalTensor& b_hh) {
  constexpr const char* kOp = "npu_lstm_cell";
  check_floating(kOp, "input", input);
  check_dims(kOp, "input", input, 2, 2);
  check_same_shape(kOp, "c", c, "h", h);
  const Tensor of_x = at::linear(wide(input), wide(w_ih), wide(b_ih));
  const Tensor of_h = at::linear(wide(without_step(h)), wide(w_hh), wide(b_hh));
  const LstmSteps out = lstm_step(of_x + of_h, wide(without_step(c)), kGatesIfjo);
  const auto of_one_step = [&](const Tensor& x) { return rounded_like(x, input).unsqueeze(0); };
  return {of_one_step(out.h), of_one_step(out.h), of_one_step(out.c), of_one_step(out.i),
          of_one_step(out.j), of_one_step(out.f), of_one_step(out.o), of_one_step(out.tanhc)};
}

// The weights of both parts of the input of a cell, which are one `weight`, [I + H, 4 * H].
LstmWeights split_lstm_weights(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const auto size = input.sym_size(-1);
  const Tensor both = wide(weight).t();
  return {both.slice_symint(1, 0, size), both.slice_symint(1, size), bias.defined() ? wide(bias) : bias, kGatesIjfo};
}

Eight run_lstm_layer(const Layer& layer, const Direction& direction, const Tensor& input, const LstmState& first,
                     const LstmWeights& weights) {
  check_same_shape(layer.op, "c", first.c, "h", first.h);
  const Tensor x = layer.batch_first ? wide(input).transpose(0, 1) : wide(input);
  const LstmSteps all = run_lstm(direction, x, {wide(first.h).select(0, 0), wide(first.c).select(0, 0)}, weights).all;
  const auto narrow = [&](const Tensor& result) { return result.to(input.scalar_type()); };
  const Tensor y = layer.batch_first ? all.h.transpose(0, 1) : all.h;
  return {rounded_like(y, input), narrow(all.h), narrow(all.c), narrow(all.i),
          narrow(all.j),          narrow(all.f), narrow(all.o), narrow(all.tanhc)};
}

Eight lstm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor&, const Tensor& h,
           const Tensor& c, bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional,
           bool batch_first, bool flag_seq, bool direction) {
  const Layer layer = {"npu_lstm", num_layers, dropout, train, bidirectional, batch_first};
  check_layer(layer, input, h, 3);
  TORCH_CHECK(!flag_seq, layer.op, ": flag_seq is True, allowed is False: all sequences are as long as the input");
  return run_lstm_layer(layer, {.reverse = direction}, input, {h, c},
                        split_lstm_weights(input, weight, has_biases ? bias : Tensor()));
}

Eight lstm_data(const Tensor& input, const Tensor& batch_sizes, const Tensor& weight, const Tensor& bias, const Tensor&,
                const Tensor& h, const Tensor& c, bool has_biases, int64_t num_layers, double dropout, bool train,
                bool bidirectional, bool, bool, bool direction) {
  const Layer layer = {"npu_lstm_data", num_layers, dropout, train, bidirectional, /*batch_first=*/false};
  check_layer(layer, input, h, 2);
  return run_lstm_layer(layer, packed(layer.op, input, batch_sizes, h, direction), input, {h, c},
                        split_lstm_weights(input, weight, has_biases ? bias : Tensor()));
}

Eight lstm_data_meta(const Tensor& input, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor& h,
                     const Tensor&, bool, int64_t, double, bool, bool, bool, bool, bool) {
  const auto result = [&] { return input.new_empty_symint({input.sym_size(0), h.sym_size(2)}); };
  return {result(), result(), result(), result(), result(), result(), result(), result()};
}

Six gru(const Tensor& input, const Tensor& hx, const Tensor& weight_input, const Tensor& weight_hidden,
        const Tensor& bias_input, const Tensor& bias_hidden, const Tensor&, bool has_biases, int64_t num_layers,
        double dropout, bool train, bool bidirectional, bool batch_first) {
  const Layer layer = {"npu_gru", num_layers, dropout, train, bidirectional, batch_first};
  check_layer(layer, input, hx, 3);
  GruWeights weights = {wide(weight_input).t(), wide(weight_hidden).t(), {}, {}};
  if (has_biases) weights.bias_x = wide(bias_input), weights.bias_h = wide(bias_hidden);
  const Tensor x = batch_first ? wide(input).transpose(0, 1) : wide(input);
  const GruSteps all = run_gru({}, x, wide(hx).select(0, 0), weights).all;
  const auto narrow = [&](const Tensor& result) { return result.to(input.scalar_type()); };
  const Tensor y = batch_first ? all.h.transpose(0, 1) : all.h;
  return {rounded_like(y, input), narrow(all.h),    narrow(all.update),
          narrow(all.reset),      narrow(all.next), narrow(all.hidden)};
}

}  // namespace

void define_recurrent(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_gru(Tensor input, Tensor hx, Tensor weight_input, Tensor weight_hidden, Tensor bias_input, "
                "Tensor bias_hidden, Tensor seq_length, bool has_biases, int num_layers, float dropout, bool train, "
                "bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&gru),
      .traits = {.on_host = {"seq_length"}},
      .definition = "Gated recurrent unit, torch.nn.GRU of one layer and one direction (Cho et al., 2014). input is "
                    "[T, B, I], or [B, T, I] with batch_first, and hx is [1, B, H]. weight_input is [I, 3 * H], "
                    "weight_hidden is [H, 3 * H], and the biases are [3 * H], in the order reset, update, new. If "
                    "has_biases is False, the biases are ignored. num_layers must be 1, bidirectional must be False, "
                    "and dropout must be 0 in training. seq_length is ignored: sequences are as long as the input. "
                    "Results: y in the layout of input, and for all steps, [T, B, H] each, h, update, reset, new, and "
                    "the part of new that comes from h (W_hn h + b_hn, before it is multiplied by reset). All are in "
                    "the type of input.",
  });
  library.add({
      .schema = "npu::npu_lstm(Tensor input, Tensor weight, Tensor bias, Tensor seq_mask, Tensor h, Tensor c, bool "
                "has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first, bool "
                "flag_seq, bool direction) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&lstm),
      .definition = "Long short-term memory, torch.nn.LSTM of one layer and one direction (Hochreiter and Schmidhuber, "
                    "1997). input is [T, B, I], or [B, T, I] with batch_first, and h and c are [1, B, H]. weight is [I "
                    "+ H, 4 * H] and bias is [4 * H], in the order of the gates i, j, f, o, where j is the candidate. "
                    "If has_biases is False, bias is ignored. direction True processes the steps from the last to the "
                    "first. num_layers must be 1, bidirectional and flag_seq must be False, and dropout must be 0 in "
                    "training. seq_mask is ignored. Results: y in the layout of input, and for all steps, [T, B, H] "
                    "each, h, c, i, j, f, o and tanh(c). All are in the type of input, and index t is time step t in "
                    "both directions.",
  });
  library.add({
      .schema =
          "npu::npu_lstm_data(Tensor input, Tensor batch_sizes, Tensor weight, Tensor bias, Tensor seq_mask, Tensor h, "
          "Tensor c, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first, "
          "bool flag_seq, bool direction) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = whole(&lstm_data, &lstm_data_meta),
      .definition = "npu_lstm of packed sequences (torch.nn.utils.rnn.PackedSequence). input is [rows, I], and step t "
                    "consists of batch_sizes[t] rows. batch_first and flag_seq are ignored. The eight results are "
                    "[rows, H] each.",
  });
  library.add({
      .schema = "npu::npu_lstm_cell(Tensor input, Tensor w_ih, Tensor w_hh, Tensor h, Tensor c, Tensor? b_ih=None, "
                "Tensor? b_hh=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&lstm_cell),
      .definition = "One step of a long short-term memory, torch.lstm_cell. input is [B, I], h and c are [B, H] or [1, "
                    "B, H], and w_ih, [4 * H, I], w_hh, [4 * H, H], b_ih and b_hh, [4 * H], have the gates in the "
                    "order i, f, j, o of torch, where j is the candidate. Results, [1, B, H] each: y, which is h, then "
                    "h, c, i, j, f, o and tanh(c). All are in the type of input.",
  });
}

}  // namespace npugraph::npu_ops
