// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/sparse_attention/nsa_call.h"

#include <limits>
#include <utility>

#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

Axes with_one_dim_of_heads(Axes axes) { return axes == Axes::kBSH ? Axes::kBSND : axes; }

int64_t rows_of(const Tensor& packed) { return packed.sym_size(2).guard_int(__FILE__, __LINE__); }

// Ends of `sequences` sequences of packed queries, all of the same length.
std::vector<int64_t> even_ends(const CallArguments& call, const Tensor& query, int64_t sequences) {
  const int64_t rows = rows_of(query);
  TORCH_CHECK(sequences > 0 && rows % sequences == 0, call.op(), ": query has ", rows,
              " rows, which are no multiple of ", sequences, " sequences: actual_seq_qlen is missing");
  std::vector<int64_t> out;
  for (int64_t index = 1; index <= sequences; ++index) out.push_back(rows / sequences * index);
  return out;
}

}  // namespace

Axes nsa_axes(const CallArguments& call) {
  const std::string text = call.text({"layout"});
  const Axes axes = text.empty() ? Axes::kTND : layout_of(call.op(), text).in;
  TORCH_CHECK(axes == Axes::kBSH || axes == Axes::kBSND || axes == Axes::kTND, call.op(), ": layout is \"", text,
              "\", allowed are BSH, BSND and TND");
  return axes;
}

int64_t nsa_count(const CallArguments& call, const char* name) {
  const int64_t out = call.integer({name});
  TORCH_CHECK(out > 0, call.op(), ": ", name, " is ", out, ", allowed are 1 and more");
  return out;
}

Tensor nsa_choices(const CallArguments& call, const Tensor& tensor) {
  return to_heads(call.op(), "topk_indices", tensor, with_one_dim_of_heads(nsa_axes(call)), 0);
}

Tensor from_nsa_choices(const CallArguments& call, const Tensor& tensor) {
  return from_heads(tensor, with_one_dim_of_heads(nsa_axes(call)));
}

Tensor statistics_in_copies(const Tensor& statistic, Axes axes) {
  return statistics_from_heads(statistic.expand({-1, -1, -1, kStatisticsCopies}), axes);
}

namespace {

Tensor nsa_queries_of(const CallArguments& call) {
  const int64_t heads = nsa_count(call, "head_num");
  const Tensor out = to_heads(call.op(), "query", call.tensor({"query"}), nsa_axes(call), heads);
  TORCH_CHECK(out.sym_size(1) == heads, call.op(), ": head_num is ", heads, ", and query has ", out.sym_size(1),
              " heads");
  return out;
}

StoredRows keys_of(const CallArguments& call, const char* name) {
  const Tensor& tensor = call.tensor({name});
  const auto given = call.optional_integer({"key_value_head_num"});
  const c10::SymInt heads = given ? c10::SymInt(nsa_count(call, "key_value_head_num")) : tensor.sym_size(-2);
  if (!call.optional_tensor({"block_table"}).defined())
    return StoredRows(call.op(), name, tensor, nsa_axes(call), heads);
  check_dims(call.op(), name, tensor, 3, 4);
  const int64_t rows = nsa_count(call, "page_block_size");
  TORCH_CHECK(tensor.sym_size(1) == rows, call.op(), ": page_block_size is ", rows, ", and pages of ", name, " have ",
              tensor.sym_size(1), " rows");
  return StoredRows(tensor, tensor.dim() == 3 ? PageForm::kBnBsH : PageForm::kBnBsND, heads);
}

SequencePairs nsa_pairs_of(const CallArguments& call, const Tensor& query, const StoredRows& key) {
  const Axes axes = nsa_axes(call);
  SequencePairs::Given given{.query_axes = axes,
                             .key_axes = axes,
                             .query_lengths = call.integers({"actual_seq_qlen"}),
                             .key_lengths = call.integers({"actual_cmp_seq_kvlen", "actual_seq_kvlen"}),
                             .table = call.optional_tensor({"block_table"})};
  TORCH_CHECK(given.key_lengths || !key.in_pages(), call.op(), ": block_table needs the lengths of keys");
  if (is_packed(axes)) {
    if (!given.key_lengths) given.key_lengths = std::vector<int64_t>{rows_of(key.stored())};
    if (!given.query_lengths)
      given.query_lengths = even_ends(call, query, static_cast<int64_t>(given.key_lengths->size()));
  }
  return SequencePairs(call.op(), given, query, key);
}

}  // namespace

