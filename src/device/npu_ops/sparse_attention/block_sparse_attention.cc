// SPDX-License-Identifier: Apache-2.0
// Attention of blocks of queries to the blocks of keys that a mask names.
#include <cmath>
#include <numeric>

#include "device/npu_ops/attention/attention_pieces.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/call_arguments.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using c10::SymInt;
using torch::jit::Stack;

Axes axes_of(const CallArguments& call, const char* name) {
  const std::string text = call.text({name});
  const Axes axes = layout_of(call.op(), text).in;
  TORCH_CHECK(axes == Axes::kTND || axes == Axes::kBNSD || axes == Axes::kBSND, call.op(), ": ", name, " is \"", text,
              "\", allowed are TND, BNSD and BSND");
  return axes;
}

struct BlockShape {
  explicit BlockShape(const CallArguments& call) {
    const auto given = call.integers({"block_shape"});
    TORCH_CHECK(given && given->size() == 2 && given->at(0) > 0 && given->at(1) > 0, call.op(), ": block_shape is ",
                given ? at::IntArrayRef(*given) : at::IntArrayRef(),
                ", allowed are two numbers above 0, rows of queries and of keys");
    rows = given->at(0);
    columns = given->at(1);
  }
  int64_t rows, columns;
};

// For packed rows, calls give lengths or ends of sequences. They are ends if the last one is the number of rows.
GivenLengths ends_of(const CallArguments& call, const char* name, Axes axes, const Tensor& heads) {
  GivenLengths given = call.integers({name});
  if (!given || !is_packed(axes) || given->empty() || heads.sym_size(2) == given->back()) return given;
  std::partial_sum(given->begin(), given->end(), given->begin());
  TORCH_CHECK(heads.sym_size(2) >= given->back(), call.op(), ": ", name, " has lengths that add up to ", given->back(),
              ", and there are ", heads.sym_size(2), " rows");
  return given;
}

// Expands `mask` [.., blocks of rows, blocks of columns] to each row and column.
Tensor expanded(const CallArguments& call, const Tensor& mask, const BlockShape& shape, const SymInt& rows,
                const SymInt& columns) {
  TORCH_CHECK(mask.sym_size(2) * shape.rows >= rows && mask.sym_size(3) * shape.columns >= columns, call.op(),
              ": block_sparse_mask has shape ", call.tensor({"block_sparse_mask"}).sym_sizes(), ", and a sequence has ",
              rows, " rows and ", columns, " columns in blocks of ", shape.rows, " and ", shape.columns);
  const Tensor row = count_up(mask, rows).div(shape.rows, "floor");
  return mask.index_select(2, row).index_select(3, count_up(mask, columns).div(shape.columns, "floor"));
}

StoredRows stored_rows_of(const CallArguments& call, const char* name) {
  const int64_t heads = call.integer({"num_key_value_heads"});
  return StoredRows(call.op(), name, call.tensor({name}), axes_of(call, "kv_input_layout"), heads);
}

AttentionPieces block_sparse(const CallArguments& call) {
  const Axes query_axes = axes_of(call, "q_input_layout"), key_axes = axes_of(call, "kv_input_layout");
  const Tensor query = to_heads(call.op(), "query", call.tensor({"query"}), query_axes, 0);
  const StoredRows key = stored_rows_of(call, "key");
  const SequencePairs::Given given{.query_axes = query_axes,
                                   .key_axes = key_axes,
                                   .query_lengths = ends_of(call, "actual_seq_lengths", query_axes, query),
                                   .key_lengths = ends_of(call, "actual_seq_lengths_kv", key_axes, key.stored()),
                                   .table = {}};
  const SequencePairs pairs(call.op(), given, query, key);
  const Tensor& mask = call.tensor({"block_sparse_mask"});
  const SymInt batches = pairs.is_whole() ? query.sym_size(0) : SymInt(pairs.count());
  TORCH_CHECK(mask.dim() == 4 && mask.sym_size(0) == batches && mask.sym_size(1) == query.sym_size(1), call.op(),
              ": block_sparse_mask has shape ", mask.sym_sizes(), ", and there are ", batches, " sequences and ",
              query.sym_size(1), " heads");
  const double scale = call.number({"scale_value"});
  const auto weighting = [&call, mask, pairs, scale](int64_t index, const Tensor& rows, const Tensor& columns) {
    const Tensor own = pairs.is_whole() ? mask : mask.narrow(0, index, 1);
    Weighting out;
    out.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(rows.sym_size(3).guard_int(__FILE__, __LINE__)));
    out.dropped = expanded(call, own, BlockShape(call), rows.sym_size(2), columns.sym_size(2)).eq(0);
    return out;
  };
  return {.op = call.op(),
          .query = query,
          .key = key,
          .value = stored_rows_of(call, "value"),
          .key_rope = {},
          .tiles = {},
          .pairs = pairs,
          .weighting = weighting};
}

