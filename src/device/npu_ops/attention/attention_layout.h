// SPDX-License-Identifier: Apache-2.0
// Layouts of queries, keys, values and results of attention. Internally all of them are [batches, heads, rows, size];
// packed tensors, with rows of several sequences one after another, are one batch.
#pragma once

#include <string_view>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// B batches, S rows of a batch, N heads, D the size of a head, H = N * D, T rows of all batches.
enum class Axes { kBSH, kBSND, kBNSD, kSBH, kTND, kNTD, kNBSD };

struct Layout {
  Axes in;
  Axes out;
};

// `text` is like "BSND", or "BSND_BNSD" if results have another layout than queries.
Layout layout_of(const char* op, std::string_view text);

inline bool is_packed(Axes axes) { return axes == Axes::kTND || axes == Axes::kNTD; }

// A view of `tensor` as [batches, heads, rows, size].
Tensor to_heads(const char* op, const char* name, const Tensor& tensor, Axes axes, const c10::SymInt& heads);

// The number of heads of size `head_size` in a row of `tensor`, in layouts of flat rows; 0 in those with a dimension of
// heads, and for heads without elements. A compiled graph is specialised to it.
int64_t heads_of_rows(const Tensor& tensor, Axes axes, const c10::SymInt& head_size);

// The inverse; contiguous.
Tensor from_heads(const Tensor& tensor, Axes axes);

// Number of copies in which operators for training return statistics, one number for each row.
constexpr int64_t kStatisticsCopies = 8;

// Converts values for each row of each head, [batches, heads, rows, n], to the layout of softmax statistics, which is
// [T, N, n] for packed rows, and back.
Tensor statistics_from_heads(const Tensor& tensor, Axes axes);
Tensor statistics_to_heads(const Tensor& tensor, Axes axes);

}  // namespace npugraph::npu_ops
