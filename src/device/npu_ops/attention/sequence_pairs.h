// SPDX-License-Identifier: Apache-2.0
// Pairs of a sequence of queries and the sequence of keys that it reads, for calls with or without lengths.
#pragma once

#include <vector>

#include "device/npu_ops/attention/stored_rows.h"

namespace npugraph::npu_ops {

class SequencePairs {
 public:
  struct Given {
    Axes query_axes = Axes::kBNSD, key_axes = Axes::kBNSD;
    // For packed rows the ends of sequences; for batches and pages lengths, which keys in pages must have.
    GivenLengths query_lengths, key_lengths;
    Tensor table;  // of pages of keys, [sequences, pages]
  };

  // `query`: [batches, heads, rows, size]
  SequencePairs(const char* op, const Given& given, const Tensor& query, const StoredRows& key);

  // 1 if neither lengths nor packed rows nor pages tell sequences apart. Then all batches are one piece,
  // and sizes may be symbols.
  int64_t count() const { return queries_ ? queries_->count() : 1; }
  bool is_whole() const { return !queries_; }

  // The part of the pair in a tensor like the queries, and in rows like the keys.
  Tensor of_queries(const Tensor& tensor, int64_t index) const;
  Tensor of_keys(const StoredRows& rows, int64_t index) const;

  // The inverse, with 0 in rows of no sequence. Keys must not be in pages.
  Tensor join_queries(const std::vector<Tensor>& parts) const;
  Tensor join_keys(const std::vector<Tensor>& parts) const;

 private:
  std::optional<Sequences> queries_;  // none: all batches are one piece
  KeyRows keys_;
  c10::SymInt query_rows_, key_rows_;
};

}  // namespace npugraph::npu_ops
