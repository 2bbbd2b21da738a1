// SPDX-License-Identifier: Apache-2.0
// Permutation of tokens by experts and back, with gradients, in the forms of Megatron-LM (Narayanan et al., 2021): by
// the experts of each token, or by a map of tokens and experts.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/moe/moe.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;

void check_not_padded(const char* op, bool padded_mode) {
  TORCH_CHECK(!padded_mode, op, ": padded_mode is True, allowed is False");
}

// For each token, the sum of the rows of its k pairs times their probabilities. Pairs after the
// last row count as zeros.
Tensor summed_rows(const Tensor& rows, const Tensor& places, const SymInt& k, const OptionalTensor& probs) {
  const Tensor table = places.to(at::kLong).unflatten_symint(0, {-1, k});
  const Tensor parts = rows_or_zeros(wide(rows), table, table < at::Scalar(rows.sym_size(0)));
  return (probs ? weighted(parts, *probs) : parts).sum(1);
}

Two moe_token_permute(const Tensor& tokens, const Tensor& indices, std::optional<int64_t> num_out_tokens, bool padded) {
  constexpr const char* kOp = "npu_moe_token_permute";
  check_not_padded(kOp, padded);
  check_dims(kOp, "tokens", tokens, 2, 2);
  check_dims(kOp, "indices", indices, 1, 2);
  TORCH_CHECK(indices.sym_size(0) == tokens.sym_size(0), kOp, ": indices has ", indices.sym_size(0),
              " rows, tokens has ", tokens.sym_size(0));
  const SymInt k = indices.dim() == 1 ? SymInt(1) : indices.sym_size(1);
  const Tensor order = rising_places(indices.reshape(-1));
  const int64_t kept = num_out_tokens.value_or(0);
  const Tensor pairs = kept == 0 ? order : order.slice(0, 0, kept);
  return {tokens.index_select(0, pairs.floor_divide(at::Scalar(k))), inverse_of(order).to(at::kInt)};
}

SymInt pairs_of_each(const OptionalTensor& probs) { return probs ? probs->sym_size(1) : SymInt(1); }

Tensor unpermuted(const char* op, const Tensor& permuted, const Tensor& places, const OptionalTensor& probs,
                  bool padded) {
  check_not_padded(op, padded);
  check_dims(op, "permuted_tokens", permuted, 2, 2);
  check_dims(op, "sorted_indices", places, 1, 1);
  if (probs) check_dims(op, "probs", *probs, 2, 2);
  return summed_rows(permuted, places, pairs_of_each(probs), probs).to(permuted.scalar_type());
}

Tensor moe_token_unpermute(const Tensor& permuted, const Tensor& places, const OptionalTensor& probs, bool padded,
                           at::OptionalIntArrayRef) {
  return unpermuted("npu_moe_token_unpermute", permuted, places, probs, padded);
}

Two moe_token_unpermute_saving(const Tensor& permuted, const Tensor& places, const OptionalTensor& probs, bool padded,
                               at::OptionalIntArrayRef) {
  return {unpermuted("_npu_moe_token_unpermute", permuted, places, probs, padded),
          probs ? permuted.clone() : permuted.new_empty({0})};
}

Tensor moe_token_permute_grad(const Tensor& tokens, const Tensor& grad, const Tensor& indices, const Tensor& places,
                              bool padded) {
  check_not_padded("npu_moe_token_permute_grad", padded);
  const SymInt k = indices.dim() == 1 ? SymInt(1) : indices.sym_size(1);
  return summed_rows(grad, places, k, std::nullopt).to(tokens.scalar_type());
}

Tensor moe_token_permute_grad_v2(const Tensor& grad, const Tensor& places, SymInt tokens, at::ScalarType type, SymInt k,
                                 bool padded) {
  constexpr const char* kOp = "npu_moe_token_permute_grad_v2";
  check_not_padded(kOp, padded);
  TORCH_CHECK(places.sym_size(0) == tokens * k, kOp, ": sorted_indices has ", places.sym_size(0), " elements, and not ",
              tokens, " * ", k);
  return summed_rows(grad, places, k, std::nullopt).to(type);
}

