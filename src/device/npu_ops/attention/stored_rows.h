// SPDX-License-Identifier: Apache-2.0
// Rows of single sequences in tensors that hold several: padded batches, packed rows, pages of a cache. Keys and values
// may have any layout and type, including int4 values in int32 words.
#pragma once

#include <vector>

#include "device/npu_ops/attention/attention_layout.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// Lengths as a call gives them; nullopt if all sequences are as long as the tensor has room for.
using GivenLengths = std::optional<std::vector<int64_t>>;

// 3, 7, 9 -> 3, 4, 2. Zeros at the end stand for empty sequences: 3, 7, 0 -> 3, 4, 0.
std::vector<int64_t> from_ends(const char* op, const char* name, const std::vector<int64_t>& ends);

// Positions of sequences in a tensor [batches, heads, rows, size].
class Sequences {
 public:
  // Sequences in packed rows, one after another.
  static Sequences packed(std::vector<int64_t> lengths);
  // One sequence in each batch, at its start, or with `padding` so that it ends that many rows before the end. One
  // length may stand for all.
  static Sequences batched(const char* op, const char* name, const GivenLengths& lengths, const Tensor& tensor,
                           std::optional<int64_t> padding = std::nullopt);

  int64_t count() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t length(int64_t index) const { return lengths_[index]; }
  int64_t batch(int64_t index) const { return packed_ ? 0 : index; }
  int64_t start(int64_t index) const { return starts_[index]; }  // its first row in the batch
  // [1, heads, length, size]
  Tensor part(const Tensor& tensor, int64_t index) const;
  // The inverse of part: a tensor of `rows` rows, with those of `parts` and 0 in all others.
  Tensor join(const std::vector<Tensor>& parts, const c10::SymInt& rows) const;

 private:
  bool packed_ = false;
  std::vector<int64_t> lengths_, starts_;
};

// A cache in pages: [blocks, block size, heads, size] up to the order of the dimensions.
enum class PageForm {
  kBnBsND,  // [blocks, block size, heads, size]
  kBnBsH,   // [blocks, block size, heads * size]
  kBnNBsD,  // [blocks, heads, block size, size]
  kNz,      // [blocks, heads, size / n, block size, n]
};

// [1, heads, length, size]: the rows of one sequence, whose pages `table` names in their order.
Tensor from_pages(const Tensor& cache, PageForm form, const c10::SymInt& heads, const Tensor& table, int64_t length);

// Size of one head in such a cache.
c10::SymInt head_size_of_pages(const Tensor& cache, PageForm form, const c10::SymInt& heads);

// Expands `scale`, [batches, heads, blocks, 1], of blocks of rows of `of`, [batches, heads, rows, size], to one scale
// for each row. A block has the least power of two of rows with which that many blocks cover all rows. `name` is the
// argument with the rows.
Tensor scale_of_blocks(const char* op, const char* name, const Tensor& scale, const Tensor& of);

// number = (stored + offset) * scale. By mode, there is one scale for: 0 each element of a head, or all of them; 1 each
// row; 2 each head; 3 each row of each head; 4 and 5 as 1 and 3, with scales in pages, too; 6 each group of elements of
// each row of each head; 7 each block of rows of each head. `scale` is undefined if numbers are stored as they are.
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
  const std::optional<PageForm>& form() const { return form_; }
  const c10::SymInt& heads() const { return heads_; }
  // Whether stored elements stand for other numbers.
  bool is_quantised() const { return quantisation_.scale.defined() || stored_.scalar_type() == at::kInt; }
  // The tensor as stored: [batches, heads, rows, size or words], or pages.
  const Tensor& stored() const { return stored_; }
  c10::SymInt head_size() const;
  // [batches, heads, rows, size]; quantised rows are converted to float32.
  Tensor all() const;
  // [1, heads, length, size]
  Tensor of_sequence(const Sequences& sequences, int64_t index) const;
  // `index` is the number of the sequence, `table` has its pages.
  Tensor of_pages(const Tensor& table, int64_t index, int64_t length) const;

 private:
  enum class Scales { kFixed, kByRows, kInPages };
  Tensor shaped(const char* op, const char* name, const Tensor& scale, int64_t mode) const;
  template <typename Part>
  Tensor dequantised(const Tensor& rows, Part&& part) const;

  Tensor stored_;
  c10::SymInt heads_;
  std::optional<PageForm> form_;
  Quantisation quantisation_;
  Scales scales_ = Scales::kFixed;
  PageForm scale_form_ = PageForm::kBnBsND;
};

// The rows of each sequence: in the pages that `table` names, [sequences, pages], or else by `sequences`.
struct KeyRows {
  Tensor table;
  std::optional<Sequences> sequences;
  std::vector<int64_t> lengths;

  Tensor of(const StoredRows& rows, int64_t index) const;
};

}  // namespace npugraph::npu_ops
