// SPDX-License-Identifier: Apache-2.0
// Recurrent networks of several layers and directions, with the parameters of torch.nn.LSTM and torch.nn.GRU.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/recurrent/recurrent_steps.h"

namespace npugraph::npu_ops {
namespace {

using Ten = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

struct Layers {
  const char* op;
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train, bidirectional, batch_first;
  OptionalTensor batch_sizes;

  // layers of both directions
  size_t count() const { return static_cast<size_t>(num_layers * (bidirectional ? 2 : 1)); }
  size_t directions() const { return bidirectional ? 2 : 1; }
  size_t parameters() const { return has_biases ? 4 : 2; }  // of a layer and direction
};

void check_layers(const Layers& layers, const Tensor& input, const Tensor& h, at::TensorList params) {
  check_floating(layers.op, "input", input);
  const int64_t dims = layers.batch_sizes ? 2 : 3;
  check_dims(layers.op, "input", input, dims, dims);
  check_dims(layers.op, "hx", h, 3, 3);
  TORCH_CHECK(layers.num_layers >= 1, layers.op, ": num_layers is ", layers.num_layers, ", allowed are 1 and more");
  TORCH_CHECK(params.size() == layers.count() * layers.parameters(), layers.op, ": params has ", params.size(),
              " tensors, allowed are ", layers.count() * layers.parameters(), ", ", layers.parameters(),
              " of each layer and direction");
}

void check_layers(const Layers& layers, const Tensor& input, at::TensorList hx, at::TensorList params) {
  TORCH_CHECK(hx.size() == 2, layers.op, ": hx has ", hx.size(), " tensors, allowed are h and c");
  check_layers(layers, input, hx[0], params);
}

void check_no_dropout(const Layers& layers) {
  TORCH_CHECK(!layers.train || layers.dropout == 0 || layers.num_layers == 1, layers.op, ": dropout is ",
              layers.dropout, ", allowed is 0: it is not known what was dropped");
}

Direction direction_of(const Layers& layers, const Tensor& input, const Tensor& h, size_t index) {
  const bool reverse = layers.bidirectional && index % 2 == 1;
  if (!layers.batch_sizes) return {.reverse = reverse};
  return packed(layers.op, input, *layers.batch_sizes, h, reverse);
}

// `x` as [T, B, ...], or back; packed rows are left as they are.
Tensor steps_first(const Layers& layers, const Tensor& x) {
  return layers.batch_first && !layers.batch_sizes ? x.transpose(0, 1) : x;
}

// The input of the layer after `layer`, made of the results of both its directions, with dropout unless it is the last.
Tensor next_input(const Layers& layers, const std::vector<Tensor>& h, size_t layer, bool last) {
  const size_t first = layer * layers.directions();
  const Tensor x = layers.bidirectional ? at::cat({h[first], h[first + 1]}, -1) : h[first];
  return last ? x : at::dropout(x, layers.dropout, layers.train);
}

LstmWeights lstm_weights(const Layers& layers, at::TensorList params, size_t index) {
  const auto of = params.slice(index * layers.parameters(), layers.parameters());
  return {wide(of[0]), wide(of[1]), layers.has_biases ? wide(of[2]) + wide(of[3]) : Tensor(), kGatesIfjo};
}

GruWeights gru_weights(const Layers& layers, at::TensorList params, size_t index) {
  const auto of = params.slice(index * layers.parameters(), layers.parameters());
  GruWeights out = {wide(of[0]), wide(of[1]), {}, {}};
  if (layers.has_biases) out.bias_x = wide(of[2]), out.bias_h = wide(of[3]);
  return out;
}

// Returns y, then the results of `one`(index, x) for all layers and directions, stacked. Its result number
// `of_h` is h of all steps.
template <typename One>
std::vector<Tensor> forward_through(const Layers& layers, const Tensor& input, size_t of_h, One&& one) {
  std::vector<std::vector<Tensor>> results;
  Tensor x = steps_first(layers, wide(input));
  for (size_t index = 0; index < layers.count(); ++index) {
    const std::vector<Tensor> of_one = one(index, x);
    results.resize(of_one.size());
    for (size_t k = 0; k < of_one.size(); ++k) results[k].push_back(of_one[k]);
    if ((index + 1) % layers.directions() == 0)
      x = next_input(layers, results[of_h], index / layers.directions(), index + 1 == layers.count());
  }
  std::vector<Tensor> out = {rounded_like(steps_first(layers, x), input)};
  for (const std::vector<Tensor>& each : results) out.push_back(at::stack(each).to(input.scalar_type()));
  return out;
}

Ten lstm_layers(const Tensor& input, at::TensorList hx, at::TensorList params, bool has_biases, int64_t num_layers,
                double dropout, bool train, bool bidirectional, std::optional<bool> batch_first,
                const OptionalTensor& batch_sizes) {
  const Layers layers = {
      "_lstm_npu", has_biases, num_layers, dropout, train, bidirectional, batch_first.value_or(false), batch_sizes};
  check_layers(layers, input, hx, params);
  const Tensor h = wide(hx[0]), c = wide(hx[1]);
  const auto one = [&](size_t index, const Tensor& x) -> std::vector<Tensor> {
    const auto place = static_cast<int64_t>(index);
    const LstmRun run =
        run_lstm(direction_of(layers, input, h, index), x, {h[place], c[place]}, lstm_weights(layers, params, index));
    const LstmSteps& all = run.all;
    return {run.last.h, run.last.c, all.i, all.j, all.f, all.o, all.h, all.c, all.tanhc};
  };
  const std::vector<Tensor> out = forward_through(layers, input, 6, one);
  return {out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7], out[8], out[9]};
}

// Goes through the layers from the last to the first and returns the gradient of the input. `one`(index, x, gradient of
// h of all steps) returns the gradient of x, and stores the others.
template <typename One>
Tensor back_through(const Layers& layers, const Tensor& input, const Tensor& grad_y, const Tensor& h, One&& one) {
  const auto all_h = wide(h).unbind(0);
  Tensor grad = steps_first(layers, wide(grad_y));
  for (size_t layer = static_cast<size_t>(layers.num_layers); layer-- > 0;) {
    const Tensor x = layer == 0 ? steps_first(layers, wide(input)) : next_input(layers, all_h, layer - 1, true);
    const auto of_directions = grad.chunk(static_cast<int64_t>(layers.directions()), -1);
    Tensor of_x;
    for (size_t direction = layers.directions(); direction-- > 0;) {
      const Tensor its = one(layer * layers.directions() + direction, x, of_directions[direction]);
      of_x = of_x.defined() ? of_x + its : its;
    }
    grad = of_x;
  }
  return rounded_like(steps_first(layers, grad), input);
}

// Stores the gradients of the parameters of one layer and direction. Both biases of an LSTM have the same gradient.
void put_parameters(const Layers& layers, at::TensorList params, size_t index, std::initializer_list<Tensor> grads,
                    std::vector<Tensor>& out) {
  size_t place = index * layers.parameters();
  for (const Tensor& grad : grads) {
    if (place == (index + 1) * layers.parameters()) break;
    out[place] = rounded_like(grad, params[place]);
    ++place;
  }
}

using LstmBackward = std::tuple<Tensor, std::vector<Tensor>, std::vector<Tensor>>;

LstmBackward lstm_layers_backward(const Tensor& grad_y, const Tensor& grad_hy, const Tensor& grad_cy,
                                  const Tensor& input, at::TensorList hx, at::TensorList params, const Tensor& i,
                                  const Tensor& j, const Tensor& f, const Tensor& o, const Tensor& h, const Tensor& c,
                                  const Tensor& tanhc, bool has_biases, int64_t num_layers, double dropout, bool train,
                                  bool bidirectional, std::optional<bool> batch_first,
                                  const OptionalTensor& batch_sizes) {
  const Layers layers = {"_lstm_npu_backward",        has_biases, num_layers, dropout, train, bidirectional,
                         batch_first.value_or(false), batch_sizes};
  check_layers(layers, input, hx, params);
  check_no_dropout(layers);
  std::vector<Tensor> of_h(layers.count()), of_c(layers.count()), of_params(params.size());
  const auto one = [&](size_t index, const Tensor& x, const Tensor& grad) {
    const auto part = [&](const Tensor& all) { return wide(all).select(0, static_cast<int64_t>(index)); };
    const LstmGradients out = lstm_gradients(direction_of(layers, input, hx[0], index), x, {part(hx[0]), part(hx[1])},
                                             lstm_weights(layers, params, index),
                                             {part(h), part(c), part(i), part(j), part(f), part(o), part(tanhc)},
                                             {grad, {}, {part(grad_hy), part(grad_cy)}});
    const LstmWeights& weights = out.weights;
    put_parameters(layers, params, index, {weights.of_x, weights.of_h, weights.bias, weights.bias}, of_params);
    of_h[index] = out.first.h;
    of_c[index] = out.first.c;
    return out.x;
  };
  const Tensor of_input = back_through(layers, input, grad_y, h, one);
  return {of_input, {rounded_like(at::stack(of_h), hx[0]), rounded_like(at::stack(of_c), hx[1])}, of_params};
}

Seven gru_layers(const Tensor& input, const Tensor& hx, at::TensorList params, bool has_biases, int64_t num_layers,
                 double dropout, bool train, bool bidirectional, std::optional<bool> batch_first,
                 const OptionalTensor& batch_sizes) {
  const Layers layers = {"_gru_npu", has_biases, num_layers, dropout, train, bidirectional, batch_first.value_or(false),
                         batch_sizes};
  check_layers(layers, input, hx, params);
  const Tensor h = wide(hx);
  const auto one = [&](size_t index, const Tensor& x) -> std::vector<Tensor> {
    const GruRun run = run_gru(direction_of(layers, input, h, index), x, h[static_cast<int64_t>(index)],
                               gru_weights(layers, params, index));
    const GruSteps& all = run.all;
    return {run.last, all.reset, all.update, all.next, all.hidden, all.h};
  };
  const std::vector<Tensor> out = forward_through(layers, input, 5, one);
  return {out[0], out[1], out[2], out[3], out[4], out[5], out[6]};
}

using GruBackward = std::tuple<Tensor, Tensor, std::vector<Tensor>>;

GruBackward gru_layers_backward(const Tensor& grad_y, const Tensor& grad_h, const Tensor& input, const Tensor& hx,
                                at::TensorList params, const Tensor& r, const Tensor& z, const Tensor& n,
                                const Tensor& h_n, const Tensor& h, bool has_biases, int64_t num_layers, double dropout,
                                bool train, bool bidirectional, std::optional<bool> batch_first,
                                const OptionalTensor& batch_sizes) {
  const Layers layers = {"_gru_npu_backward",         has_biases, num_layers, dropout, train, bidirectional,
                         batch_first.value_or(false), batch_sizes};
  check_layers(layers, input, hx, params);
  check_no_dropout(layers);
  std::vector<Tensor> of_h(layers.count()), of_params(params.size());
  const auto one = [&](size_t index, const Tensor& x, const Tensor& grad) {
    const auto part = [&](const Tensor& all) { return wide(all).select(0, static_cast<int64_t>(index)); };
    const GruGradients out =
        gru_gradients(direction_of(layers, input, hx, index), x, part(hx), gru_weights(layers, params, index),
                      {part(h), part(z), part(r), part(n), part(h_n)}, grad, part(grad_h));
    const GruWeights& weights = out.weights;
    put_parameters(layers, params, index, {weights.of_x, weights.of_h, weights.bias_x, weights.bias_h}, of_params);
    of_h[index] = out.first;
    return out.x;
  };
  const Tensor of_input = back_through(layers, input, grad_y, h, one);
  return {of_input, rounded_like(at::stack(of_h), hx), of_params};
}

Tensor unwritten(const Tensor& x) { return x.new_empty_symint(x.sym_sizes()); }
std::vector<Tensor> unwritten(at::TensorList list) {
  std::vector<Tensor> out;
  for (const Tensor& each : list) out.push_back(unwritten(each));
  return out;
}

// Sizes of y, of the last states, and of results for all steps.
struct ResultSizes {
  c10::SymDimVector y, last, all;
};

ResultSizes sizes_of(const Tensor& input, const Tensor& h, bool bidirectional, bool batch_first, bool packed) {
  ResultSizes out = {c10::SymDimVector(input.sym_sizes()), c10::SymDimVector(h.sym_sizes()), {h.sym_size(0)}};
  out.all.append(out.y.begin(), out.y.end());
  if (batch_first && !packed) std::swap(out.all[1], out.all[2]);
  out.y.back() = h.sym_size(2) * (bidirectional ? 2 : 1);
  out.all.back() = h.sym_size(2);
  return out;
}

Ten lstm_layers_meta(const Tensor& input, at::TensorList hx, at::TensorList, bool, int64_t, double, bool,
                     bool bidirectional, std::optional<bool> batch_first, const OptionalTensor& batch_sizes) {
  const ResultSizes sizes = sizes_of(input, hx[0], bidirectional, batch_first.value_or(false), batch_sizes.has_value());
  const auto last = [&] { return input.new_empty_symint(sizes.last); };
  const auto all = [&] { return input.new_empty_symint(sizes.all); };
  return {input.new_empty_symint(sizes.y), last(), last(), all(), all(), all(), all(), all(), all(), all()};
}

LstmBackward lstm_layers_backward_meta(const Tensor&, const Tensor&, const Tensor&, const Tensor& input,
                                       at::TensorList hx, at::TensorList params, const Tensor&, const Tensor&,
                                       const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool,
                                       int64_t, double, bool, bool, std::optional<bool>, const OptionalTensor&) {
  return {unwritten(input), unwritten(hx), unwritten(params)};
}

Seven gru_layers_meta(const Tensor& input, const Tensor& hx, at::TensorList, bool, int64_t, double, bool,
                      bool bidirectional, std::optional<bool> batch_first, const OptionalTensor& batch_sizes) {
  const ResultSizes sizes = sizes_of(input, hx, bidirectional, batch_first.value_or(false), batch_sizes.has_value());
  const auto all = [&] { return input.new_empty_symint(sizes.all); };
  return {input.new_empty_symint(sizes.y), input.new_empty_symint(sizes.last), all(), all(), all(), all(), all()};
}

GruBackward gru_layers_backward_meta(const Tensor&, const Tensor&, const Tensor& input, const Tensor& hx,
                                     at::TensorList params, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                     const Tensor&, bool, int64_t, double, bool, bool, std::optional<bool>,
                                     const OptionalTensor&) {
  return {unwritten(input), unwritten(hx), unwritten(params)};
}

}  // namespace