void block_sparse_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Axes axes = axes_of(call, "q_input_layout");
  const Attention out = block_sparse(call).attend();
  call.give(from_heads(out.result, axes), statistics_from_heads(out.lse(), axes));
}

void block_sparse_attention_backward(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Axes axes = axes_of(call, "q_input_layout"), key_axes = axes_of(call, "kv_input_layout");
  const auto rows = [&](const char* name) { return to_heads(call.op(), name, call.tensor({name}), axes, 0); };
  const Tensor lse = statistics_to_heads(call.tensor({"softmax_lse"}), axes);
  const AttentionGradients out =
      block_sparse(call).gradients({rows("attention_out"), lse, at::ones_like(lse)}, rows("d_out"));
  call.give(from_heads(out.query, axes), from_heads(out.key, key_axes), from_heads(out.value, key_axes));
}

}  // namespace

void define_block_sparse_attention(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_block_sparse_attention(Tensor query, Tensor key, Tensor value, Tensor block_sparse_mask, "
                "int[] block_shape, *, str q_input_layout='TND', str kv_input_layout='TND', int num_key_value_heads=1, "
                "float scale_value=0.0, int inner_precise=1, int[]? actual_seq_lengths=None, int[]? "
                "actual_seq_lengths_kv=None, int? softmax_lse_flag=0) -> (Tensor, Tensor)",
      .kernel = parts(boxed<&block_sparse_attention>()),
      .definition = "Attention in which each block of block_shape[0] queries attends only to the blocks of "
                    "block_shape[1] keys for which block_sparse_mask is not 0. query, key and value have the layout "
                    "TND, BNSD or BSND; q_input_layout and kv_input_layout may differ. query has N heads, and key and "
                    "value have num_key_value_heads (grouped-query attention). block_sparse_mask is [B, N, blocks of "
                    "queries, blocks of keys] in any type, where B is the number of sequences; blocks are counted from "
                    "the start of each sequence. actual_seq_lengths and actual_seq_lengths_kv are the lengths of the "
                    "sequences. In the layout TND they are required, and are cumulative ends if the last number is the "
                    "number of rows. In other layouts one number stands for all sequences, and None for full lengths. "
                    "scale_value multiplies the scores; 0 stands for 1 / sqrt(D). inner_precise is ignored. Results: "
                    "the attention in the layout and type of query, with 0 for queries that see no key; and the "
                    "log-sum-exp of the scaled scores in float32, [B, N, S, 1] (BNSD and BSND) or [T, N, 1], with -inf "
                    "for such queries. The latter is returned whatever softmax_lse_flag is.",
  });
  library.add({
      .schema = "npu::npu_block_sparse_attention_backward(Tensor d_out, Tensor query, Tensor key, Tensor value, Tensor "
                "attention_out, Tensor softmax_lse, Tensor block_sparse_mask, int[]? block_shape, int[]? "
                "actual_seq_lengths, int[]? actual_seq_lengths_kv, str q_input_layout, str kv_input_layout, int "
                "num_key_value_heads, float scale_value) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&block_sparse_attention_backward>()),
      .definition = "Gradients of npu_block_sparse_attention for query, key and value, in their shapes and types. They "
                    "are computed from d_out, the gradient of attention_out, and from the results attention_out and "
                    "softmax_lse (FlashAttention-2, Dao, 2023). block_shape is required, and the other arguments are "
                    "those of the forward call.",
  });
}

}  // namespace npugraph::npu_ops
