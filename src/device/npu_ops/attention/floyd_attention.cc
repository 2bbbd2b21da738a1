// SPDX-License-Identifier: Apache-2.0
// Attention of pairs (i, k) to all paths from i over j to k, as in the shortest paths of Floyd
// and Warshall. In float32.
#include <tuple>

#include "device/npu_ops/attention/attention_core.h"
#include "device/npu_ops/attention/attention_layout.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

// Queries and results are [batches, heads, I, K, size], tensors for (i, j) [.., I, J, size], tensors for (j, k) [.., J,
// K, size]; scores and weights are [.., I, K, J].
struct Pairs {
  Tensor query, key_ij, value_ij, key_jk, value_jk;
};

Pairs read_pairs(const char* op, const Tensor& query_ik, const Tensor& key_ij, const Tensor& value_ij,
                 const Tensor& key_jk, const Tensor& value_jk) {
  check_floating(op, "query_ik", query_ik);
  for (const auto& [name, tensor] : {std::pair{"query_ik", &query_ik}, {"key_ij", &key_ij}, {"key_jk", &key_jk}})
    check_dims(op, name, *tensor, 5, 5);
  check_same_shape(op, "value_ij", value_ij, "key_ij", key_ij);
  check_same_shape(op, "value_jk", value_jk, "key_jk", key_jk);
  const bool fits = key_ij.sym_size(2) == query_ik.sym_size(2) && key_jk.sym_size(3) == query_ik.sym_size(3) &&
                    key_ij.sym_size(3) == key_jk.sym_size(2);
  TORCH_CHECK(fits, op, ": query_ik, key_ij and key_jk have shapes ", query_ik.sym_sizes(), ", ", key_ij.sym_sizes(),
              " and ", key_jk.sym_sizes(), ", allowed are (.., I, K, size), (.., I, J, size) and (.., J, K, size)");
  return {wide(query_ik), wide(key_ij), wide(value_ij), wide(key_jk), wide(value_jk)};
}

// Product for each i: [.., I, K, a] with [.., I, a, b] -> [.., I, K, b].
Tensor over_ij(const Tensor& x, const Tensor& ij) { return x.matmul(ij); }

// The same for each k: [.., I, K, a] with [.., K, a, b] -> [.., I, K, b].
Tensor over_jk(const Tensor& x, const Tensor& by_k) { return x.transpose(2, 3).matmul(by_k).transpose(2, 3); }

// [.., J, K, size] -> [.., K, J, size]
Tensor by_last(const Tensor& jk) { return jk.transpose(2, 3); }

Tensor floyd_scores(const Pairs& x, const OptionalTensor& mask, double scale) {
  const Tensor scores = (over_ij(x.query, flipped(x.key_ij)) + over_jk(x.query, flipped(by_last(x.key_jk)))) * scale;
  return mask && mask->defined() ? scores.masked_fill(mask->to(at::kBool), -kInfinity) : scores;
}

Tensor in_copies(const Tensor& statistics) {
  return statistics.detach().expand_symint({-1, -1, -1, -1, kStatisticsCopies}).contiguous();
}

