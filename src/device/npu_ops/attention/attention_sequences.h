// SPDX-License-Identifier: Apache-2.0
// Rows of single sequences in tensors that hold several: padded batches, packed rows, pages of a cache.
#pragma once

#include <vector>

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

}  // namespace npugraph::npu_ops
