// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/attention_core.h"

#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {

Tensor base_of(const Tensor& max) { return max.masked_fill(max.eq(-kInfinity), 0.0); }
Tensor divisor_of(const Tensor& sum) { return sum.masked_fill(sum.eq(0), 1.0); }

Tensor softmax_gradient(const Tensor& gradient, const Tensor& result, int64_t dim) {
  const Tensor product = wide(gradient) * wide(result);
  return product - wide(result) * product.sum(dim, /*keepdim=*/true);
}

namespace {

// [batches, heads, rows, size] -> [batches, key heads, all rows of heads that read the same key head, size]
Tensor grouped(const Tensor& x, const Tensor& key) {
  const c10::SymInt heads = x.sym_size(1), key_heads = key.sym_size(1);
  if (heads == key_heads) return x;
  return x.reshape_symint({x.sym_size(0), key_heads, heads / key_heads * x.sym_size(2), x.sym_size(3)});
}

Tensor ungrouped(const Tensor& x, const Tensor& like) {
  return x.reshape_symint({x.sym_size(0), like.sym_size(1), like.sym_size(2), x.sym_size(3)});
}

// The scores with scale and bias; -inf where dropped.
Tensor scores_of(const Tensor& query, const Tensor& key, const Weighting& weighting) {
  const Tensor product = grouped(wide(query), key).matmul(wide(key).transpose(-1, -2));
  Tensor scores = ungrouped(product, query).mul(weighting.scale);
  if (weighting.bias.defined()) scores = scores + wide(weighting.bias);
  return weighting.dropped.defined() ? scores.masked_fill(weighting.dropped, -kInfinity) : scores;
}

Tensor as_column(const Tensor& sink) { return wide(sink).reshape({1, -1, 1, 1}); }

struct Exponentials {
  Tensor of_scores;  // exp(score - max)
  Tensor max, sum;
};

Exponentials exponentials(const Tensor& scores, const Tensor& sink) {
  Tensor max = scores.sym_size(-1) == 0
                   ? at::full_symint({scores.sym_size(0), scores.sym_size(1), scores.sym_size(2), 1}, -kInfinity,
                                     scores.options())
                   : scores.detach().amax(-1, /*keepdim=*/true);
  if (sink.defined()) max = max.maximum(as_column(sink).detach());
  const Tensor base = base_of(max);
  const Tensor of_scores = scores.sub(base).exp();
  Tensor sum = of_scores.sum(-1, /*keepdim=*/true);
  if (sink.defined()) sum = sum + as_column(sink).sub(base).exp();
  return {of_scores, max, sum};
}

Tensor after_dropout(const Tensor& weights, const Weighting& weighting) {
  if (!weighting.kept.defined()) return weights;
  return weights * weighting.kept * (weighting.keep_prob > 0 ? 1 / weighting.keep_prob : 0.0);
}

// The bias and the dropped columns as one mask for scaled_dot_product_attention.
std::optional<Tensor> sdpa_mask(const Weighting& weighting, const Tensor& query) {
  if (!weighting.bias.defined()) {
    if (!weighting.dropped.defined()) return std::nullopt;
    return weighting.dropped.logical_not();
  }
  const Tensor bias = weighting.bias.to(query.scalar_type());
  return weighting.dropped.defined() ? bias.masked_fill(weighting.dropped, -kInfinity) : bias;
}

// left^T @ right for each key head, summed over the heads that read it.
Tensor for_key_heads(const Tensor& left, const Tensor& right, const Tensor& key) {
  return grouped(left, key).transpose(-1, -2).matmul(grouped(right, key));
}

}  // namespace

