// SPDX-License-Identifier: Apache-2.0
#include "codegen/attention/pages.h"

#include <algorithm>
#include <atomic>

#include "codegen/task/slots.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {

PagedAttention::PagedAttention(const loop::Attention& attention, const PagedOperands& operands,
                               std::span<const PagedSequence> sequences, const target::Target& target) {
  const auto count = static_cast<int64_t>(sequences.size());
  pieces_.reserve(sequences.size());
  for (const PagedSequence& sequence : sequences) {
    if (sequence.queries == 0) continue;
    Piece piece = piece_of(attention, operands, sequence, operands.heads * (count - 1), target);
    piece.parts_at = scratch_at_;
    scratch_at_ += piece.plan.part_bytes();
    item_bytes_ = std::max(item_bytes_, piece.plan.item_bytes);
    multiplications_ +=
        piece.plan.heads * piece.plan.rows() * piece.plan.keys * (operands.key_size + operands.value_size);
    pieces_.push_back(piece);
  }
  slots_ = most_slots();
}

PagedAttention::Piece PagedAttention::piece_of(const loop::Attention& attention, const PagedOperands& operands,
                                               const PagedSequence& sequence, int64_t blocks,
                                               const target::Target& target) {
  Piece piece;
  AttentionPlan& plan = piece.plan;
  plan.heads = operands.heads;
  plan.group = operands.group;
  plan.queries = sequence.queries;
  plan.keys = sequence.keys;
  plan.key_size = operands.key_size;
  plan.value_size = operands.value_size;
  plan.q = operands.q;
  plan.k = operands.k;
  plan.v = operands.v;
  plan.out = operands.out;
  plan.logsumexp = operands.logsumexp;
  plan.page_keys = operands.page_keys;
  plan.beside = blocks;
  complete_plan(attention, operands.dtype, target, plan);
  piece.code = code_of(plan, target);
  piece.memory = operands.memory;
  piece.memory.q += plan.q.offset(0, 0, sequence.first_query);
  piece.memory.out += plan.out.offset(0, 0, sequence.first_query);
  if (plan.with_logsumexp) piece.memory.logsumexp += plan.logsumexp.offset(0, 0, sequence.first_query);
  piece.memory.pages = sequence.pages;
  piece.memory.position = plan.keys - plan.queries;
  return piece;
}

const AttentionCode* PagedAttention::code_of(const AttentionPlan& plan, const target::Target& target) {
  for (const auto& [queries, code] : codes_)
    if (queries == plan.queries) return &code;
  return &codes_.emplace_back(plan.queries, find_code(plan, target)).second;
}

void PagedAttention::run(const ng_host& host, char* workspace) const {
  std::vector<AttentionCall> calls;
  std::vector<int64_t> ends;  // of the items of each piece among all
  calls.reserve(pieces_.size());
  int64_t items = 0;
  for (const Piece& piece : pieces_) {
    AttentionMemory memory = piece.memory;
    memory.parts = reinterpret_cast<float*>(workspace + piece.parts_at);
    calls.emplace_back(piece.plan, *piece.code, memory);
    ends.push_back(items += calls.back().items());
  }
  if (items == 0) return;
  const auto run_item = [&](int64_t item, char* memory) {
    const auto at = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), item) - ends.begin());
    const AttentionCall& call = calls[at];
    const AttentionItem own = call.item(item - (at == 0 ? 0 : ends[at - 1]));
    (call.plan.by_rows ? run_rows : run_panels)(call, own, memory);
  };
  // Sequences differ in length, so threads take items by turns.
  const Scratch scratch{workspace + scratch_at_, item_bytes_, slots_};
  const int64_t threads = multiplications_ <= kGrainMultiplications ? 1 : host.workers;
  std::atomic<int64_t> next = 0;
  for_ranges(host, threads, kGrainMultiplications, scratch, [&](int64_t, int64_t, char* memory) {
    for (int64_t item = next++; item < items; item = next++) run_item(item, memory);
  });
  for (const AttentionCall& call : calls) {
    if (call.chunks() == 1) continue;
    const int64_t rows = call.plan.heads * call.plan.rows();
    for_ranges(host, rows, call.chunks() * call.plan.value_size, scratch,
               [&](int64_t first, int64_t last, char* memory) {
                 for (int64_t row = first; row < last; ++row) call.combine(row, reinterpret_cast<float*>(memory));
               });
  }
}

}  // namespace npugraph::codegen
