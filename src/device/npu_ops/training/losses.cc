// SPDX-License-Identifier: Apache-2.0
// Losses and their gradients, in float32.

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

struct CrossEntropy {
  const char* op;
  const OptionalTensor& weight;
  c10::string_view reduction;
  int64_t ignore_index;
  double smoothing;
};

int64_t number_of(const char* op, c10::string_view reduction) {
  if (reduction == "none") return at::Reduction::None;
  if (reduction == "mean") return at::Reduction::Mean;
  TORCH_CHECK(reduction == "sum", op, ": reduction is \"", reduction, "\", allowed are \"none\", \"mean\" and \"sum\"");
  return at::Reduction::Sum;
}

void check_cross_entropy(const CrossEntropy& how, const char* name, const Tensor& input, const Tensor& target) {
  check_floating(how.op, name, input);
  check_dims(how.op, name, input, 2, 2);
  check_dims(how.op, "target", target, 1, 1);
  check_type(how.op, "target", target, {at::kLong, at::kInt});
  TORCH_CHECK(how.smoothing >= 0 && how.smoothing < 1, how.op, ": label_smoothing is ", how.smoothing,
              ", allowed are 0 up to 1");
}

// The factor of each log probability in the loss, [N, C]; for a mean already divided by the sum of the weights.
Tensor coefficients(const CrossEntropy& how, const Tensor& like, const Tensor& target) {
  const Tensor kept = target.to(at::kLong).ne(how.ignore_index);
  const Tensor place = target.to(at::kLong).masked_fill(kept.logical_not(), 0);
  const Tensor weight = how.weight ? wide(*how.weight) : like.new_ones_symint({like.sym_size(1)}, at::kFloat);
  const Tensor own = weight.index_select(0, place) * kept;
  const Tensor smooth = weight.unsqueeze(0) * kept.unsqueeze(1) * how.smoothing / at::Scalar(like.sym_size(1));
  const Tensor out = -smooth.scatter_add(1, place.unsqueeze(1), (own * (1 - how.smoothing)).unsqueeze(1));
  return how.reduction == "mean" ? out / own.sum() : out;
}

Tensor reduced(const CrossEntropy& how, const Tensor& values) {
  if (how.reduction == "none") return values;
  return (how.reduction == "mean" ? values.mean() : values.sum()).unsqueeze(0);
}

Four cross_entropy_loss(const Tensor& input, const Tensor& target, const OptionalTensor& weight,
                        c10::string_view reduction, int64_t ignore_index, double smoothing, double zloss_scale,
                        bool return_zloss) {
  const CrossEntropy how = {"npu_cross_entropy_loss", weight, reduction, ignore_index, smoothing};
  number_of(how.op, reduction);
  check_cross_entropy(how, "input", input, target);
  const Tensor exact = wide(input);
  const Tensor log_prob = exact.log_softmax(1);
  const Tensor terms = (coefficients(how, exact, target) * log_prob).sum(1);
  Tensor loss = reduction == "none" ? terms : terms.sum(0, /*keepdim=*/true);
  const auto none = [&] { return input.new_empty({0}); };
  if (!return_zloss && zloss_scale == 0)
    return {loss.to(input.scalar_type()), log_prob.to(input.scalar_type()), none(), none()};
  const Tensor lse = exact.logsumexp(1);
  const Tensor zloss = reduced(how, lse.square() * target.ne(ignore_index)) * zloss_scale;
  loss = loss + zloss;
  return {loss.to(input.scalar_type()), log_prob.to(input.scalar_type()),
          return_zloss ? zloss.to(input.scalar_type()) : none(), lse.to(input.scalar_type())};
}

Tensor cross_entropy_loss_backward(const Tensor& grad_loss, const Tensor& log_prob, const Tensor& target,
                                   const OptionalTensor& weight, const OptionalTensor& grad_zloss,
                                   const OptionalTensor& lse, c10::string_view reduction, int64_t ignore_index,
                                   double smoothing, double zloss_scale) {
  const CrossEntropy how = {"npu_cross_entropy_loss_backward", weight, reduction, ignore_index, smoothing};
  const int64_t number = number_of(how.op, reduction);
  check_cross_entropy(how, "log_prob", log_prob, target);
  const Tensor exact = wide(log_prob);
  const Tensor rows = number == at::Reduction::None ? wide(grad_loss).unsqueeze(1) : wide(grad_loss);
  const Tensor of_log = coefficients(how, exact, target) * rows;
  Tensor out = of_log - exact.exp() * of_log.sum(1, true);
  if (zloss_scale != 0 && lse) {
    Tensor of_zloss = wide(grad_loss);
    if (grad_zloss) of_zloss = of_zloss + wide(*grad_zloss);
    Tensor of_lse = of_zloss * wide(*lse) * target.ne(ignore_index) * (2 * zloss_scale);
    if (number == at::Reduction::Mean) of_lse = of_lse / at::Scalar(log_prob.sym_size(0));
    out = out + exact.exp() * of_lse.unsqueeze(1);
  }
  return out.to(log_prob.scalar_type());
}