// Gradients of the `rows` rows, and of the probabilities; the latter is undefined without `probs`.
Two unpermute_grad(const OptionalTensor& permuted, const Tensor& grad, const Tensor& places, const SymInt& rows,
                   at::ScalarType type, const OptionalTensor& probs) {
  const Tensor table = places.to(at::kLong).unflatten_symint(0, {-1, pairs_of_each(probs)});
  const Tensor spread = wide(grad).unsqueeze(1);
  const Tensor parts = probs ? spread * wide(*probs).unsqueeze(-1) : spread;
  const Tensor kept = table < at::Scalar(rows);
  const Tensor target = at::where(kept, table, at::scalar_tensor(at::Scalar(rows), table.options())).reshape(-1);
  const Tensor of_rows = parts.new_zeros_symint({rows + 1, grad.sym_size(1)}).index_add(0, target, parts.flatten(0, 1));
  const Tensor grad_rows = of_rows.slice_symint(0, 0, rows).to(type).contiguous();
  if (!probs) return {grad_rows, Tensor()};
  const Tensor values = rows_or_zeros(wide(*permuted), table, kept);
  return {grad_rows, (values * spread).sum(-1).to(probs->scalar_type())};
}

Two moe_token_unpermute_grad(const Tensor& permuted, const Tensor& grad, const Tensor& places,
                             const OptionalTensor& probs, bool padded, at::OptionalIntArrayRef) {
  check_not_padded("npu_moe_token_unpermute_grad", padded);
  return unpermute_grad(permuted, grad, places, permuted.sym_size(0), permuted.scalar_type(), probs);
}

Two moe_token_unpermute_grad_v2(const Tensor& grad, const Tensor& places, SymInt rows, at::ScalarType type,
                                const OptionalTensor& probs, bool padded, at::OptionalIntArrayRef,
                                const OptionalTensor& permuted) {
  constexpr const char* kOp = "npu_moe_token_unpermute_grad_v2";
  check_not_padded(kOp, padded);
  TORCH_CHECK(!probs || permuted, kOp, ": probs asks for permuted_tokens");
  return unpermute_grad(permuted, grad, places, rows, type, probs);
}

// Positions of the first `count` pairs in a flattened map of experts by tokens.
Tensor pairs_of_map(const Tensor& routing_map, const SymInt& count) {
  const Tensor flat = routing_map.t().reshape(-1).ne(0).to(at::kInt);
  return std::get<1>(at::sort(flat, /*stable=*/true, 0, /*descending=*/true)).slice_symint(0, 0, count);
}

// The same for a table of `capacity` tokens for each expert, padded with tokens that do not choose it.
Tensor pairs_of_table(const Tensor& routing_map, const SymInt& capacity) {
  const Tensor map = routing_map.t().ne(0).to(at::kInt);
  const Tensor tokens =
      std::get<1>(at::sort(map, /*stable=*/true, 1, /*descending=*/true)).slice_symint(1, 0, capacity);
  return (tokens + (count_up(map, map.sym_size(0)) * map.sym_size(1)).unsqueeze(1)).reshape(-1);
}

Tensor pairs_of_map(const Tensor& routing_map, const SymInt& rows, bool drop_and_pad) {
  return drop_and_pad ? pairs_of_table(routing_map, rows / routing_map.sym_size(1)) : pairs_of_map(routing_map, rows);
}

Tensor by_experts(const Tensor& of_tokens_and_experts, const Tensor& pairs) {
  return of_tokens_and_experts.t().reshape(-1).index_select(0, pairs);
}

