// SPDX-License-Identifier: Apache-2.0
// Keys or values of single sequences, wherever and in whatever type they are stored.
#pragma once

#include "torch/npu_ops/attention_layout.h"
#include "torch/npu_ops/attention_sequences.h"

namespace npugraph::npu_ops {

// number = (stored + offset) * scale, with one scale for: 0 each element of a head, or all of them; 1 each row; 2 each head;
// 3 each row of each head; 4 and 5 as 1 and 3, where scales are in pages, too. Undefined where numbers are stored as they are.
struct Quantisation {
  Tensor scale, offset;
  int64_t mode = 0;
};

class StoredRows {
 public:
  // Rows as in `axes`, or pages of a cache.
  StoredRows(const char* op, const char* name, const Tensor& tensor, Axes axes, const c10::SymInt& heads);
  StoredRows(const Tensor& cache, PageForm form, const c10::SymInt& heads);

  void set_quantisation(const char* op, const char* name, const Quantisation& given);

  bool in_pages() const { return form_.has_value(); }
  // As stored. [batches, heads, rows, size] where it is not in pages.
  const Tensor& stored() const { return stored_; }
  c10::SymInt head_size() const;
  // [batches, heads, rows, size]; what is quantised in float32.
  Tensor all() const;
  // [1, heads, length, size]
  Tensor of_sequence(const Sequences& sequences, int64_t index) const;
  Tensor of_pages(const Tensor& table, int64_t length) const;

 private:
  enum class Scales { kFixed, kByRows, kInPages };
  Tensor numbers(const Tensor& rows, const Tensor& scale, const Tensor& offset) const;
  template <typename Part>
  Tensor dequantised(const Tensor& rows, Part&& part) const;

  Tensor stored_;
  c10::SymInt heads_;
  std::optional<PageForm> form_;
  Quantisation quantisation_;
  Scales scales_ = Scales::kFixed;
  PageForm scale_form_ = PageForm::kBnBsND;
};

// Which rows are those of a sequence: of pages that `table` names, [sequences, pages], or else of `sequences`.
struct KeyRows {
  Tensor table;
  std::optional<Sequences> sequences;
  std::vector<int64_t> lengths;

  Tensor of(const StoredRows& rows, int64_t index) const;
};

}  // namespace npugraph::npu_ops
