// SPDX-License-Identifier: Apache-2.0
#include "codegen/attention/item.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "codegen/matmul/copy.h"

namespace npugraph::codegen {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// The score that probabilities are relative to: the largest one, or 0 for a row that saw no key.
float reference(float largest) { return largest == kHidden ? 0 : largest; }

void copy_strided_mask(const char* from, DType dtype, int64_t stride, int64_t count, float* to) {
  if (dtype != DType::kBool) return copy_elements(from, dtype, stride, count, to, DType::kF32, count);
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride] != 0 ? 0 : kHidden;
}

MaskEffect effect_of(const float* mask, int64_t count) {
  uint32_t seen = 0, added = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(mask[i]);
    seen |= bits ^ std::bit_cast<uint32_t>(kHidden);
    added |= bits << 1;
  }
  return {seen == 0, added == 0};
}

}  // namespace

AttentionMemory memory_of(const AttentionPlan& plan, const ng_call& call) {
  AttentionMemory memory{.q = static_cast<const char*>(call.buffers[0].data),
                         .k = static_cast<const char*>(call.buffers[1].data),
                         .v = static_cast<const char*>(call.buffers[2].data),
                         .parts = static_cast<float*>(call.workspace)};
  if (plan.given_k) memory.k = static_cast<const char*>(call.workspace) + plan.keys_at();
  if (plan.given_v) memory.v = static_cast<const char*>(call.workspace) + plan.values_at();
  const ng_buffer* next = call.buffers + 3;
  if (plan.masked) memory.mask = static_cast<const char*>((next++)->data);
  if (plan.position == loop::AttentionPosition::kGiven)
    memory.position = std::clamp(*static_cast<const int64_t*>((next++)->data), -loop::kMostKeys, loop::kMostKeys);
  if (plan.position == loop::AttentionPosition::kEnd) memory.position = plan.keys - plan.queries;
  memory.out = static_cast<char*>((next++)->data);
  if (plan.with_logsumexp) memory.logsumexp = static_cast<char*>(next->data);
  return memory;
}

AttentionCall::AttentionCall(const AttentionPlan& plan, const AttentionCode& code, const AttentionMemory& memory)
    : plan(plan), code(code), at_(memory) {
  first_key_ = first(0);
  last_key_ = std::max(limit(plan.queries - 1), first_key_);
  const int64_t seen = last_key_ - first_key_;
  chunk_keys_ = plan.keys_of_chunk(seen);
  chunks_ = std::max<int64_t>(divide_up(seen, chunk_keys_), 1);
}

// Items count through chunks, then blocks of rows, heads and batches, so that neighbouring items share keys.
AttentionItem AttentionCall::item(int64_t number) const {
  AttentionItem item{.number = number};
  item.key = first_key_ + number % chunks_ * chunk_keys_;
  item.keys = std::min(chunk_keys_, last_key_ - item.key);
  number /= chunks_;
  item.row = number % plan.row_blocks() * plan.block_rows;
  item.rows = std::min(plan.block_rows, plan.rows() - item.row);
  number /= plan.row_blocks();
  item.head = number % plan.heads;
  item.batch = number / plan.heads;
  return item;
}

const char* AttentionCall::query(int64_t batch, int64_t head, int64_t row) const {
  return at_.q + plan.q.offset(batch, head * plan.group + row / plan.queries, row % plan.queries);
}

const char* AttentionCall::mask_at(const AttentionItem& item, int64_t row, int64_t key) const {
  const int64_t head = item.head * plan.group + row / plan.queries;
  return at_.mask + plan.mask.offset(item.batch, head, row % plan.queries, key);
}

MaskEffect AttentionCall::copy_mask(const char* from, int64_t count, float* to) const {
  if (code.mask == nullptr) {
    copy_strided_mask(from, plan.mask.dtype, plan.mask.column(), count, to);
    return effect_of(to, count);
  }
  uint32_t effect[2];
  code.mask(from, count, to, effect);
  return {effect[0] == 0, effect[1] == 0};
}

void AttentionCall::finish(const AttentionItem& item, int64_t row, int64_t count, float* sums, int64_t stride,
                           const float* largest, const float* totals) const {
  if (chunks_ == 1) return store(item.batch, item.head, row, count, sums, stride, largest, totals);
  for (int64_t r = 0; r < count; ++r) {
    float* to = part(item.number, row - item.row + r);
    std::memcpy(to, sums + r * stride, static_cast<size_t>(plan.value_size) * sizeof(float));
    to[plan.value_size] = largest[r];
    to[plan.value_size + 1] = totals[r];
  }
}

void AttentionCall::combine(int64_t row_number, float* sums) const {
  const int64_t row = row_number % plan.rows();
  const int64_t head = row_number / plan.rows();
  const int64_t first = (head * plan.row_blocks() + row / plan.block_rows) * chunks_;
  float largest = kHidden, total = 0;
  for (int64_t c = 0; c < chunks_; ++c)
    largest = std::max(largest, part(first + c, row % plan.block_rows)[plan.value_size]);
  std::fill_n(sums, plan.value_size, 0.0F);
  for (int64_t c = 0; c < chunks_; ++c) {
    const float* from = part(first + c, row % plan.block_rows);
    const float factor = std::exp(from[plan.value_size] - reference(largest));
    for (int64_t i = 0; i < plan.value_size; ++i) sums[i] += from[i] * factor;
    total += from[plan.value_size + 1] * factor;
  }
  store(head / plan.heads, head % plan.heads, row, 1, sums, plan.value_size, &largest, &total);
}

void AttentionCall::store(int64_t batch, int64_t head, int64_t row, int64_t count, float* sums, int64_t stride,
                          const float* largest, const float* totals) const {
  for (int64_t r = 0; r < count; ++r) {
    const float factor = totals[r] == 0 ? plan.of_empty : 1 / totals[r];
    for (int64_t i = 0; i < plan.value_size; ++i) sums[r * stride + i] *= factor;
  }
  // Only the rows of one query head are evenly spaced, so one head is stored at a time.
  for (int64_t r = 0; r < count;) {
    const int64_t query = (row + r) % plan.queries;
    const int64_t here = std::min(count - r, plan.queries - query);
    const int64_t query_head = head * plan.group + (row + r) / plan.queries;
    code.store(sums + r * stride, stride, here, plan.value_size, at_.out + plan.out.offset(batch, query_head, query),
               plan.out.row());
    for (int64_t i = r; plan.with_logsumexp && i < r + here; ++i) {
      const float value = reference(largest[i]) + (totals[i] == 0 ? 0 : std::log(totals[i]));
      std::memcpy(at_.logsumexp + plan.logsumexp.offset(batch, query_head, query + i - r), &value, sizeof(value));
    }
    r += here;
  }
}

}  // namespace npugraph::codegen