Three moe_token_permute_with_routing_map(const Tensor& tokens, const Tensor& routing_map, const OptionalTensor& probs,
                                         std::optional<int64_t> num_out_tokens, bool drop_and_pad) {
  constexpr const char* kOp = "npu_moe_token_permute_with_routing_map";
  check_dims(kOp, "tokens", tokens, 2, 2);
  check_dims(kOp, "routing_map", routing_map, 2, 2);
  TORCH_CHECK(num_out_tokens && *num_out_tokens > 0, kOp,
              ": num_out_tokens, the number of pairs of routing_map, is to be given as a positive number");
  const Tensor pairs = pairs_of_map(routing_map, *num_out_tokens, drop_and_pad);
  const Tensor token = pairs.remainder(at::Scalar(tokens.sym_size(0)));
  return {tokens.index_select(0, token), probs ? by_experts(*probs, pairs) : tokens.new_empty({0}),
          (drop_and_pad ? token : rising_places(token)).to(at::kInt)};
}

// out_index and permuted_token_id: permuted row out_index[i] is of token permuted_token_id[i], in
// ascending order of tokens.
Two tokens_of_rows(const Tensor& sorted_indices, const SymInt& tokens, bool drop_and_pad) {
  const Tensor wide_indices = sorted_indices.to(at::kLong);
  if (drop_and_pad) {
    const Tensor order = rising_places(wide_indices);
    return {order, wide_indices.index_select(0, order)};
  }
  const SymInt k = sorted_indices.sym_size(0) / tokens;
  return {wide_indices, count_up(sorted_indices, sorted_indices.sym_size(0)).floor_divide(at::Scalar(k))};
}

Tensor summed_by_token(const Tensor& rows, const Tensor& out_index, const Tensor& token, const SymInt& tokens) {
  return rows.new_zeros_symint({tokens, rows.sym_size(1)})
      .index_add(0, token.to(at::kLong), rows.index_select(0, out_index.to(at::kLong)));
}

Two moe_token_permute_with_routing_map_grad(const Tensor& grad, const OptionalTensor& probs_grad,
                                            const Tensor& sorted_indices, const Tensor& routing_map, SymInt experts,
                                            SymInt tokens, bool drop_and_pad) {
  const auto [out_index, token] = tokens_of_rows(sorted_indices, tokens, drop_and_pad);
  const Tensor of_tokens = summed_by_token(wide(grad), out_index, token, tokens).to(grad.scalar_type());
  if (!probs_grad) return {of_tokens, Tensor()};
  const Tensor pairs = pairs_of_map(routing_map, grad.sym_size(0), drop_and_pad);
  const Tensor of_probs = probs_grad->new_zeros_symint({experts * tokens}).scatter(0, pairs, *probs_grad);
  return {of_tokens, of_probs.view_symint({experts, tokens}).t().contiguous()};
}

Four moe_token_unpermute_with_map_parts(const char* op, const Tensor& permuted, const Tensor& sorted_indices,
                                        at::IntArrayRef shape, const OptionalTensor& probs,
                                        const OptionalTensor& routing_map, bool drop_and_pad) {
  check_dims(op, "permuted_tokens", permuted, 2, 2);
  TORCH_CHECK(shape.size() == 2, op, ": restore_shape is ", shape, ", allowed are two sizes");
  TORCH_CHECK(!probs || routing_map, op, ": probs asks for routing_map");
  const auto [out_index, token] = tokens_of_rows(sorted_indices, shape[0], drop_and_pad);
  Tensor rows = wide(permuted), of_rows = permuted.new_empty({0});
  if (probs) {
    of_rows = by_experts(*probs, pairs_of_map(*routing_map, permuted.sym_size(0), drop_and_pad));
    rows = weighted(rows, of_rows);
  }
  const Tensor out = summed_by_token(rows, out_index, token, shape[0]).to(permuted.scalar_type());
  return {out, out_index.to(at::kInt), token.to(at::kInt), of_rows};
}

Four moe_token_unpermute_with_routing_map_saving(const Tensor& permuted, const Tensor& sorted_indices,
                                                 at::IntArrayRef shape, const OptionalTensor& probs,
                                                 const OptionalTensor& routing_map, bool drop_and_pad) {
  return moe_token_unpermute_with_map_parts("_npu_moe_token_unpermute_with_routing_map", permuted, sorted_indices,
                                            shape, probs, routing_map, drop_and_pad);
}