AttentionPieces nsa_pieces(const CallArguments& call, NsaDropped dropped) {
  const Tensor query = nsa_queries_of(call);
  const StoredRows key = keys_of(call, "key");
  const SequencePairs pairs = nsa_pairs_of(call, query, key);
  const auto weighting = [scale = call.number({"scale_value"}), pairs, dropped = std::move(dropped)](
                             int64_t index, const Tensor& rows, const Tensor& columns) {
    Weighting out{.scale = scale};
    out.dropped = dropped(pairs, index, rows, columns);
    return out;
  };
  return {.op = call.op(),
          .query = query,
          .key = key,
          .value = keys_of(call, "value"),
          .key_rope = {},
          .tiles = {},
          .pairs = pairs,
          .weighting = weighting};
}

using c10::SymInt;

BlockSelection::BlockSelection(const CallArguments& call, const SequencePairs& pairs)
    : compressed_(nsa_count(call, "compress_block_size")),
      stride_(nsa_count(call, "compress_stride")),
      selected_(nsa_count(call, "select_block_size")),
      count_(nsa_count(call, "select_block_count")),
      blocks_(call.integers({"actual_sel_seq_kvlen"})) {
  TORCH_CHECK(compressed_ % stride_ == 0 && selected_ % stride_ == 0, call.op(), ": compress_block_size is ",
              compressed_, " and select_block_size ", selected_, ", allowed are multiples of compress_stride, ",
              stride_);
  if (!blocks_) return;
  const bool has_ends = is_packed(nsa_axes(call)) && !call.optional_tensor({"block_table"}).defined();
  if (has_ends) blocks_ = from_ends(call.op(), "actual_sel_seq_kvlen", *blocks_);
  TORCH_CHECK(static_cast<int64_t>(blocks_->size()) == pairs.count(), call.op(), ": actual_sel_seq_kvlen has ",
              blocks_->size(), " elements, and there are ", pairs.count(), " sequences");
}

SymInt BlockSelection::blocks(int64_t index, const SymInt& compressed) const {
  if (blocks_) return blocks_->at(index);
  if (compressed == 0) return 0;
  return ((compressed - 1) * stride_ + compressed_ + selected_ - 1) / selected_;
}

// Equation 9: the importance of block j is the sum, over m below a and n below b, of the weights of compressed rows a *
// j + m - n, where a and b are the sizes of selected and compressed blocks in strides. Returns how often each
// compressed row counts for each block, [compressed, blocks].
Tensor BlockSelection::overlaps(const Tensor& like, const SymInt& compressed, const SymInt& blocks) const {
  const int64_t a = selected_ / stride_, b = compressed_ / stride_;
  const Tensor behind = count_up(like, blocks) * a - count_up(like, compressed).unsqueeze(1);
  const Tensor first = behind.clamp_min(0), last = (behind + (a - 1)).clamp_max(b - 1);  // n
  return (last - first + 1).clamp_min(0).to(like.scalar_type());
}

Tensor BlockSelection::select(const Tensor& weights, const SymInt& key_heads, const Tensor& dropped,
                              const SymInt& blocks) const {
  const Tensor by_key_heads = weights.unflatten_symint(1, {key_heads, -1}).sum(2);  // equation 10
  Tensor importance = by_key_heads.matmul(overlaps(by_key_heads, weights.sym_size(-1), blocks));
  if (dropped.defined()) importance = importance.masked_fill(dropped, -std::numeric_limits<double>::infinity());
  const auto [best, order] = importance.sort(/*stable=*/true, -1, /*descending=*/true);
  const Tensor found = order.masked_fill(best.isneginf(), -1);
  const Tensor enough = blocks < count_ ? longer(found, -1, count_ - blocks, -1) : found;
  return enough.narrow(-1, 0, count_).to(at::kInt);
}

}  // namespace npugraph::npu_ops
