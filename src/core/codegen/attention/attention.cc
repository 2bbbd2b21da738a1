// SPDX-License-Identifier: Apache-2.0
#include "codegen/attention/attention.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <vector>

#include "base/error.h"
#include "codegen/attention/item.h"
#include "codegen/attention/plan.h"
#include "codegen/attention/run.h"
#include "codegen/task/planned_task.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {

namespace {

struct Planner {
  loop::Attention attention;
  DType dtype;
  target::Target target;

  std::optional<AttentionPlan> plan(const ng_call& call) const {
    return plan_attention(attention, dtype, target, call);
  }
  AttentionCode code(const AttentionPlan& plan) const { return find_code(plan, target); }
  void prepare(const AttentionPlan& plan) const { make_code_for_queries(plan, target); }
  static void run(const AttentionPlan& plan, const AttentionCode& code, const ng_call& call) {
    run_attention(plan, code, call);
  }
};

}  // namespace

ng_task make_attention(const loop::Attention& attention, DType dtype, const target::Target& target, RowCount rows) {
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16)
    throw UserError(cat("attention: elements of ", name_of(dtype), "; f32, bf16 and f16 are known"));
  if (dtype == DType::kF16 && !target.f16c) throw UserError(cat("attention: ", target.level, " has no f16"));
  return PlannedTask<Planner>::make({attention, dtype, target}, rows);
}

// The plans of all sequences.
class VarlenAttention::Pieces {
 public:
  Pieces(const loop::Attention& attention, const VarlenOperands& operands, std::span<const VarlenSequence> sequences,
         const target::Target& target);

  int64_t workspace() const { return scratch_at_ + slots_ * item_bytes_; }
  void run(const ng_host& host, char* workspace) const;

 private:
  struct Piece {
    AttentionPlan plan;
    const AttentionCode* code;
    AttentionMemory memory;
    int64_t parts_at = 0;
  };

  Piece piece_of(const loop::Attention& attention, const VarlenOperands& operands, const VarlenSequence& sequence,
                 int64_t blocks, const target::Target& target);
  const AttentionCode* code_of(const AttentionPlan& plan, const target::Target& target);

  std::vector<Piece> pieces_;
  std::deque<std::pair<int64_t, AttentionCode>> codes_;  // by number of queries
  int64_t scratch_at_ = 0;
  int64_t item_bytes_ = 0;
  int64_t multiplications_ = 0;
  int slots_ = 1;
};

VarlenAttention::VarlenAttention(const loop::Attention& attention, const VarlenOperands& operands,
                                 std::span<const VarlenSequence> sequences, const target::Target& target)
    : pieces_(std::make_unique<Pieces>(attention, operands, sequences, target)) {}

VarlenAttention::~VarlenAttention() = default;

int64_t VarlenAttention::workspace() const { return pieces_->workspace(); }

void VarlenAttention::run(const ng_host& host, char* workspace) const { pieces_->run(host, workspace); }

VarlenAttention::Pieces::Pieces(const loop::Attention& attention, const VarlenOperands& operands,
                                std::span<const VarlenSequence> sequences, const target::Target& target) {
  const auto count = static_cast<int64_t>(sequences.size());
  pieces_.reserve(sequences.size());
  for (const VarlenSequence& sequence : sequences) {
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

VarlenAttention::Pieces::Piece VarlenAttention::Pieces::piece_of(const loop::Attention& attention,
                                                                 const VarlenOperands& operands,
                                                                 const VarlenSequence& sequence, int64_t blocks,
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
  plan.in_place = true;
  complete_plan(attention, operands.dtype, target, plan);
  piece.code = code_of(plan, target);
  piece.memory = operands.memory;
  const int64_t batch = sequence.query_batch, row = sequence.first_query;
  piece.memory.q += plan.q.offset(batch, 0, row);
  piece.memory.out += plan.out.offset(batch, 0, row);
  if (plan.with_logsumexp) piece.memory.logsumexp += plan.logsumexp.offset(batch, 0, row);
  if (plan.page_keys > 0) {
    piece.memory.pages = sequence.pages;
  } else {
    piece.memory.k += plan.k.offset(sequence.key_batch, 0, sequence.first_key);
    piece.memory.v += plan.v.offset(sequence.key_batch, 0, sequence.first_key);
  }
  if (plan.position == loop::AttentionPosition::kEnd) piece.memory.position = plan.keys - plan.queries;
  return piece;
}

const AttentionCode* VarlenAttention::Pieces::code_of(const AttentionPlan& plan, const target::Target& target) {
  for (const auto& [queries, code] : codes_)
    if (queries == plan.queries) return &code;
  return &codes_.emplace_back(plan.queries, find_code(plan, target)).second;
}

void VarlenAttention::Pieces::run(const ng_host& host, char* workspace) const {
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