Tensor moe_token_unpermute_with_routing_map(const Tensor& permuted, const Tensor& sorted_indices, at::IntArrayRef shape,
                                            const OptionalTensor& probs, const OptionalTensor& routing_map,
                                            bool drop_and_pad) {
  return std::get<0>(moe_token_unpermute_with_map_parts("npu_moe_token_unpermute_with_routing_map", permuted,
                                                        sorted_indices, shape, probs, routing_map, drop_and_pad));
}

Two moe_token_unpermute_with_routing_map_grad(const Tensor& grad, const Tensor& out_index, const Tensor& token,
                                              const OptionalTensor& routing_map, const OptionalTensor& permuted,
                                              const OptionalTensor& probs, bool drop_and_pad, at::IntArrayRef) {
  constexpr const char* kOp = "npu_moe_token_unpermute_with_routing_map_grad";
  TORCH_CHECK(!probs || (routing_map && permuted), kOp, ": probs asks for routing_map and permuted_tokens");
  const Tensor rows = inverse_of(out_index.to(at::kLong));  // the entry of out_index for each row
  const Tensor spread = wide(grad).index_select(0, token.index_select(0, rows));
  if (!probs) return {spread.to(grad.scalar_type()), Tensor()};
  const Tensor pairs = pairs_of_map(*routing_map, permuted->sym_size(0), drop_and_pad);
  const Tensor of_rows = (spread * wide(*permuted)).sum(-1).to(probs->scalar_type());
  const Tensor of_probs = probs->new_zeros_symint({probs->sym_numel()}).scatter(0, pairs, of_rows);
  return {(spread * wide(by_experts(*probs, pairs)).unsqueeze(-1)).to(grad.scalar_type()),
          of_probs.view_symint({probs->sym_size(1), probs->sym_size(0)}).t().contiguous()};
}

}  // namespace