Tensor softmax_cross_entropy(const Tensor& input, const Tensor& labels) {
  constexpr const char* kOp = "npu_softmax_cross_entropy_with_logits";
  check_floating(kOp, "input", input);
  check_same_shape(kOp, "labels", labels, "input", input);
  return -(wide(labels) * wide(input).log_softmax(-1)).sum(-1).to(input.scalar_type());
}

Tensor softmax_cross_entropy_backward(const Tensor& grad, const Tensor& input, const Tensor& labels) {
  constexpr const char* kOp = "npu_softmax_cross_entropy_with_logits_backward";
  check_same_shape(kOp, "labels", labels, "input", input);
  const Tensor expected = wide(labels);
  const Tensor out = wide(input).softmax(-1) * expected.sum(-1, true) - expected;
  return (out * wide(grad).unsqueeze(-1)).to(input.scalar_type());
}

// The gradient of each element, given the gradient `grad` of the reduced loss.
Tensor of_elements(const Tensor& grad, const Tensor& input, int64_t reduction) {
  const Tensor exact = wide(grad);
  return reduction == at::Reduction::Mean ? exact / at::Scalar(input.sym_numel()) : exact;
}

Tensor bce_with_logits_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                                const OptionalTensor& weight, const OptionalTensor& pos_weight, int64_t reduction) {
  check_choice("npu_binary_cross_entropy_with_logits_backward", "reduction", reduction, {0, 1, 2});
  const Tensor exact = wide(target);
  Tensor out = wide(input).sigmoid();
  out = pos_weight ? ((wide(*pos_weight) - 1) * exact + 1) * out - wide(*pos_weight) * exact : out - exact;
  if (weight) out = out * wide(*weight);
  return (out * of_elements(grad, input, reduction)).to(input.scalar_type());
}

Tensor kl_div_backward(const Tensor& grad, const Tensor& input, const Tensor& target, int64_t reduction,
                       bool log_target) {
  check_choice("kl_div_backward", "reduction", reduction, {0, 1, 2});
  const Tensor exact = log_target ? wide(target).exp() : wide(target).clamp_min(0);
  return (-exact * of_elements(grad, input, reduction)).to(input.scalar_type());
}

Tensor kl_div_target_backward(const Tensor& grad, const Tensor& input, const Tensor& target, int64_t reduction,
                              bool log_target) {
  check_choice("kl_div_target_backward", "reduction", reduction, {0, 1, 2});
  const Tensor exact = wide(target);
  const Tensor each = of_elements(grad, input, reduction);
  if (log_target) return ((exact - wide(input) + 1) * exact.exp() * each).to(target.scalar_type());
  const Tensor out = (exact.log() - wide(input) + 1) * each;
  return out.masked_fill(exact <= 0, 0).to(target.scalar_type());
}

Tensor l1_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, int64_t reduction) {
  check_choice("l1_loss_backward", "reduction", reduction, {0, 1, 2});
  return ((wide(input) - wide(target)).sign() * of_elements(grad, input, reduction)).to(input.scalar_type());
}

Two fused_cross_entropy_loss(const Tensor& logits_max, const Tensor& sum_exp, const Tensor& predicted,
                             std::optional<double> smoothing, const OptionalTensor&, const OptionalTensor&,
                             const OptionalTensor& logits) {
  constexpr const char* kOp = "npu_fused_cross_entropy_loss_with_max_sum";
  check_dims(kOp, "logits_max", logits_max, 1, 1);
  check_same_shape(kOp, "sum_exp_logits", sum_exp, "logits_max", logits_max);
  check_same_shape(kOp, "predicted_logits", predicted, "logits_max", logits_max);
  TORCH_CHECK(smoothing.value_or(0) == 0, kOp, ": label_smoothing is ", *smoothing, ", allowed is 0");
  const Tensor loss = sum_exp.log() - predicted;
  if (!logits) return {loss, logits_max.new_empty({0})};
  return {loss, (wide(*logits) - logits_max.unsqueeze(1)).exp() / sum_exp.unsqueeze(1)};
}

}  // namespace

