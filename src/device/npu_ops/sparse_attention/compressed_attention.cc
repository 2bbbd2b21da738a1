// SPDX-License-Identifier: Apache-2.0
// Blocks of keys compressed to a row each, and attention to these rows (Native Sparse Attention, Yuan et
// al., 2025, section 3.3.1).
#include <tuple>

#include "device/npu_ops/attention/attention_mask.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/parts/parts.h"
#include "device/npu_ops/parts/rows.h"
#include "device/npu_ops/sparse_attention/nsa_call.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using c10::SymInt;
using torch::jit::Stack;

struct Compression {
  const char* op;
  int64_t size, stride;  // of blocks, in rows
};

void check_compression(const Compression& how, const Tensor& input, const Tensor& weight) {
  const char* op = how.op;
  TORCH_CHECK(how.size > 0 && how.stride > 0, op, ": compress_block_size is ", how.size, " and compress_stride ",
              how.stride, ", allowed are 1 and more");
  TORCH_CHECK(weight.dim() == 2 && weight.sym_size(0) == how.size && weight.sym_size(1) == input.sym_size(-2), op,
              ": weight has shape ", weight.sym_sizes(), ", allowed is [compress_block_size, heads of input], [",
              how.size, ", ", input.sym_size(-2), "]");
}

// int64 [blocks, size of a block]: the rows of each block in each sequence. Rows at the end of a sequence that do not
// fill a block are in none.
Tensor rows_of_blocks(const Compression& how, const Tensor& input, at::OptionalIntArrayRef ends) {
  std::vector<Tensor> starts{count_up(input, 0)};
  const auto add = [&](const SymInt& first, const SymInt& rows) {
    const SymInt blocks = rows < how.size ? SymInt(0) : (rows - how.size) / how.stride + 1;
    starts.push_back(count_up(input, blocks) * how.stride + at::Scalar(first));
  };
  if (!ends) add(0, input.sym_size(0));
  int64_t first = 0;
  for (const int64_t rows : ends ? from_ends(how.op, "actual_seq_len", ends->vec()) : std::vector<int64_t>()) {
    add(first, rows);
    first += rows;
  }
  TORCH_CHECK(input.sym_size(0) >= first, how.op, ": actual_seq_len ends at ", first, ", and input has ",
              input.sym_size(0), " rows");
  return at::cat(starts).unsqueeze(1) + count_up(input, how.size);
}

// [blocks, size of a block, heads, size]
Tensor blocks_of(const Tensor& input, const Tensor& rows) {
  return wide(input).index_select(0, rows.flatten()).unflatten_symint(0, rows.sym_sizes());
}

Tensor compressed(const Tensor& blocks, const Tensor& weight) { return (blocks * wide(weight).unsqueeze(-1)).sum(1); }

Tensor compress(const Tensor& input, const Tensor& weight, int64_t size, int64_t stride, at::OptionalIntArrayRef ends) {
  const Compression how{"npu_nsa_compress", size, stride};
  check_dims(how.op, "input", input, 3, 3);
  check_compression(how, input, weight);
  return compressed(blocks_of(input, rows_of_blocks(how, input, ends)), weight).to(input.scalar_type());
}

std::tuple<Tensor, Tensor> compress_grad(const Tensor& grad, const Tensor& input, const Tensor& weight, int64_t size,
                                         int64_t stride, at::OptionalIntArrayRef ends) {
  const Compression how{"npu_nsa_compress_grad", size, stride};
  check_dims(how.op, "input", input, 3, 3);
  check_compression(how, input, weight);
  const Tensor rows = rows_of_blocks(how, input, ends), given = wide(grad).unsqueeze(1);
  TORCH_CHECK(grad.dim() == 3 && grad.sym_size(0) == rows.sym_size(0), how.op, ": grad has shape ", grad.sym_sizes(),
              ", and there are ", rows.sym_size(0), " blocks");
  const Tensor of_blocks = (given * wide(weight).unsqueeze(-1)).flatten(0, 1);
  const Tensor of_input = at::zeros_like(wide(input)).index_add(0, rows.flatten(), of_blocks);
  const Tensor of_weight = (given * blocks_of(input, rows)).sum({0, 3});
  return {of_input.to(input.scalar_type()), of_weight.to(weight.scalar_type())};
}