void check_heads(const char* op, const Tensor& query, const Tensor& key, const Tensor& value) {
  // Compiled graphs are specialised to the numbers of heads.
  const int64_t heads = query.sym_size(1).guard_int(__FILE__, __LINE__),
                key_heads = key.sym_size(1).guard_int(__FILE__, __LINE__);
  TORCH_CHECK(key_heads > 0 && heads % key_heads == 0, op, ": query has ", heads,
              " heads, which is no multiple of the ", key_heads, " of key");
  TORCH_CHECK(value.sym_size(1) == key_heads && value.sym_size(2) == key.sym_size(2), op, ": value has ",
              value.sym_size(1), " heads of ", value.sym_size(2), " rows, and key ", key_heads, " of ",
              key.sym_size(2));
  TORCH_CHECK(query.sym_size(3) == key.sym_size(3), op, ": heads of query have size ", query.sym_size(3),
              ", and those of key ", key.sym_size(3));
}

Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const Weighting& weighting) {
  if (weighting.sink.defined() || weighting.kept.defined())
    return attend_with_statistics(query, key, value, weighting).result;
  const bool causal = weighting.causal && !weighting.bias.defined();
  return at::scaled_dot_product_attention(query, key, value, causal ? std::nullopt : sdpa_mask(weighting, query),
                                          /*dropout_p=*/0, causal, weighting.scale,
                                          /*enable_gqa=*/query.sym_size(1) != key.sym_size(1));
}

Attention statistics(const Tensor& query, const Tensor& key, const Weighting& weighting) {
  const at::NoGradGuard no_gradient;
  const Exponentials parts = exponentials(scores_of(query, key, weighting), weighting.sink);
  return {{}, parts.max, parts.sum};
}

Attention attend_with_statistics(const Tensor& query, const Tensor& key, const Tensor& value,
                                 const Weighting& weighting) {
  const Exponentials parts = exponentials(scores_of(query, key, weighting), weighting.sink);
  const Tensor weights = after_dropout(parts.of_scores, weighting);
  const Tensor sums = ungrouped(grouped(weights, key).matmul(wide(value)), query);
  return {sums.div(divisor_of(parts.sum)).to(query.scalar_type()), parts.max, parts.sum.detach()};
}

Tensor saved_weights(const Tensor& query, const Tensor& key, const Weighting& weighting, const Attention& saved) {
  const Tensor base = base_of(wide(saved.max)), sum = divisor_of(wide(saved.sum));
  return scores_of(query, key, weighting).sub(base).exp().div(sum);
}

AttentionGradients attention_gradients(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const Weighting& weighting, const Attention& saved, const Tensor& gradient) {
  const Tensor weights = saved_weights(query, key, weighting, saved), given = wide(gradient);
  const Tensor of_kept = ungrouped(grouped(given, key).matmul(wide(value).transpose(-1, -2)), query);
  const Tensor row_sums = given.mul(wide(saved.result)).sum(-1, /*keepdim=*/true);
  const Tensor of_scores = weights * (after_dropout(of_kept, weighting) - row_sums);
  AttentionGradients out;
  out.scores = of_scores;
  out.query = ungrouped(grouped(of_scores, key).matmul(wide(key)), query).mul(weighting.scale).to(query.scalar_type());
  out.key = for_key_heads(of_scores, wide(query), key).mul(weighting.scale).to(key.scalar_type());
  out.value = for_key_heads(after_dropout(weights, weighting), given, key).to(value.scalar_type());
  if (weighting.sink.defined()) {
    const Tensor of_sink =
        as_column(weighting.sink).sub(base_of(wide(saved.max))).exp().div(divisor_of(wide(saved.sum)));
    out.sink = of_sink.mul(row_sums).neg().sum({0, 2, 3}).to(weighting.sink.scalar_type());
  }
  return out;
}

Merged merge(const std::vector<Tensor>& results, const std::vector<Tensor>& lses) {
  std::vector<Tensor> wide_lses;
  for (const Tensor& lse : lses) wide_lses.push_back(wide(lse));
  const Tensor all = at::stack(wide_lses);
  const Tensor max = all.amax(0);
  const Tensor base = base_of(max);
  const Tensor sum = all.sub(base).exp().sum(0);
  Merged out{{}, max + sum.log()};
  for (size_t index = 0; index < results.size(); ++index) {
    const Tensor weight = wide_lses[index].sub(base).exp().div(divisor_of(sum));
    const Tensor part = wide(results[index]) * weight;
    out.result = out.result.defined() ? out.result + part : part;
  }
  return out;
}

}  // namespace npugraph::npu_ops
