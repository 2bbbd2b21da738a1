// SPDX-License-Identifier: Apache-2.0
// Cross entropy of logits that are a product of matrices, for a part of the vocabulary (Megatron-LM: Shoeybi et al.,
// 2019). Computed in float32.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

constexpr int64_t kBitsInByte = 8;

// Packs `flags`, [rows], into bits, the first in the lowest bit of the first byte; the last byte is padded with 0.
Tensor packed_flags(const Tensor& flags) {
  const c10::SymInt rows = flags.sym_size(0), bytes = (rows + kBitsInByte - 1) / kBitsInByte;
  return pack_bits(longer(flags, 0, bytes * kBitsInByte - rows));
}

void check_product(const char* op, const Tensor& input, const Tensor& weight) {
  check_floating(op, "input", input);
  check_type(op, "weight", weight, {input.scalar_type()});
  check_dims(op, "input", input, 2, 2);
  check_dims(op, "weight", weight, 2, 2);
  TORCH_CHECK(input.sym_size(1) == weight.sym_size(1), op, ": input has ", input.sym_size(1),
              " columns, and weight has ", weight.sym_size(1));
}

Six linear_online_max_sum(const Tensor& input, const Tensor& weight, const Tensor& target, int64_t vocab_start_index,
                          int64_t vocab_end_index, bool return_logits) {
  const char* op = "npu_fused_linear_online_max_sum";
  check_product(op, input, weight);
  check_dims(op, "target", target, 1, 1);
  check_type(op, "target", target, {at::kLong, at::kInt});
  TORCH_CHECK(vocab_start_index >= 0 && vocab_end_index >= vocab_start_index, op, ": vocab_start_index is ",
              vocab_start_index, " and vocab_end_index ", vocab_end_index,
              ", allowed are 0 and more, and no less than the start");
  const Tensor place = target - vocab_start_index;
  const Tensor is_elsewhere =
      place.lt(0).logical_or(target.gt(vocab_end_index)).logical_or(place.ge(c10::Scalar(weight.sym_size(0))));
  const Tensor masked_target = place.masked_fill(is_elsewhere, 0);
  const Tensor logits = wide(input).matmul(wide(weight).t());
  const Tensor max = logits.amax(1);
  const Tensor shifted = logits - max.unsqueeze(1);
  const Tensor predicted =
      shifted.gather(1, masked_target.to(at::kLong).unsqueeze(1)).squeeze(1).masked_fill(is_elsewhere, 0);
  return {max,           shifted.exp().sum(1),
          predicted,     packed_flags(is_elsewhere),
          masked_target, return_logits ? logits.to(input.scalar_type()) : input.new_empty({0})};
}

Tensor softmax_of(const char* op, const Tensor& input, const Tensor& weight, const OptionalTensor& logits_max,
                  const OptionalTensor& sum_exp_logits, const OptionalTensor& softmax) {
  if (softmax && softmax->defined()) return wide(*softmax);
  TORCH_CHECK(logits_max && sum_exp_logits, op, ": softmax is needed, or logits_max and sum_exp_logits");
  const Tensor logits = wide(input).matmul(wide(weight).t());
  return (logits - logits_max->unsqueeze(1)).exp() / sum_exp_logits->unsqueeze(1);
}

std::tuple<Tensor, Tensor> linear_cross_entropy_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                                         const Tensor& target_mask, const Tensor& masked_target,
                                                         double label_smoothing, const OptionalTensor& logits_max,
                                                         const OptionalTensor& sum_exp_logits,
                                                         const OptionalTensor& softmax) {
  const char* op = "npu_fused_linear_cross_entropy_loss_with_max_sum_backward";
  check_product(op, input, weight);
  check_dims(op, "grad", grad, 1, 1);
  TORCH_CHECK(label_smoothing == 0, op, ": label_smoothing is ", label_smoothing, ", allowed is 0");
  const Tensor place = masked_target.to(at::kLong).unsqueeze(1);
  const Tensor is_here = unpack_bits(target_mask).narrow_symint(0, 0, masked_target.sym_size(0)).logical_not();
  const Tensor probability = softmax_of(op, input, weight, logits_max, sum_exp_logits, softmax);
  const Tensor less_own = probability.scatter_add(1, place, is_here.to(probability.scalar_type()).neg().unsqueeze(1));
  const Tensor of_logits = less_own * wide(grad).unsqueeze(1);
  return {of_logits.matmul(wide(weight)).to(input.scalar_type()),
          of_logits.t().matmul(wide(input)).to(weight.scalar_type())};
}

}  // namespace

void define_vocabulary_losses(OperatorLibrary& library) {
  library.add({
      .schema =
          "npu::npu_fused_linear_online_max_sum(Tensor input, Tensor weight, Tensor target, int vocab_start_index, int "
          "vocab_end_index, bool return_logits=False) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&linear_online_max_sum),
      .definition = "Logits of one rank's part of a divided vocabulary, and their statistics for the cross entropy "
                    "(Megatron-LM: Shoeybi et al., 2019). logits = input @ weight^T, with input [N, H] and weight [V, "
                    "H]. Its columns are the vocabulary entries from vocab_start_index to vocab_end_index (the last "
                    "entry, or the one after it), and target [N] are indices into the whole vocabulary. Results, the "
                    "first three in float32: logits_max [N], the largest logit of each row; sum_exp_logits [N], the "
                    "sum of exp(logits - logits_max); predicted_logits [N], the logit of target minus logits_max, or 0 "
                    "where target is on another rank; target_mask in uint8, bits that are 1 where target is on another "
                    "rank, with the first row in the lowest bit; masked_target [N], the column of target, or 0 where "
                    "it is on another rank; and logits [N, V] in the type of input, empty without return_logits.",
  });
  library.add({
      .schema = "npu::npu_fused_linear_cross_entropy_loss_with_max_sum_backward(Tensor grad, Tensor input, Tensor "
                "weight, Tensor target_mask, Tensor masked_target, float label_smoothing=0.0, Tensor? logits_max=None, "
                "Tensor? sum_exp_logits=None, Tensor? softmax=None) -> (Tensor, Tensor)",
      .kernel = parts(&linear_cross_entropy_backward),
      .definition = "Gradients of npu_fused_cross_entropy_loss_with_max_sum with respect to input and weight of "
                    "npu_fused_linear_online_max_sum, in their types. grad [N] is the gradient of the loss, and that "
                    "of the logits is grad * (softmax - one_hot(masked_target)), without the one_hot in rows whose bit "
                    "in target_mask is 1. Without softmax [N, V], logits_max and sum_exp_logits are needed, and "
                    "softmax is exp(input @ weight^T - logits_max) / sum_exp_logits. label_smoothing must be 0.",
  });
}

}  // namespace npugraph::npu_ops