void define_recurrent_layers(OperatorLibrary& library) {
  library.add({
      .schema = "npu::_gru_npu(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float "
                "dropout, bool train, bool bidirectional, *, bool? batch_first=False, Tensor? batch_sizes=None) -> "
                "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts_unless({"batch_sizes"}, &gru_layers, &gru_layers_meta),
      .definition = "torch.nn.GRU of any number of layers and one or two directions. params has the weights and biases "
                    "of torch.nn.GRU for each layer and direction, or only the weights if has_biases is False, and hx "
                    "is [layers * directions, B, H]. input is [T, B, I], or [B, T, I] with batch_first, or [rows, I] "
                    "with the batch_sizes of packed sequences. If train is True, dropout is applied between layers. "
                    "Results, all in the type of input, whatever train is: y, [T, B, directions * H], [B, T, "
                    "directions * H] with batch_first, or [rows, directions * H]; the last h in the shape of hx; and "
                    "for all steps, [layers * directions, T, B, H] also with batch_first, or [layers * directions, "
                    "rows, H]: reset, update, new, the part of new that comes from h (W_hn h + b_hn, before it is "
                    "multiplied by reset), and h. Index t of these is time step t in both directions.",
  });
  library.add({
      .schema =
          "npu::_gru_npu_backward(Tensor grad_y, Tensor grad_h, Tensor input, Tensor hx, Tensor[] params, Tensor r, "
          "Tensor z, Tensor n, Tensor h_n, Tensor h, bool has_biases, int num_layers, float dropout, bool train, bool "
          "bidirectional, *, bool? batch_first=False, Tensor? batch_sizes=None) -> (Tensor, Tensor, Tensor[])",
      .kernel = parts_unless({"batch_sizes"}, &gru_layers_backward, &gru_layers_backward_meta),
      .definition = "Gradients of _gru_npu for input, hx and params, in their shapes and types. grad_y and grad_h are "
                    "the gradients of y and of the last h; r, z, n, h_n and h are the last five results of _gru_npu, "
                    "so that h_n is the part of new that comes from h, and not the last h. The other arguments are "
                    "those of the forward call. Dropout between layers in training is refused, because it is not known "
                    "what was dropped.",
  });
  library.add({
      .schema = "npu::_lstm_npu(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float "
                "dropout, bool train, bool bidirectional, *, bool? batch_first=False, Tensor? batch_sizes=None) -> "
                "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts_unless({"batch_sizes"}, &lstm_layers, &lstm_layers_meta),
      .definition = "torch.nn.LSTM of any number of layers and one or two directions. params has the weights and "
                    "biases of torch.nn.LSTM for each layer and direction, or only the weights if has_biases is False, "
                    "and hx is h and c, [layers * directions, B, H] each. input is [T, B, I], or [B, T, I] with "
                    "batch_first, or [rows, I] with the batch_sizes of packed sequences. If train is True, dropout is "
                    "applied between layers. Results, all in the type of input, whatever train is: y, [T, B, "
                    "directions * H], [B, T, directions * H] with batch_first, or [rows, directions * H]; the last h "
                    "and the last c; and for all steps, [layers * directions, T, B, H] also with batch_first, or "
                    "[layers * directions, rows, H]: i, j, f, o, h, c and tanh(c), where j is the candidate. Index t "
                    "of these is time step t in both directions.",
  });
  library.add({
      .schema = "npu::_lstm_npu_backward(Tensor grad_y, Tensor grad_hy, Tensor grad_cy, Tensor input, Tensor[] hx, "
                "Tensor[] params, Tensor i, Tensor j, Tensor f, Tensor o, Tensor h, Tensor c, Tensor tanhc, bool "
                "has_biases, int num_layers, float dropout, bool train, bool bidirectional, *, bool? "
                "batch_first=False, Tensor? batch_sizes=None) -> (Tensor, Tensor[], Tensor[])",
      .kernel = parts_unless({"batch_sizes"}, &lstm_layers_backward, &lstm_layers_backward_meta),
      .definition = "Gradients of _lstm_npu for input, hx and params, in their shapes and types. grad_y, grad_hy and "
                    "grad_cy are the gradients of y, of the last h and of the last c; i, j, f, o, h, c and tanhc are "
                    "the last seven results of _lstm_npu, and the other arguments those of the forward call. Dropout "
                    "between layers in training is refused, because it is not known what was dropped.",
  });
}

}  // namespace npugraph::npu_ops
