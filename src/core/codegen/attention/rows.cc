// SPDX-License-Identifier: Apache-2.0
// Attention of few rows: keys and values move through the registers once, as in products with vectors.
#include <algorithm>
#include <cstring>
#include <limits>

#include "codegen/attention/item.h"
#include "codegen/matmul/copy.h"

namespace npugraph::codegen {
namespace {

constexpr int64_t kStagedRows = 32;  // of keys or values that are copied before they are multiplied

// Elements from row to row of scores and mask.
int64_t row_stride(const AttentionPlan& plan) { return (plan.chunk_keys + 15) / 16 * 16 + 16; }

struct RowsMemory {
  RowsMemory(const AttentionPlan& plan, Pieces& pieces)
      : queries(pieces.take<float>(plan.rows() * plan.key_size)),
        sums(pieces.take<float>(plan.rows() * plan.value_size)),
        scores(pieces.take<float>(plan.rows() * row_stride(plan))),
        mask(pieces.take<float>(plan.masked ? plan.rows() * row_stride(plan) : 0)) {
    if (!plan.k.is_dense() || !plan.v.is_dense())
      staged = pieces.take<float>(kStagedRows * std::max(plan.key_size, plan.value_size));
  }

  float* queries;
  float* sums;
  float* scores;
  float* mask;
  float* staged = nullptr;
};

class Rows {
 public:
  Rows(const AttentionCall& call, const AttentionItem& item, const RowsMemory& memory)
      : c_(call), p_(call.plan), item_(item), stride_(row_stride(p_)), m_(memory) {}

  void run() {
    begin_ = item_.key;
    end_ = item_.key + item_.keys;
    if (p_.masked) find_seen_keys();
    std::memset(m_.sums, 0, sizeof(float) * item_.rows * p_.value_size);
    float state[kMostVectors][2];
    float largest[kMostVectors], totals[kMostVectors];
    if (begin_ < end_) multiply_keys();
    for (int64_t r = 0; r < item_.rows; ++r) {
      soften(r, state[r]);
      largest[r] = state[r][0];
      totals[r] = state[r][1];
    }
    if (begin_ < end_) multiply_values();
    c_.finish(item_, item_.row, item_.rows, m_.sums, p_.value_size, largest, totals);
  }

 private:
  // Leaves out keys at the beginning and at the end that the mask hides from all rows.
  void find_seen_keys() {
    constexpr float kHidden = -std::numeric_limits<float>::infinity();
    int64_t first = end_, last = begin_;
    for (int64_t r = 0; r < item_.rows; ++r) {
      float* mask = m_.mask + r * stride_;
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
      copy_elements(query, p_.q.dtype, p_.q.column(), p_.key_size,
                    reinterpret_cast<char*>(m_.queries) + r * query_bytes, type, p_.key_size);
    }
    for_staged(
        keys_are_dense(), p_.k, p_.key_size, [&](int64_t key) { return c_.key(item_, key); },
        [&](const char* from, int64_t row_stride, int64_t key, int64_t count) {
          const auto multiply = count >= c_.code.least_keys ? c_.code.scores : c_.code.products;
          multiply(from, row_stride, count, m_.queries, query_bytes, p_.key_size, m_.scores + key - begin_, stride_);
        });
  }

  void soften(int64_t r, float* state) {
    float* scores = m_.scores + r * stride_;
    const int64_t first = std::clamp(c_.first(item_.row + r), begin_, end_) - begin_;
    const int64_t seen = std::clamp(c_.limit(item_.row + r), begin_ + first, end_) - begin_;
    c_.code.softmax_row(scores + first, seen - first, m_.mask + r * stride_ + (begin_ - item_.key) + first, p_.scale,
                        state);
    std::fill(scores, scores + first, 0.0F);
    std::fill(scores + seen, scores + (end_ - begin_), 0.0F);
  }

  void multiply_values() {
    for_staged(
        p_.v.is_dense(), p_.v, p_.value_size, [&](int64_t key) { return c_.value(item_, key); },
        [&](const char* from, int64_t row_stride, int64_t key, int64_t count) {
          c_.code.values(from, row_stride, p_.value_size, m_.scores + key - begin_, stride_ * 4, count, m_.sums,
                         p_.value_size);
        });
  }

  // multiply(first row, stride, key, count) for all keys that are evenly spaced at once if their rows are dense, else
  // for copies of a few as f32.
  template <typename At, typename Multiply>
  void for_staged(bool dense, const HeadsPlace& place, int64_t size, At at, Multiply multiply) {
    if (dense) {
      for (int64_t key = begin_, count = 0; key < end_; key += count) {
        count = c_.in_one_piece(key, end_ - key);
        multiply(at(key), place.row(), key, count);
      }
      return;
    }
    for (int64_t key = begin_; key < end_; key += kStagedRows) {
      const int64_t count = std::min(kStagedRows, end_ - key);
      for (int64_t i = 0; i < count; ++i)
        copy_elements(at(key + i), place.dtype, place.column(), size, m_.staged + i * size, DType::kF32, size);
      multiply(reinterpret_cast<const char*>(m_.staged), size * 4, key, count);
    }
  }

  const AttentionCall& c_;
  const AttentionPlan& p_;
  const AttentionItem& item_;
  int64_t stride_;
  const RowsMemory& m_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

}  // namespace

int64_t bytes_of_rows(const AttentionPlan& plan) {
  Pieces pieces(nullptr);
  RowsMemory(plan, pieces);
  return pieces.bytes();
}

void run_rows(const AttentionCall& call, const AttentionItem& item, char* memory) {
  Pieces pieces(memory);
  Rows(call, item, RowsMemory(call.plan, pieces)).run();
}

}  // namespace npugraph::codegen