// [size of a block, heads, size]: the last rows of a sequence in pages.
Tensor last_rows(const Tensor& pages, const Tensor& table, int64_t sequence, int64_t length, int64_t size) {
  const SymInt page_size = pages.sym_size(1);
  const Tensor rows = at::arange(length - size, length, pages.options().dtype(at::kLong));
  const Tensor page = rows.div(at::Scalar(page_size), "floor");
  const Tensor numbers =
      table.defined() ? table.select(0, sequence).index_select(0, page).to(at::kLong) : page + sequence;
  const Tensor places = numbers * at::Scalar(page_size) + rows.remainder(at::Scalar(page_size));
  return pages.flatten(0, 1).index_select(0, places);
}

Tensor& compress_infer(const Tensor& input, const Tensor& weight, const Tensor& slot_mapping, int64_t size,
                       int64_t stride, int64_t page_block_size, const OptionalTensor& block_table,
                       at::OptionalIntArrayRef lengths, Tensor& cache) {
  const Compression how{"npu_nsa_compress_infer", size, stride};
  check_dims(how.op, "input", input, 4, 4);
  check_dims(how.op, "cache", cache, 3, 4);
  check_compression(how, input, weight);
  TORCH_CHECK(lengths, how.op, ": actual_seq_len is missing");
  TORCH_CHECK(input.sym_size(1) == page_block_size, how.op, ": page_block_size is ", page_block_size,
              ", and pages of input have ", input.sym_size(1), " rows");
  const int64_t sequences = static_cast<int64_t>(lengths->size());
  TORCH_CHECK(slot_mapping.dim() == 1 && slot_mapping.sym_size(0) == sequences, how.op, ": slot_mapping has shape ",
              slot_mapping.sym_sizes(), ", and there are ", sequences, " sequences");
  const Tensor slots = cache.dim() == 3 ? cache : cache.flatten(0, 1);
  const Tensor table = block_table.value_or(Tensor());
  for (int64_t index = 0; index < sequences; ++index) {
    const int64_t length = lengths->at(index);
    if (length < size || (length - size) % stride != 0) continue;
    const Tensor block = wide(last_rows(input, table, index, length, size)).unsqueeze(0);
    put_rows(slots, {slot_mapping.narrow(0, index, 1)}, compressed(block, weight));
  }
  return cache;
}

AttentionPieces attention_to_compressed(const CallArguments& call) {
  return nsa_pieces(call,
                    [&call](const SequencePairs& pairs, int64_t index, const Tensor& rows, const Tensor& columns) {
                      return first_of_mask(call.op(), "atten_mask", call.optional_tensor({"atten_mask"}),
                                           pairs.is_whole() ? -1 : index, rows.sym_size(2), columns.sym_size(2));
                    });
}

Tensor selected_blocks(const CallArguments& call, const AttentionPieces& pieces, const Attention& saved) {
  const at::NoGradGuard no_gradient;
  const SequencePairs& pairs = pieces.pairs;
  const BlockSelection selection(call, pairs);
  std::vector<Tensor> indices;
  for (int64_t index = 0; index < pairs.count(); ++index) {
    const AttentionPieces::Piece one = pieces.piece(index);
    const Attention of_piece{{}, pairs.of_queries(saved.max, index), pairs.of_queries(saved.sum, index)};
    const Tensor weights = saved_weights(one.query, one.key, one.weighting, of_piece);
    const SymInt blocks = selection.blocks(index, one.key.sym_size(2));
    const Tensor dropped = first_of_mask(call.op(), "topk_mask", call.optional_tensor({"topk_mask"}),
                                         pairs.is_whole() ? -1 : index, one.query.sym_size(2), blocks);
    // 0 stands for rows of no query
    indices.push_back(selection.select(weights, one.key.sym_size(1), dropped, blocks) + 1);
  }
  return from_nsa_choices(call, pairs.join_queries(indices) - 1);
}

void compress_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Axes axes = nsa_axes(call);
  const AttentionPieces pieces = attention_to_compressed(call);
  const Attention out = pieces.attend();
  call.give(from_heads(out.result, axes), selected_blocks(call, pieces, out), statistics_in_copies(out.max, axes),
            statistics_in_copies(out.sum, axes));
}

void compress_attention_infer(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const AttentionPieces pieces = attention_to_compressed(call);
  const Attention out = pieces.attend();
  call.give(from_heads(out.result, nsa_axes(call)), selected_blocks(call, pieces, out));
}

}  // namespace

