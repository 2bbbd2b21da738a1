// SPDX-License-Identifier: Apache-2.0
// Gradients of recurrent networks of one layer and direction, from what the forward operators give.

#include "device/npu_ops/families.h"
#include "device/npu_ops/recurrent/recurrent_steps.h"

namespace npugraph::npu_ops {
namespace {

// The gradient of a state that is returned twice, as y and as h: the sum of the gradients that are given, or undefined.
Tensor sum_of_gradients(const char* op, const OptionalTensor& grad_y, const OptionalTensor& grad_h, const Tensor& h) {
  if (grad_y) check_same_shape(op, "grady", *grad_y, "h", h);
  if (grad_h) check_same_shape(op, "gradh", *grad_h, "h", h);
  if (grad_y && grad_h) return wide(*grad_y) + wide(*grad_h);
  return grad_y ? wide(*grad_y) : wide(grad_h);
}

LstmResultGradients of_results(const char* op, const OptionalTensor& grad_y, const OptionalTensor& grad_h,
                               const OptionalTensor& grad_c, const Tensor& h) {
  if (grad_c) check_same_shape(op, "gradc", *grad_c, "h", h);
  return {sum_of_gradients(op, grad_y, grad_h, h), wide(grad_c), {}};
}

LstmSteps widened(const LstmSteps& all) {
  return {wide(all.h), wide(all.c), wide(all.i), wide(all.j), wide(all.f), wide(all.o), wide(all.tanhc)};
}

// `weight`, [I + H, 4 * H], has the weights of both parts of the input.
Five layer_gradients(const char* op, const Direction& direction, const Tensor& input, const Tensor& weight,
                     const Tensor& bias, const LstmState& first, const LstmSteps& all,
                     const LstmResultGradients& grad) {
  check_same_shape(op, "c", first.c, "h", first.h);
  const Tensor both = wide(weight).t();
  const auto size = input.sym_size(-1);
  const LstmWeights weights = {both.slice_symint(1, 0, size), both.slice_symint(1, size), {}, kGatesIjfo};
  const LstmState state = {wide(first.h).select(0, 0), wide(first.c).select(0, 0)};
  const LstmGradients out = lstm_gradients(direction, wide(input), state, weights, widened(all), grad);
  const Tensor of_weight = at::cat({out.weights.of_x, out.weights.of_h}, 1).t();
  return {rounded_like(out.x, input), rounded_like(of_weight, weight), rounded_like(out.weights.bias, bias),
          rounded_like(out.first.h.unsqueeze(0), first.h), rounded_like(out.first.c.unsqueeze(0), first.c)};
}

Five lstm_backward(const OptionalTensor& grad_y, const OptionalTensor& grad_h, const OptionalTensor& grad_c,
                   const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& hx, const Tensor& cx,
                   const Tensor&, const Tensor& h, const Tensor& c, const Tensor& i, const Tensor& j, const Tensor& f,
                   const Tensor& o, const Tensor& tanhc) {
  constexpr const char* kOp = "npu_lstm_backward";
  check_dims(kOp, "input", input, 3, 3);
  check_dims(kOp, "hx", hx, 3, 3);
  return layer_gradients(kOp, {}, input, weight, bias, {hx, cx}, {h, c, i, j, f, o, tanhc},
                         of_results(kOp, grad_y, grad_h, grad_c, h));
}

Five lstm_data_backward(const OptionalTensor& grad_y, const OptionalTensor& grad_h, const OptionalTensor& grad_c,
                        const Tensor& input, const Tensor& batch_sizes, const Tensor& weight, const Tensor& bias,
                        const Tensor& hx, const Tensor& cx, const Tensor&, const Tensor& h, const Tensor& c,
                        const Tensor& i, const Tensor& j, const Tensor& f, const Tensor& o, const Tensor& tanhc,
                        bool reverse) {
  constexpr const char* kOp = "npu_lstm_data_backward";
  check_dims(kOp, "input", input, 2, 2);
  check_dims(kOp, "init_h", hx, 3, 3);
  return layer_gradients(kOp, packed(kOp, input, batch_sizes, hx, reverse), input, weight, bias, {hx, cx},
                         {h, c, i, j, f, o, tanhc}, of_results(kOp, grad_y, grad_h, grad_c, h));
}

Five lstm_data_backward_meta(const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, const Tensor& input,
                             const Tensor&, const Tensor& weight, const Tensor& bias, const Tensor& hx,
                             const Tensor& cx, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                             const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool) {
  const auto unwritten = [](const Tensor& x) { return x.new_empty_symint(x.sym_sizes()); };
  return {unwritten(input), unwritten(weight), unwritten(bias), unwritten(hx), unwritten(cx)};
}

Seven lstm_cell_backward(const OptionalTensor& grad_y, const OptionalTensor& grad_h, const OptionalTensor& grad_c,
                         const Tensor& input, const Tensor& w_ih, const Tensor& w_hh, const Tensor& h, const Tensor& c,
                         const Tensor&, const Tensor& h_output, const Tensor& c_output, const Tensor& i,
                         const Tensor& j, const Tensor& f, const Tensor& o, const Tensor& tanhc) {
  constexpr const char* kOp = "npu_lstm_cell_backward";
  check_dims(kOp, "input", input, 2, 2);
  check_same_shape(kOp, "c", c, "h", h);
  const auto step = [](const Tensor& x) { return wide(without_step(x)).unsqueeze(0); };
  LstmResultGradients grad = of_results(kOp, grad_y, grad_h, grad_c, h_output);
  for (Tensor* each : {&grad.h, &grad.c})
    if (each->defined()) *each = step(*each);
  const LstmSteps all = {step(h_output), step(c_output), step(i), step(j), step(f), step(o), step(tanhc)};
  const LstmGradients out = lstm_gradients({}, step(input), {wide(without_step(h)), wide(without_step(c))},
                                           {wide(w_ih), wide(w_hh), {}, kGatesIfjo}, all, grad);
  return {rounded_like(out.x.squeeze(0), input),
          rounded_like(out.weights.of_x, w_ih),
          rounded_like(out.weights.of_h, w_hh),
          rounded_like(out.weights.bias, w_ih),
          rounded_like(out.weights.bias, w_ih),
          rounded_like(out.first.h.reshape_symint(h.sym_sizes()), h),
          rounded_like(out.first.c.reshape_symint(c.sym_sizes()), c)};
}

Six gru_backward(const OptionalTensor& grad_y, const OptionalTensor& grad_h, const Tensor& input,
                 const Tensor& weight_input, const Tensor& weight_hidden, const Tensor& bias_input,
                 const Tensor& bias_hidden, const Tensor&, const Tensor& hx, const Tensor&, const Tensor& h,
                 const Tensor& update, const Tensor& reset, const Tensor& next, const Tensor& hidden) {
  constexpr const char* kOp = "npu_gru_backward";
  check_dims(kOp, "input", input, 3, 3);
  check_dims(kOp, "hx", hx, 3, 3);
  const GruSteps all = {wide(h), wide(update), wide(reset), wide(next), wide(hidden)};
  const GruGradients out =
      gru_gradients({}, wide(input), wide(hx).select(0, 0), {wide(weight_input).t(), wide(weight_hidden).t(), {}, {}},
                    all, sum_of_gradients(kOp, grad_y, grad_h, h), {});
  return {rounded_like(out.weights.of_x.t(), weight_input),
          rounded_like(out.weights.of_h.t(), weight_hidden),
          rounded_like(out.x, input),
          rounded_like(out.weights.bias_x, bias_input),
          rounded_like(out.weights.bias_h, bias_hidden),
          rounded_like(out.first.unsqueeze(0), hx)};
}

}  // namespace

void define_recurrent_gradients(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_gru_backward(Tensor? grady, Tensor? gradh, Tensor input, Tensor weight_input, Tensor "
                "weight_hidden, Tensor bias_input, Tensor bias_hidden, Tensor seq_length, Tensor hx, Tensor y_output, "
                "Tensor h_output, Tensor output_updata, Tensor output_reset, Tensor output_new, Tensor hidden_new) -> "
                "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&gru_backward),
      .traits = {.on_host = {"seq_length"}},
      .definition = "Gradients of npu_gru for an input [T, B, I], from the results of the forward call. grady and "
                    "gradh are the gradients of y and of h of all steps. seq_length and y_output are ignored. Results: "
                    "the gradients of weight_input, weight_hidden, input, bias_input, bias_hidden and hx, in their "
                    "shapes and types. Ascend does not publish this order.",
  });
  library.add({
      .schema = "npu::npu_lstm_backward(Tensor? grady, Tensor? gradh, Tensor? gradc, Tensor input, Tensor weight, "
                "Tensor bias, Tensor hx, Tensor cx, Tensor y_output, Tensor h_output, Tensor c_output, Tensor i, "
                "Tensor j, Tensor f, Tensor o, Tensor tanhc) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&lstm_backward),
      .definition = "Gradients of npu_lstm for an input [T, B, I] and steps from the first to the last, from the "
                    "results of the forward call. grady, gradh and gradc are the gradients of y and of h and c of all "
                    "steps. y_output is ignored. Results: the gradients of input, weight, bias, h and c, in their "
                    "shapes and types. Ascend does not publish this order.",
  });
  library.add({
      .schema = "npu::npu_lstm_cell_backward(Tensor? grady, Tensor? gradh, Tensor? gradc, Tensor input, Tensor w_ih, "
                "Tensor w_hh, Tensor h, Tensor c, Tensor y_output, Tensor h_output, Tensor c_output, Tensor i, Tensor "
                "j, Tensor f, Tensor o, Tensor tanhc) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&lstm_cell_backward),
      .definition = "Gradients of npu_lstm_cell from the results of the forward call. grady, gradh and gradc are the "
                    "gradients of y, h and c. y_output is ignored. Results: the gradients of input, w_ih, w_hh, b_ih, "
                    "b_hh, h and c, in the shapes and types of these and, for the biases, [4 * H] in the type of w_ih. "
                    "Ascend does not publish this order.",
  });
  library.add({
      .schema = "npu::npu_lstm_data_backward(Tensor? grady_opt, Tensor? gradh_opt, Tensor? gradc_opt, Tensor input, "
                "Tensor batch_sizes, Tensor weight, Tensor bias, Tensor init_h, Tensor init_c, Tensor y, Tensor h, "
                "Tensor c, Tensor i, Tensor j, Tensor f, Tensor o, Tensor tanhc, bool flag_direction) -> (Tensor, "
                "Tensor, Tensor, Tensor, Tensor)",
      .kernel = whole(&lstm_data_backward, &lstm_data_backward_meta),
      .definition = "npu_lstm_backward for npu_lstm_data: input is [rows, I], and batch_sizes are those of the packed "
                    "sequences. flag_direction is the direction of the forward call; True means from the last step to "
                    "the first.",
  });
}

}  // namespace npugraph::npu_ops