void define_moe_permute(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_moe_token_permute(Tensor tokens, Tensor indices, int? num_out_tokens=None, bool "
                "padded_mode=False) -> (Tensor, Tensor)",
      .kernel = parts(&moe_token_permute),
      .definition = "Permutes tokens so that those of one expert follow each other, by a stable sort of the N * K "
                    "pairs of token and expert by expert (permute of Megatron-LM). tokens is [N, H]; indices, [N, K] "
                    "or [N], holds the experts of each token. Results: the permuted tokens, which are the rows of the "
                    "first num_out_tokens pairs (of all if it is None or 0, of all but the last ones if it is "
                    "negative); and sorted_indices [N * K] in int32, where entry i * K + j is the position of the j-th "
                    "pair of token i. padded_mode must be False.",
  });
  library.add({
      .schema = "npu::npu_moe_token_permute_grad(Tensor tokens, Tensor grad_permuted_tokens, Tensor indices, Tensor "
                "sorted_indices, bool padded_mode=False) -> Tensor",
      .kernel = parts(&moe_token_permute_grad),
      .definition = "Gradient of npu_moe_token_permute with respect to tokens: for each token the sum of the rows of "
                    "grad_permuted_tokens that belong to it, in float32. indices is the argument and sorted_indices "
                    "the second result of npu_moe_token_permute. The result is [N, H] in the type of tokens. Pairs "
                    "that npu_moe_token_permute left out (num_out_tokens) count as zeros. padded_mode must be False.",
  });
  library.add({
      .schema = "npu::npu_moe_token_permute_grad_v2(Tensor grad_permuted_tokens, Tensor sorted_indices, SymInt "
                "tokens_size_0, ScalarType tokens_dtype, SymInt num_topK, bool padded_mode=False) -> Tensor",
      .kernel = parts(&moe_token_permute_grad_v2),
      .definition = "npu_moe_token_permute_grad that takes tokens_size_0, the number of tokens, and num_topK, the "
                    "number of experts per token, instead of tokens and indices. sorted_indices, the second result of "
                    "npu_moe_token_permute, has tokens_size_0 * num_topK elements: entry i * num_topK + j is the "
                    "position of the j-th pair of token i. Pairs that the permutation left out count as zeros, and "
                    "sums are in float32. The result is [tokens_size_0, H] in tokens_dtype. padded_mode must be False.",
  });
  library.add({
      .schema = "npu::npu_moe_token_permute_with_routing_map(Tensor tokens, Tensor routing_map, *, Tensor? probs=None, "
                "int? num_out_tokens=None, bool drop_and_pad=False) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&moe_token_permute_with_routing_map),
      .definition = "Permutes tokens so that those of one expert follow each other in their old order, with a mask "
                    "that says which experts a token goes to (permute of Megatron-LM). tokens is [N, H]; routing_map "
                    "is [N, E], nonzero where the token goes to the expert; probs is [N, E]; num_out_tokens, the "
                    "number of rows, must be given. Results: the permuted tokens [num_out_tokens, H]; the probs of "
                    "these rows [num_out_tokens], empty without probs; and sorted_indices [num_out_tokens] in int32, "
                    "the positions of the rows of the first token in the order of experts, then those of the second, "
                    "and so on. With drop_and_pad each expert has num_out_tokens / E rows, filled up with tokens that "
                    "do not go to it, and sorted_indices holds the token of each row.",
  });
  library.add({
      .schema = "npu::npu_moe_token_permute_with_routing_map_grad(Tensor permuted_token_out_grad, Tensor? probs_grad, "
                "Tensor sorted_indices, Tensor routing_map, SymInt experts_num, SymInt tokens_num, bool drop_and_pad) "
                "-> (Tensor, Tensor)",
      .kernel = parts(&moe_token_permute_with_routing_map_grad),
      .definition = "Gradients of npu_moe_token_permute_with_routing_map with respect to tokens [tokens_num, H] and "
                    "probs [tokens_num, experts_num], from those of its first two results. Rows of a token are summed "
                    "in float32. The second gradient is None if probs_grad is. sorted_indices is the third result of "
                    "npu_moe_token_permute_with_routing_map. routing_map and drop_and_pad are those of the forward "
                    "call. Without drop_and_pad all tokens must have equally many rows.",
  });
  library.add({
      .schema = "npu::_npu_moe_token_unpermute(Tensor permuted_tokens, Tensor sorted_indices, Tensor? probs=None, bool "
                "padded_mode=False, int[]? restore_shape=None) -> (Tensor unpermuted_tokens, Tensor "
                "permuted_tokens_for_backward)",
      .kernel = parts(&moe_token_unpermute_saving),
      .definition = "npu_moe_token_unpermute with a second result that its gradient needs: a copy of permuted_tokens "
                    "if probs is given, and an empty tensor otherwise.",
  });
  library.add({
      .schema = "npu::npu_moe_token_unpermute(Tensor permuted_tokens, Tensor sorted_indices, Tensor? probs=None, bool "
                "padded_mode=False, int[]? restore_shape=None) -> Tensor",
      .kernel = parts(&moe_token_unpermute),
      .definition = "Undoes npu_moe_token_permute and adds up the rows of each token with the weights probs, in "
                    "float32 (unpermute of Megatron-LM): out[i] = sum over j of probs[i, j] * "
                    "permuted_tokens[sorted_indices[i * K + j]]. permuted_tokens is [rows, H], sorted_indices is [N * "
                    "K], probs is [N, K]; without probs K is 1, and the weights are 1. Rows that npu_moe_token_permute "
                    "left out count as zeros, and so do rows of weight 0 even if they are not finite. The result is "
                    "[N, H] in the type of permuted_tokens. padded_mode must be False; restore_shape is ignored.",
  });
  library.add({
      .schema =
          "npu::npu_moe_token_unpermute_grad(Tensor permuted_tokens, Tensor grad_unpermuted_tokens, Tensor "
          "sorted_indices, Tensor? probs=None, bool padded_mode=False, int[]? restore_shape=None) -> (Tensor, Tensor)",
      .kernel = parts(&moe_token_unpermute_grad),
      .definition = "Gradients of npu_moe_token_unpermute with respect to permuted_tokens and probs, each in the shape "
                    "and type of its tensor. The second is None without probs. The other arguments are those of the "
                    "forward call. padded_mode must be False; restore_shape is ignored.",
  });
  library.add({
      .schema = "npu::npu_moe_token_unpermute_grad_v2(Tensor grad_unpermuted_tokens, Tensor sorted_indices, SymInt "
                "permuted_tokens_size_0, ScalarType permuted_tokens_dtype, Tensor? probs=None, bool padded_mode=False, "
                "int[]? restore_shape=None, Tensor? permuted_tokens=None) -> (Tensor, Tensor)",
      .kernel = parts(&moe_token_unpermute_grad_v2),
      .definition = "npu_moe_token_unpermute_grad that needs permuted_tokens only with probs. The first gradient is "
                    "[permuted_tokens_size_0, H] in permuted_tokens_dtype.",
  });
  library.add({
      .schema = "npu::_npu_moe_token_unpermute_with_routing_map(Tensor permuted_tokens, Tensor sorted_indices, int[] "
                "restore_shape, *, Tensor? probs=None, Tensor? routing_map=None, bool drop_and_pad=False) -> (Tensor, "
                "Tensor, Tensor, Tensor)",
      .kernel = parts(&moe_token_unpermute_with_routing_map_saving),
      .definition = "npu_moe_token_unpermute_with_routing_map with three more results, which its gradient needs: "
                    "out_index and permuted_token_id in int32, where row out_index[i] of permuted_tokens belongs to "
                    "token permuted_token_id[i], in ascending order of tokens; and the probs of the rows of "
                    "permuted_tokens, empty without probs.",
  });
  library.add({
      .schema = "npu::npu_moe_token_unpermute_with_routing_map(Tensor permuted_tokens, Tensor sorted_indices, int[] "
                "restore_shape, *, Tensor? probs=None, Tensor? routing_map=None, bool drop_and_pad=False) -> Tensor",
      .kernel = parts(&moe_token_unpermute_with_routing_map),
      .definition = "Undoes npu_moe_token_permute_with_routing_map and adds up the rows of each token, weighted by "
                    "probs if they are given, in float32. permuted_tokens is [rows, H], sorted_indices is the third "
                    "result of npu_moe_token_permute_with_routing_map, restore_shape is [N, H], and probs and "
                    "routing_map are [N, E]. probs needs the routing_map of the permutation, which says which element "
                    "of probs belongs to a row; without probs routing_map is ignored. A row with the weight 0 adds 0 "
                    "even if it is not finite. Without drop_and_pad sorted_indices has the positions of the rows of "
                    "each token, and all tokens must have equally many. With drop_and_pad it has the token of each "
                    "row, to which the row is added; rows that only fill up an expert count, too, with their element "
                    "of probs, or with 1 without probs. The result is [N, H] in the type of permuted_tokens.",
  });
  library.add({
      .schema = "npu::npu_moe_token_unpermute_with_routing_map_grad(Tensor unpermuted_tokens_grad, Tensor out_index, "
                "Tensor permuted_token_id, Tensor? routing_map, Tensor? permuted_tokens, Tensor? probs, bool "
                "drop_and_pad, int[] restore_shape) -> (Tensor, Tensor)",
      .kernel = parts(&moe_token_unpermute_with_routing_map_grad),
      .definition = "Gradients of npu_moe_token_unpermute_with_routing_map with respect to permuted_tokens and probs. "
                    "The second is None without probs, which needs routing_map and permuted_tokens. out_index and "
                    "permuted_token_id are results of _npu_moe_token_unpermute_with_routing_map. The other arguments "
                    "are those of the forward call; restore_shape is ignored.",
  });
}

}  // namespace npugraph::npu_ops