std::tuple<Tensor, Tensor, Tensor> floyd_attention(const Tensor& query_ik, const Tensor& key_ij, const Tensor& value_ij,
                                                   const Tensor& key_jk, const Tensor& value_jk,
                                                   const OptionalTensor& atten_mask, double scale_value) {
  const Pairs x = read_pairs("npu_fused_floyd_attention", query_ik, key_ij, value_ij, key_jk, value_jk);
  const Tensor scores = floyd_scores(x, atten_mask, scale_value);
  const Tensor max = scores.detach().amax(-1, /*keepdim=*/true);
  const Tensor exponentials = (scores - base_of(max)).exp();
  const Tensor sum = exponentials.sum(-1, /*keepdim=*/true);
  const Tensor weights = exponentials / divisor_of(sum);
  const Tensor result = over_ij(weights, x.value_ij) + over_jk(weights, by_last(x.value_jk));
  return {result.to(query_ik.scalar_type()).contiguous(), in_copies(max), in_copies(sum)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> floyd_attention_backward(
    const Tensor& grad_output, const Tensor& query_ik, const Tensor& key_ij, const Tensor& value_ij,
    const Tensor& key_jk, const Tensor& value_jk, const Tensor& attention_out, const Tensor& softmax_max,
    const Tensor& softmax_sum, const OptionalTensor& atten_mask, double scale_value) {
  const char* op = "npu_fused_floyd_attention_backward";
  const Pairs x = read_pairs(op, query_ik, key_ij, value_ij, key_jk, value_jk);
  check_same_shape(op, "grad_output", grad_output, "query_ik", query_ik);
  check_same_shape(op, "attention_out", attention_out, "query_ik", query_ik);
  const Tensor given = wide(grad_output);
  const Tensor exponentials = (floyd_scores(x, atten_mask, scale_value) - base_of(softmax_max.narrow(-1, 0, 1))).exp();
  const Tensor weights = exponentials / divisor_of(softmax_sum.narrow(-1, 0, 1));
  const Tensor of_weights = over_ij(given, flipped(x.value_ij)) + over_jk(given, flipped(by_last(x.value_jk)));
  const Tensor row_sums = (given * wide(attention_out)).sum(-1, /*keepdim=*/true);
  const Tensor of_scores = weights * (of_weights - row_sums) * scale_value;
  // Products of a [.., I, K, J] and a [.., I, K, size] tensor, summed over k (for_ij) or over i (for_jk).
  const auto for_ij = [](const Tensor& left, const Tensor& right) { return flipped(left).matmul(right); };
  const auto for_jk = [](const Tensor& left, const Tensor& right) {
    return by_last(flipped(left.transpose(2, 3)).matmul(right.transpose(2, 3)));
  };
  const auto typed = [](const Tensor& exact, const Tensor& like) { return exact.to(like.scalar_type()).contiguous(); };
  const Tensor of_query = over_ij(of_scores, x.key_ij) + over_jk(of_scores, by_last(x.key_jk));
  return {typed(of_query, query_ik), typed(for_ij(of_scores, x.query), key_ij), typed(for_ij(weights, given), value_ij),
          typed(for_jk(of_scores, x.query), key_jk), typed(for_jk(weights, given), value_jk)};
}

}  // namespace

void define_floyd_attention(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_fused_floyd_attention(Tensor query_ik, Tensor key_ij, Tensor value_ij, Tensor key_jk, Tensor "
                "value_jk, *, Tensor? atten_mask=None, float scale_value=1.) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&floyd_attention),
      .definition = "Attention (Vaswani et al., 2017) of each pair (i, k) to all paths from i over j to k, as in the "
                    "shortest paths of Floyd and Warshall: weights = softmax over j of scale_value * query_ik . "
                    "(key_ij + key_jk), result = sum over j of weights * (value_ij + value_jk). query_ik is [B, N, I, "
                    "K, D], key_ij and value_ij [B, N, I, J, D], key_jk and value_jk [B, N, J, K, D]; atten_mask "
                    "broadcasts to [B, N, I, K, J], and a true element masks a path. Results: attention like "
                    "query_ik, 0 where all paths are masked, and the maximum and sum of the softmax [B, N, I, K, 8] "
                    "in float32, in 8 equal copies.",
  });
  library.add({
      .schema =
          "npu::npu_fused_floyd_attention_backward(Tensor grad_output, Tensor query_ik, Tensor key_ij, Tensor "
          "value_ij, Tensor key_jk, Tensor value_jk, Tensor attention_out, Tensor softmax_max, Tensor softmax_sum, *, "
          "Tensor? atten_mask=None, float scale_value=1.) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&floyd_attention_backward),
      .definition = "Gradients of npu_fused_floyd_attention for query_ik, key_ij, value_ij, key_jk and value_jk, in "
                    "this order and in their shapes and types. grad_output is the gradient of its first result; "
                    "attention_out, softmax_max and softmax_sum are its results, from which the weights are computed "
                    "again (as in FlashAttention-2, Dao, 2023). atten_mask and scale_value are those of the forward "
                    "call.",
  });
}

}  // namespace npugraph::npu_ops
