// SPDX-License-Identifier: Apache-2.0
// One work item of an attention: some rows, and some of their keys.
#pragma once

#include <algorithm>
#include <cstdint>

#include "abi/task.h"
#include "codegen/attention/attention.h"
#include "codegen/attention/run.h"

namespace npugraph::codegen {

struct AttentionItem {
  int64_t number = 0;
  int64_t batch = 0;
  int64_t head = 0;  // of keys and values
  int64_t row = 0;
  int64_t rows = 0;
  int64_t key = 0;
  int64_t keys = 0;
};

// The effect of a piece of a row of the mask on the scores.
struct MaskEffect {
  bool hides_all = true;
  bool hides_none = true;  // and adds nothing

  void add(const MaskEffect& other) {
    hides_all &= other.hides_all;
    hides_none &= other.hides_none;
  }
};

// The memory of a call by the task ABI.
AttentionMemory memory_of(const AttentionPlan& plan, const ng_call& call);

// The data that all items of a call share.
class AttentionCall {
 public:
  AttentionCall(const AttentionPlan& plan, const AttentionCode& code, const AttentionMemory& memory);

  const AttentionPlan& plan;
  const AttentionCode& code;

  int64_t items() const { return plan.blocks() * chunks_; }
  int64_t chunks() const { return chunks_; }
  int64_t chunk_keys() const { return chunk_keys_; }
  AttentionItem item(int64_t number) const;

  const char* query(int64_t batch, int64_t head, int64_t row) const;
  const char* key(const AttentionItem& item, int64_t key) const { return at_.k + offset(plan.k, item, key); }
  const char* value(const AttentionItem& item, int64_t key) const { return at_.v + offset(plan.v, item, key); }
  // How many of `count` keys from `key` on are evenly spaced.
  int64_t in_one_piece(int64_t key, int64_t count) const {
    return plan.page_keys == 0 ? count : std::min(count, plan.page_keys - key % plan.page_keys);
  }
  // A key that may be prefetched instead of one that may lie behind the last one.
  int64_t prefetched(int64_t key) const { return plan.page_keys == 0 ? key : std::min(key, plan.keys - 1); }
  // The keys [first, limit) that a row sees by its position. Both grow with the query.
  int64_t first(int64_t row) const { return plan.before ? bounded(row % plan.queries - *plan.before) : 0; }
  int64_t limit(int64_t row) const { return plan.after ? bounded(row % plan.queries + *plan.after + 1) : plan.keys; }
  // The address of the mask of a row and a key.
  const char* mask_at(const AttentionItem& item, int64_t row, int64_t key) const;
  // Writes the numbers that the mask, from `from` on, adds to the scores of `count` keys.
  MaskEffect copy_mask(const char* from, int64_t count, float* to) const;

  // Takes the results of an item for `count` rows from `row` on: the largest scores, the sums of probabilities, and the
  // sums with values, `stride` elements from row to row. These sums may be changed, and a whole vector must be readable
  // behind each of their rows.
  void finish(const AttentionItem& item, int64_t row, int64_t count, float* sums, int64_t stride, const float* largest,
              const float* totals) const;
  // Combines the chunks of one row and stores the result; `sums` is memory for a row and a vector.
  void combine(int64_t row_number, float* sums) const;

 private:
  int64_t bounded(int64_t beyond_position) const {
    return std::clamp<int64_t>(at_.position + beyond_position, 0, plan.keys);
  }
  int64_t offset(const HeadsPlace& place, const AttentionItem& item, int64_t key) const {
    if (plan.page_keys == 0) return place.offset(item.batch, item.head, key);
    return place.offset(at_.pages[key / plan.page_keys], item.head, key % plan.page_keys);
  }
  float* part(int64_t item, int64_t row) const {
    return at_.parts + (item * plan.block_rows + row) * plan.part_floats();
  }
  void store(int64_t batch, int64_t head, int64_t row, int64_t count, float* sums, int64_t stride, const float* largest,
             const float* totals) const;

  AttentionMemory at_;
  // Some query sees the keys [first_key_, last_key_) by its position. They are cut into chunks of equal size.
  int64_t first_key_ = 0;
  int64_t last_key_ = 0;
  int64_t chunk_keys_ = 0;
  int64_t chunks_ = 1;
};

// Cuts 64-byte aligned memory into pieces, one after the other. If `memory` is null, bytes() is the size that they
// need.
class Pieces {
 public:
  explicit Pieces(char* memory) : first_(reinterpret_cast<uintptr_t>(memory)), next_(first_) {}
  // Room for `count` elements and a vector.
  template <typename Element>
  Element* take(int64_t count) {
    const uintptr_t at = next_;
    next_ += (static_cast<uintptr_t>(count) * sizeof(Element) + 63) / 64 * 64 + 64;
    return reinterpret_cast<Element*>(at);
  }
  int64_t bytes() const { return static_cast<int64_t>(next_ - first_); }

 private:
  uintptr_t first_;
  uintptr_t next_;
};

// `memory` is item_bytes() of the plan, 64-byte aligned.
void run_rows(const AttentionCall& call, const AttentionItem& item, char* memory);
void run_panels(const AttentionCall& call, const AttentionItem& item, char* memory);

}  // namespace npugraph::codegen
