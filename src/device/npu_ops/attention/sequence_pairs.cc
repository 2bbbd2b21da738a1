// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/sequence_pairs.h"

namespace npugraph::npu_ops {
namespace {

constexpr const char *kQueries = "the lengths of queries", *kKeys = "the lengths of keys";

Sequences sequences_of(const char* op, const char* name, Axes axes, const GivenLengths& lengths, const Tensor& tensor) {
  if (!is_packed(axes)) return Sequences::batched(op, name, lengths, tensor);
  TORCH_CHECK(lengths, op, ": layout TND needs ", name);
  return Sequences::packed(from_ends(op, name, *lengths));
}

}  // namespace

SequencePairs::SequencePairs(const char* op, const Given& given, const Tensor& query, const StoredRows& key)
    : query_rows_(query.sym_size(2)) {
  const bool is_packed_here = is_packed(given.query_axes) || (!key.in_pages() && is_packed(given.key_axes));
  if (!key.in_pages()) key_rows_ = key.stored().sym_size(2);
  if (!is_packed_here && !key.in_pages() && !given.query_lengths && !given.key_lengths) return;
  queries_ = sequences_of(op, kQueries, given.query_axes, given.query_lengths, query);
  if (key.in_pages()) {
    keys_.table = given.table;
    keys_.lengths = given.key_lengths.value();
  } else {
    keys_.sequences = sequences_of(op, kKeys, given.key_axes, given.key_lengths, key.stored());
    for (int64_t index = 0; index < keys_.sequences->count(); ++index)
      keys_.lengths.push_back(keys_.sequences->length(index));
  }
  TORCH_CHECK(static_cast<int64_t>(keys_.lengths.size()) == count(), op, ": there are ", count(),
              " sequences of queries and ", keys_.lengths.size(), " of keys");
}

Tensor SequencePairs::of_queries(const Tensor& tensor, int64_t index) const {
  return queries_ ? queries_->part(tensor, index) : tensor;
}

Tensor SequencePairs::of_keys(const StoredRows& rows, int64_t index) const {
  return queries_ ? keys_.of(rows, index) : rows.all();
}

Tensor SequencePairs::join_queries(const std::vector<Tensor>& parts) const {
  return queries_ ? queries_->join(parts, query_rows_) : parts.front();
}

Tensor SequencePairs::join_keys(const std::vector<Tensor>& parts) const {
  return queries_ ? keys_.sequences->join(parts, key_rows_) : parts.front();
}

}  // namespace npugraph::npu_ops