void define_losses(OperatorLibrary& library) {
  library.add({
      .schema = "npu::kl_div_backward(Tensor grad_output, Tensor input, Tensor target, int reduction=Mean, *, bool "
                "log_target=False) -> Tensor",
      .kernel = parts(&kl_div_backward),
      .definition = "Gradient of torch.nn.functional.kl_div with respect to input, from the gradient grad_output of "
                    "the reduced loss. reduction is 0 (none), 1 (mean) or 2 (sum). With log_target, target contains "
                    "logarithms. The result has the type of input.",
  });
  library.add({
      .schema = "npu::kl_div_target_backward(Tensor grad_output, Tensor input, Tensor target, int reduction=Mean, *, "
                "bool log_target=False) -> Tensor",
      .kernel = parts(&kl_div_target_backward),
      .definition = "Gradient of torch.nn.functional.kl_div with respect to target, from the gradient grad_output of "
                    "the reduced loss. reduction is 0 (none), 1 (mean) or 2 (sum). With log_target, target contains "
                    "logarithms; otherwise the gradient is 0 where target is not positive. The result has the type of "
                    "target.",
  });
  library.add({
      .schema = "npu::l1_loss_backward(Tensor grad_output, Tensor input, Tensor target, int reduction) -> Tensor",
      .kernel = parts(&l1_loss_backward),
      .definition = "Gradient of torch.nn.functional.l1_loss with respect to input, from the gradient grad_output of "
                    "the reduced loss. reduction is 0 (none), 1 (mean) or 2 (sum). The result has the type of input.",
  });
  library.add({
      .schema = "npu::npu_binary_cross_entropy_with_logits_backward(Tensor grad_output, Tensor input, Tensor target, "
                "Tensor? weight_opt, Tensor? pos_weight_opt, int reduction) -> Tensor",
      .kernel = parts(&bce_with_logits_backward),
      .definition = "Gradient of torch.nn.functional.binary_cross_entropy_with_logits with respect to input, from the "
                    "gradient grad_output of the reduced loss. weight_opt and pos_weight_opt are its weight and "
                    "pos_weight. reduction is 0 (none), 1 (mean) or 2 (sum). The result has the type of input.",
  });
  library.add({
      .schema = "npu::npu_cross_entropy_loss(Tensor input, Tensor target, Tensor? weight=None, str reduction='mean', "
                "int ignore_index=-100, float label_smoothing=0.0, float lse_square_scale_for_zloss=0.0, bool "
                "return_zloss=False) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&cross_entropy_loss),
      .definition = "torch.nn.functional.cross_entropy of logits input [N, C] and class indices target [N], plus the "
                    "z-loss (Chowdhery et al., 2022). The z-loss is lse_square_scale_for_zloss times the reduction of "
                    "logsumexp(input)^2 over all rows, where those with target ignore_index count as 0. weight is [C]. "
                    "Results, in the type of input: the loss with the z-loss, [N] with reduction 'none' and otherwise "
                    "[1]; log_softmax(input) [N, C]; the z-loss alone, with return_zloss; and logsumexp(input) [N], "
                    "with return_zloss or with a scale that is not 0. The last two are empty otherwise.",
  });
  library.add({
      .schema = "npu::npu_cross_entropy_loss_backward(Tensor grad_loss, Tensor log_prob, Tensor target, Tensor? "
                "weight=None, Tensor? grad_zloss=None, Tensor? lse_for_zloss=None, str reduction='mean', int "
                "ignore_index=-100, float label_smoothing=0.0, float lse_square_scale_for_zloss=0.0) -> Tensor",
      .kernel = parts(&cross_entropy_loss_backward),
      .definition = "Gradient of npu_cross_entropy_loss with respect to input, from the gradients grad_loss of the "
                    "loss and grad_zloss of the z-loss. log_prob and lse_for_zloss are its second and fourth results, "
                    "and the other arguments are those of the forward call. The z-loss has a part only with "
                    "lse_for_zloss and a scale that is not 0. The result has the shape and type of log_prob.",
  });
  library.add({
      .schema = "npu::npu_fused_cross_entropy_loss_with_max_sum(Tensor logits_max, Tensor sum_exp_logits, Tensor "
                "predicted_logits, *, float? label_smoothing=0.0, Tensor? input=None, Tensor? weight=None, Tensor? "
                "vocab_parallel_logits=None) -> (Tensor, Tensor)",
      .kernel = parts(&fused_cross_entropy_loss),
      .definition = "Cross entropy of logits whose vocabulary is divided among ranks, from statistics that are reduced "
                    "over all ranks (Megatron-LM: Shoeybi et al., 2019). logits_max [N] is the largest logit of each "
                    "token, sum_exp_logits [N] the sum of exp(logit - logits_max), and predicted_logits [N] the logit "
                    "of the target minus logits_max. Results: the loss log(sum_exp_logits) - predicted_logits [N], and "
                    "the softmax exp(vocab_parallel_logits - logits_max) / sum_exp_logits of this rank's logits [N, "
                    "V], which is empty without vocab_parallel_logits. label_smoothing must be 0; input and weight are "
                    "ignored.",
  });
  library.add({
      .schema = "npu::npu_softmax_cross_entropy_with_logits(Tensor input, Tensor labels) -> Tensor",
      .kernel = parts(&softmax_cross_entropy),
      .definition = "Cross entropy of logits input and probabilities labels, both [..., C]: -sum(labels * "
                    "log_softmax(input)) over the last dimension. The result is [...] in the type of input.",
  });
  library.add({
      .schema =
          "npu::npu_softmax_cross_entropy_with_logits_backward(Tensor grad, Tensor input, Tensor labels) -> Tensor",
      .kernel = parts(&softmax_cross_entropy_backward),
      .definition = "Gradient of npu_softmax_cross_entropy_with_logits with respect to input, from the gradient grad "
                    "of its result. The result has the shape and type of input.",
  });
}

}  // namespace npugraph::npu_ops
