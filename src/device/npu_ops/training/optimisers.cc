// SPDX-License-Identifier: Apache-2.0
// Steps of optimisers. `out` holds the variable and its two moments, which are written. Overloads without `out` do not
// get these tensors, so that only the sizes of their results are known.
#include <cmath>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

using at::Scalar;

struct State {
  Tensor var, m, v;  // in float32
};

State state_of(const char* op, at::TensorList out, const Tensor& grad) {
  TORCH_CHECK(out.size() == 3, op, ": out has ", out.size(), " tensors, allowed are var, m and v");
  check_floating(op, "grad", grad);
  for (const Tensor& tensor : out) check_same_shape(op, "out", tensor, "grad", grad);
  return {wide(out[0]), wide(out[1]), wide(out[2])};
}

Three written(at::TensorList out, const State& state) {
  return {Tensor(out[0]).copy_(state.var), Tensor(out[1]).copy_(state.m), Tensor(out[2]).copy_(state.v)};
}

// Updates the exponential averages of the gradient and of its square.
void average(State& state, const Tensor& grad, const Scalar& beta1, const Scalar& beta2) {
  state.m = state.m * beta1 + grad * (1 - beta1.toDouble());
  state.v = state.v * beta2 + grad.square() * (1 - beta2.toDouble());
}

Three apply_adam(const Scalar& beta1_power, const Scalar& beta2_power, const Scalar& lr, const Scalar& beta1,
                 const Scalar& beta2, const Scalar& epsilon, const Tensor& grad, std::optional<bool>,
                 std::optional<bool> use_nesterov, at::TensorList out) {
  State state = state_of("npu_apply_adam", out, grad);
  const Tensor exact = wide(grad);
  average(state, exact, beta1, beta2);
  const double rate = lr.toDouble() * std::sqrt(1 - beta2_power.toDouble()) / (1 - beta1_power.toDouble());
  const Tensor step = use_nesterov.value_or(false) ? state.m * beta1 + exact * (1 - beta1.toDouble()) : state.m;
  state.var = state.var - step * rate / (state.v.sqrt() + epsilon);
  return written(out, state);
}

Three apply_adam_w(const Scalar& beta1_power, const Scalar& beta2_power, const Scalar& lr, const Scalar& weight_decay,
                   const Scalar& beta1, const Scalar& beta2, const Scalar& epsilon, const Tensor& grad,
                   const OptionalTensor& max_grad_norm, std::optional<bool> amsgrad, std::optional<bool> maximize,
                   at::TensorList out) {
  constexpr const char* kOp = "npu_apply_adam_w";
  State state = state_of(kOp, out, grad);
  TORCH_CHECK(!amsgrad.value_or(false) || max_grad_norm, kOp, ": amsgrad asks for max_grad_norm");
  average(state, maximize.value_or(false) ? -wide(grad) : wide(grad), beta1, beta2);
  const Tensor v = amsgrad.value_or(false) ? at::maximum(wide(*max_grad_norm), state.v) : state.v;
  const Tensor denominator = (v / (1 - beta2_power.toDouble())).sqrt() + epsilon;
  const double rate = lr.toDouble() / (1 - beta1_power.toDouble());
  state.var = state.var * (1 - lr.toDouble() * weight_decay.toDouble()) - state.m * rate / denominator;
  if (amsgrad.value_or(false)) Tensor(*max_grad_norm).copy_(v);
  return written(out, state);
}

Three bert_apply_adam(const Scalar& lr, const Scalar& beta1, const Scalar& beta2, const Scalar& epsilon,
                      const Tensor& grad, const Scalar& max_grad_norm, const Scalar& global_grad_norm,
                      const Scalar& weight_decay, const std::optional<Scalar>&, int64_t adam_mode, at::TensorList out) {
  constexpr const char* kOp = "npu_bert_apply_adam";
  State state = state_of(kOp, out, grad);
  check_choice(kOp, "adam_mode", adam_mode, {0});
  const double limit = max_grad_norm.toDouble(), norm = global_grad_norm.toDouble();
  average(state, limit > 0 && norm > limit ? wide(grad) * (limit / norm) : wide(grad), beta1, beta2);
  const Tensor step = state.m / (state.v.sqrt() + epsilon) + state.var * weight_decay;
  state.var = state.var - step * lr;
  return written(out, state);
}

Three state_like(const Tensor& grad) {
  const auto one = [&] { return grad.new_empty_symint(grad.sym_sizes()); };
  return {one(), one(), one()};
}

Three apply_adam_sizes(const Scalar&, const Scalar&, const Scalar&, const Scalar&, const Scalar&, const Scalar&,
                       const Tensor& grad, std::optional<bool>, std::optional<bool>) {
  return state_like(grad);
}

Three apply_adam_w_sizes(const Scalar&, const Scalar&, const Scalar&, const Scalar&, const Scalar&, const Scalar&,
                         const Scalar&, const Tensor& grad, const OptionalTensor&, std::optional<bool>,
                         std::optional<bool>) {
  return state_like(grad);
}

