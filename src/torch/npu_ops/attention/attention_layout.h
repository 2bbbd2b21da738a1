// SPDX-License-Identifier: Apache-2.0
// Where queries, keys, values and results of attention have their batches, rows and heads. Inside, all of them are
// [batches, heads, rows, size]; what is packed, rows of several sequences one after another, is one batch.
#pragma once

#include <string_view>

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// B batches, S rows of a batch, N heads, D the size of a head, H = N * D, T rows of all batches.
enum class Axes { kBSH, kBSND, kBNSD, kSBH, kTND, kNTD, kNBSD };

struct Layout {
  Axes in;
  Axes out;
};

// "BSND", or "BSND_BNSD" where results have another layout than queries.
Layout layout_of(const char* op, std::string_view text);

inline bool is_packed(Axes axes) { return axes == Axes::kTND || axes == Axes::kNTD; }

// A view of `tensor`.
Tensor to_heads(const char* op, const char* name, const Tensor& tensor, Axes axes, const c10::SymInt& heads);

// The inverse; contiguous.
Tensor from_heads(const Tensor& tensor, Axes axes);

// Results that are one number for each row come in this many copies where calls train.
constexpr int64_t kStatisticsCopies = 8;

// What is known of each row of each head, [batches, heads, rows, n], in the layout of softmax statistics: [T, N, n] where rows
// are packed.
Tensor statistics_from_heads(const Tensor& tensor, Axes axes);
Tensor statistics_to_heads(const Tensor& tensor, Axes axes);

}  // namespace npugraph::npu_ops