void define_compressed_attention(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_nsa_compress(Tensor input, Tensor weight, int compress_block_size, int compress_stride, *, "
                "int[]? actual_seq_len=None) -> Tensor",
      .kernel = parts(&compress),
      .definition = "Compression of keys or values in Native Sparse Attention (Yuan et al., 2025, equation 7, with a "
                    "linear map). A block of compress_block_size rows starts every compress_stride rows of a sequence "
                    "and becomes one row, for each head: y[i] = sum over j of weight[j] * input[i * compress_stride + "
                    "j]. input is [T, N, D] and weight is [compress_block_size, N]. actual_seq_len has the cumulative "
                    "ends of the sequences that are packed in input; without it, input is one sequence. Rows at the "
                    "end of a sequence that do not fill a block are left out. Result: [blocks of all sequences, N, D] "
                    "in the type of input.",
  });
  library.add({
      .schema = "npu::npu_nsa_compress_grad(Tensor grad, Tensor input, Tensor weight, int compress_block_size, int "
                "compress_stride, *, int[]? actual_seq_len=None) -> (Tensor, Tensor)",
      .kernel = parts(&compress_grad),
      .definition = "Gradients of npu_nsa_compress for input and weight, in their shapes and types, where grad is the "
                    "gradient of its result. The other arguments are those of the forward call.",
  });
  library.add({
      .schema = "npu::npu_nsa_compress_infer.cache(Tensor input, Tensor weight, Tensor slot_mapping, int "
                "compress_block_size, int compress_stride, int page_block_size, *, Tensor? block_table=None, int[]? "
                "actual_seq_len=None, Tensor(a!) cache) -> Tensor(a!)",
      .kernel = composite(&compress_infer),
      .definition = "npu_nsa_compress for decoding. If the last compress_block_size rows of sequence i form a block, "
                    "this block is compressed and written in place into row slot_mapping[i] of cache, which is "
                    "[slots, N, D] or [pages, rows of a page, N, D]; other sequences are skipped. input is a paged "
                    "cache, [pages, page_block_size, N, D], in which block_table names the pages of each sequence; "
                    "without block_table, sequence i is page i. actual_seq_len has the lengths of the sequences and "
                    "is required. Result: cache.",
  });
  library.add({
      .schema =
          "npu::npu_nsa_compress_attention(Tensor query, Tensor key, Tensor value, float scale_value, int head_num, "
          "int compress_block_size, int compress_stride, int select_block_size, int select_block_count, *, Tensor? "
          "topk_mask=None, Tensor? atten_mask=None, int[]? actual_seq_qlen=None, int[]? actual_cmp_seq_kvlen=None, "
          "int[]? actual_sel_seq_kvlen=None) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&compress_attention>()),
      .definition = "Attention of packed queries to the compressed keys and values of npu_nsa_compress, and the top-k "
                    "selection of blocks of select_block_size original keys by the attention weights (Native Sparse "
                    "Attention, Yuan et al., 2025, equations 8 to 10). query is [T, N, D] with N = head_num; key and "
                    "value are [compressed rows, key heads, D]. actual_seq_qlen, actual_cmp_seq_kvlen and "
                    "actual_sel_seq_kvlen are the cumulative ends of the queries, compressed rows and blocks of each "
                    "sequence. atten_mask hides compressed rows, and topk_mask hides blocks, where they are not 0. "
                    "Results: the attention; the numbers of the select_block_count most important blocks for each "
                    "query and key head, [T, key heads, select_block_count] in int32, the most important first and -1 "
                    "where there are fewer; the maximum and the sum of the softmax, [T, N, 8] in float32 with 8 equal "
                    "copies.",
  });
  library.add({
      .schema = "npu::npu_nsa_compress_attention_infer(Tensor query, Tensor key, Tensor value, float scale_value, int "
                "head_num, int key_value_head_num, int select_block_size, int select_block_count, int page_block_size, "
                "int compress_block_size, int compress_stride, *, str layout='TND', Tensor? atten_mask=None, Tensor? "
                "block_table=None, Tensor? topk_mask=None, int[]? actual_seq_qlen=None, int[]? "
                "actual_cmp_seq_kvlen=None, int[]? actual_sel_seq_kvlen=None) -> (Tensor, Tensor)",
      .kernel = parts(boxed<&compress_attention_infer>()),
      .definition = "npu_nsa_compress_attention for inference, with its first two results. layout is BSH, BSND or "
                    "TND. With block_table, key and value are paged caches with pages of page_block_size rows and "
                    "key_value_head_num heads. actual_cmp_seq_kvlen and actual_sel_seq_kvlen are cumulative ends in "
                    "the layout TND without block_table, and lengths of sequences otherwise.",
  });
}

}  // namespace npugraph::npu_ops
