// SPDX-License-Identifier: Apache-2.0
// Attention of few rows: keys and values move through the registers once, as in products with vectors.
#include <algorithm>
#include <cstring>
#include <limits>

#include "codegen/attention_item.h"
#include "codegen/matmul_copy.h"

namespace npugraph::codegen {
namespace {

constexpr int64_t kStagedRows = 32;  // of keys or values that do not lie as they are multiplied

class Rows {
 public:
  Rows(const AttentionCall& call, const AttentionItem& item)
      : c_(call), p_(call.plan), item_(item), stride_((p_.chunk_keys + 15) / 16 * 16 + 16) {
    ThreadMemory& memory = ThreadMemory::of_this_thread();
    const auto floats = [](int64_t count) { return ThreadMemory::size_of_piece(count * 4); };
    const int64_t size = std::max(p_.key_size, p_.value_size);
    memory.reserve(floats(item.rows * p_.key_size) + floats(item.rows * p_.value_size) +
                   2 * floats(item.rows * stride_) + floats(kStagedRows * size));
    queries_ = memory.take<float>(item.rows * p_.key_size);
    sums_ = memory.take<float>(item.rows * p_.value_size);
    scores_ = memory.take<float>(item.rows * stride_);
    mask_ = memory.take<float>(item.rows * stride_);
    staged_ = memory.take<float>(kStagedRows * size);
  }

  void run() {
    begin_ = item_.key;
    end_ = item_.key + item_.keys;
    if (p_.causal) end_ = std::min(end_, c_.limit(p_.queries - 1));
    if (p_.masked) find_seen_keys();
    std::memset(sums_, 0, sizeof(float) * item_.rows * p_.value_size);
    float state[kMostVectors][2];
    float largest[kMostVectors], totals[kMostVectors];
    if (begin_ < end_) multiply_keys();
    for (int64_t r = 0; r < item_.rows; ++r) {
      soften(r, state[r]);
      largest[r] = state[r][0];
      totals[r] = state[r][1];
    }
    if (begin_ < end_) multiply_values();
    c_.finish(item_, item_.row, item_.rows, sums_, p_.value_size, largest, totals);
  }

 private:
  // What is masked at the beginning and at the end, for all rows, is left out.
  void find_seen_keys() {
    constexpr float kHidden = -std::numeric_limits<float>::infinity();
    int64_t first = end_, last = begin_;
    for (int64_t r = 0; r < item_.rows; ++r) {
      float* mask = mask_ + r * stride_;
      const char* from_mask = c_.mask_at(item_, item_.row + r, item_.key);
      if (c_.copy_mask(from_mask, item_.keys, mask).hides_all) continue;
      int64_t from = begin_, to = end_;
      while (from < to && mask[from - item_.key] == kHidden) ++from;
      while (from < to && mask[to - 1 - item_.key] == kHidden) --to;
      if (from == to) continue;
      first = std::min(first, from);
      last = std::max(last, to);
    }
    begin_ = first;
    end_ = std::max(first, last);
  }

  bool keys_are_dense() const { return p_.k.is_dense(); }

  void multiply_keys() {
    const bool pairs = p_.pairs && keys_are_dense();
    const DType type = pairs ? DType::kBF16 : DType::kF32;
    const int64_t query_bytes = p_.key_size * size_of(type);
    for (int64_t r = 0; r < item_.rows; ++r) {
      const char* query = c_.query(item_.batch, item_.head, item_.row + r);
      copy_elements(query, p_.q.dtype, p_.q.column(), p_.key_size, reinterpret_cast<char*>(queries_) + r * query_bytes,
                    type, p_.key_size);
    }
    for_staged(
        keys_are_dense(), p_.k, p_.key_size, [&](int64_t key) { return c_.key(item_, key); },
        [&](const char* from, int64_t row_stride, int64_t key, int64_t count) {
          const auto multiply = count >= c_.code.least_keys ? c_.code.scores : c_.code.products;
          multiply(from, row_stride, count, queries_, query_bytes, p_.key_size, scores_ + key - begin_, stride_);
        });
  }

  void soften(int64_t r, float* state) {
    float* scores = scores_ + r * stride_;
    const int64_t seen = std::clamp<int64_t>(c_.limit(item_.row + r) - begin_, 0, end_ - begin_);
    c_.code.softmax_row(scores, seen, mask_ + r * stride_ + (begin_ - item_.key), p_.scale, state);
    std::fill(scores + seen, scores + std::max(seen, end_ - begin_), 0.0F);
  }

  void multiply_values() {
    for_staged(
        p_.v.is_dense(), p_.v, p_.value_size, [&](int64_t key) { return c_.value(item_, key); },
        [&](const char* from, int64_t row_stride, int64_t key, int64_t count) {
          c_.code.values(from, row_stride, p_.value_size, scores_ + key - begin_, stride_ * 4, count, sums_,
                         p_.value_size);
        });
  }

  // multiply(first row, stride, key, count) for all keys at once if their rows are dense, else for copies as f32.
  template <typename At, typename Multiply>
  void for_staged(bool dense, const HeadsPlace& place, int64_t size, At at, Multiply multiply) {
    if (dense) return multiply(at(begin_), place.row(), begin_, end_ - begin_);
    for (int64_t key = begin_; key < end_; key += kStagedRows) {
      const int64_t count = std::min(kStagedRows, end_ - key);
      for (int64_t i = 0; i < count; ++i)
        copy_elements(at(key + i), place.dtype, place.column(), size, staged_ + i * size, DType::kF32, size);
      multiply(reinterpret_cast<const char*>(staged_), size * 4, key, count);
    }
  }

  const AttentionCall& c_;
  const AttentionPlan& p_;
  const AttentionItem& item_;
  int64_t stride_;  // of scores and mask
  int64_t begin_ = 0;
  int64_t end_ = 0;
  float* queries_;
  float* sums_;
  float* scores_;
  float* mask_;
  float* staged_;
};

}  // namespace

void run_rows(const AttentionCall& call, const AttentionItem& item) { Rows(call, item).run(); }

}  // namespace npugraph::codegen