Three bert_apply_adam_sizes(const Scalar&, const Scalar&, const Scalar&, const Scalar&, const Tensor& grad,
                            const Scalar&, const Scalar&, const Scalar&, const std::optional<Scalar>&, int64_t) {
  return state_like(grad);
}

}  // namespace

void define_optimisers(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_apply_adam.out(Scalar beta1_power, Scalar beta2_power, Scalar lr, Scalar beta1, Scalar "
                "beta2, Scalar epsilon, Tensor grad, bool? use_locking, bool? use_nesterov, *, Tensor[] out) -> "
                "(Tensor, Tensor, Tensor)",
      .kernel = composite(&apply_adam),
      .definition = "One step of Adam (Kingma and Ba, 2015). out is the list of var and its moments m and v, of the "
                    "shape of grad, which are written and returned. m = beta1 * m + (1 - beta1) * grad, v = beta2 * v "
                    "+ (1 - beta2) * grad^2, and var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) "
                    "+ epsilon). beta1_power and beta2_power are beta1 and beta2 to the power of the number of this "
                    "step. With use_nesterov, beta1 * m + (1 - beta1) * grad takes the place of m in the update of "
                    "var. use_locking is ignored.",
  });
  library.add({
      .schema = "npu::npu_apply_adam_w.out(Scalar beta1_power, Scalar beta2_power, Scalar lr, Scalar weight_decay, "
                "Scalar beta1, Scalar beta2, Scalar epsilon, Tensor grad, Tensor? max_grad_norm, bool? amsgrad, bool? "
                "maximize, *, Tensor[] out) -> (Tensor, Tensor, Tensor)",
      .kernel = composite(&apply_adam_w),
      .definition = "One step of AdamW (Loshchilov and Hutter, 2019), as torch.optim.AdamW computes it. out is the "
                    "list of var and its moments m and v, of the shape of grad, which are written and returned. "
                    "beta1_power and beta2_power are beta1 and beta2 to the power of the number of this step. maximize "
                    "negates grad. With amsgrad, max_grad_norm is needed: it holds the largest v so far and is "
                    "written, too.",
  });
  library.add({
      .schema = "npu::npu_bert_apply_adam.out(Scalar lr, Scalar beta1, Scalar beta2, Scalar epsilon, Tensor grad, "
                "Scalar max_grad_norm, Scalar global_grad_norm, Scalar weight_decay, Scalar? step_size=None, int "
                "adam_mode=0, *, Tensor[] out) -> (Tensor, Tensor, Tensor)",
      .kernel = composite(&bert_apply_adam),
      .definition = "One step of BERT's Adam (Devlin et al., 2019), without correction of bias. out is the list of var "
                    "and its moments m and v, of the shape of grad, which are written and returned. grad is multiplied "
                    "by max_grad_norm / global_grad_norm where global_grad_norm is larger and max_grad_norm positive. "
                    "With m and v as in npu_apply_adam.out, var -= lr * (m / (sqrt(v) + epsilon) + weight_decay * "
                    "var). adam_mode must be 0; step_size is ignored.",
  });
  library.add({
      .schema = "npu::npu_apply_adam(Scalar beta1_power, Scalar beta2_power, Scalar lr, Scalar beta1, Scalar beta2, "
                "Scalar epsilon, Tensor grad, bool? use_locking, bool? use_nesterov) -> (Tensor, Tensor, Tensor)",
      .kernel = sizes_only(&apply_adam_sizes),
      .definition = "npu_apply_adam.out without the tensors var, m and v. It has nothing to compute with, so calls "
                    "raise NotImplementedError; on meta tensors, the results have the shape and type of grad.",
  });
  library.add({
      .schema = "npu::npu_apply_adam_w(Scalar beta1_power, Scalar beta2_power, Scalar lr, Scalar weight_decay, Scalar "
                "beta1, Scalar beta2, Scalar epsilon, Tensor grad, Tensor? max_grad_norm, bool? amsgrad, bool? "
                "maximize) -> (Tensor, Tensor, Tensor)",
      .kernel = sizes_only(&apply_adam_w_sizes),
      .definition = "npu_apply_adam_w.out without the tensors var, m and v. It has nothing to compute with, so calls "
                    "raise NotImplementedError; on meta tensors, the results have the shape and type of grad.",
  });
  library.add({
      .schema = "npu::npu_bert_apply_adam(Scalar lr, Scalar beta1, Scalar beta2, Scalar epsilon, Tensor grad, Scalar "
                "max_grad_norm, Scalar global_grad_norm, Scalar weight_decay, Scalar? step_size=None, int adam_mode=0) "
                "-> (Tensor var, Tensor m, Tensor v)",
      .kernel = sizes_only(&bert_apply_adam_sizes),
      .definition = "npu_bert_apply_adam.out without the tensors var, m and v. It has nothing to compute with, so "
                    "calls raise NotImplementedError; on meta tensors, the results have the shape and type of grad.",
  });
}

}  // namespace npugraph::npu_ops
