// SPDX-License-Identifier: Apache-2.0
#include "codegen/attention/run.h"

#include <algorithm>
#include <cstring>

#include "codegen/attention/item.h"
#include "codegen/matmul/code.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {
namespace {

// Cost of reading a byte of a key or value from memory, in multiplications.
constexpr int64_t kCostOfByte = 4;

MatvecKind kind_of(const HeadsPlace& place) {
  // Copies are f32.
  if (!place.is_dense() || place.dtype == DType::kF32) return MatvecKind::kF32;
  return place.dtype == DType::kF16 ? MatvecKind::kF16 : MatvecKind::kBf16;
}

void find_panels(const AttentionPlan& plan, const target::Target& target, const TileShape& shape,
                 AttentionCode::Panels& code) {
  const int vectors = shape.vectors;
  code.products = tile_code(target, plan.kind(), shape);
  const int rows = static_cast<int>(value_tile_rows(plan));
  if (plan.value_size > 0 && !plan.shape.amx) code.values = value_tile_code(target, rows, vectors, plan.pairs);
  if (plan.value_size % value_tiles(plan) != 0 && !plan.shape.amx)
    code.one_more = value_tile_code(target, rows + 1, vectors, plan.pairs);
  for (const bool limited : {false, true}) {
    for (const bool masked : {false, true}) {
      if ((limited && !plan.may_limit()) || (masked && !plan.adds_mask())) continue;
      code.softmax[limited][masked] = softmax_panel_code(target, {vectors, plan.pairs, limited, masked});
    }
  }
}

void find_rows(const AttentionPlan& plan, const target::Target& target, int rows, AttentionCode& code) {
  const bool dot = plan.pairs && plan.k.is_dense();
  const MatvecKind of_keys = dot ? MatvecKind::kBf16Dot : kind_of(plan.k);
  code.scores = scores_code(target, of_keys, rows);
  code.products = rows_matvec_code(target, of_keys, rows);
  code.values = values_code(target, kind_of(plan.v), rows);
  code.least_keys = score_keys(target);
  code.softmax_row = softmax_row_code(target, plan.masked);
}

// Copies the rows of keys or values that some query sees to the places of `to`.
void copy_heads(const AttentionCall& attention, const HeadsPlace& from, const void* source, const HeadsPlace& to,
                char* target, const ng_call& call) {
  const AttentionPlan& plan = attention.plan;
  const int64_t first = attention.first(0), limit = attention.limit(plan.queries - 1);
  for_items(*call.host, plan.batches * plan.heads, std::max<int64_t>(limit - first, 0) * to.row(), [&](int64_t item) {
    const int64_t batch = item / plan.heads, head = item % plan.heads;
    for (int64_t key = first; key < limit; ++key)
      std::memcpy(target + to.offset(batch, head, key),
                  static_cast<const char*>(source) + from.offset(batch, head, key), static_cast<size_t>(to.row()));
  });
}

}  // namespace

int64_t value_tiles(const AttentionPlan& plan) {
  return std::max<int64_t>((plan.value_size + plan.value_rows - 1) / plan.value_rows, 1);
}

AttentionCode find_code(const AttentionPlan& plan, const target::Target& target) {
  AttentionCode code;
  code.store = store_sums_code(target, plan.out.dtype);
  if (plan.items() == 0) return code;
  if (plan.masked && plan.mask.is_dense()) code.mask = mask_row_code(target, plan.mask.dtype);
  if (plan.by_rows) {
    find_rows(plan, target, static_cast<int>(plan.rows()), code);
    return code;
  }
  code.transpose = transpose_code(target);
  code.widen = widen_code(target, plan.q.dtype, plan.multiplied());
  if (plan.shape.amx) code.interleave = interleave_code(target, plan.kind(), plan.v.dtype);
  code.amx = amx_code(target, plan.kind());
  // Only the last panel of a block may be narrow.
  const int64_t width = plan.shape.columns();
  const int64_t beyond = plan.rows() % width;
  const bool narrowed = beyond != 0 && beyond <= plan.shape.lanes;
  if (narrowed) find_panels(plan, target, narrow(plan.shape), code.panels[1]);
  if (!narrowed || plan.rows() > width) find_panels(plan, target, plan.shape, code.panels[0]);
  return code;
}

void make_code_for_queries(const AttentionPlan& plan, const target::Target& target) {
  AttentionCode code;
  for (int64_t rows = plan.group; rows > 0 && rows <= kMostVectors; rows += plan.group)
    find_rows(plan, target, static_cast<int>(rows), code);
  transpose_code(target);
  widen_code(target, plan.q.dtype, plan.multiplied());
  if (plan.shape.amx) interleave_code(target, plan.kind(), plan.v.dtype);
  for (const TileShape& shape : {narrow(plan.shape), plan.shape}) find_panels(plan, target, shape, code.panels[0]);
}

void run_attention(const AttentionPlan& plan, const AttentionCode& code, const ng_call& call) {
  if (plan.items() == 0) return;
  const AttentionCall attention(plan, code, memory_of(plan, call));
  auto* workspace = static_cast<char*>(call.workspace);
  if (plan.given_k)
    copy_heads(attention, *plan.given_k, call.buffers[1].data, plan.k, workspace + plan.keys_at(), call);
  if (plan.given_v)
    copy_heads(attention, *plan.given_v, call.buffers[2].data, plan.v, workspace + plan.values_at(), call);
  const Scratch scratch{workspace + plan.scratch_at(), plan.item_bytes, plan.slots};
  const int64_t size = plan.key_size + plan.value_size;
  const int64_t reading = kCostOfByte * size_of(plan.k.dtype);
  const int64_t rows_at_once = std::max(std::min(plan.block_rows, plan.rows()), reading);
  const auto run = plan.by_rows ? run_rows : run_panels;
  for_ranges(*call.host, attention.items(), rows_at_once * attention.chunk_keys() * size, scratch,
             [&](int64_t first, int64_t last, char* memory) {
               for (int64_t i = first; i < last; ++i) run(attention, attention.item(i), memory);
             });
  if (attention.chunks() == 1) return;
  const int64_t rows = plan.batches * plan.heads * plan.rows();
  for_ranges(*call.host, rows, attention.chunks() * plan.value_size, scratch,
             [&](int64_t first, int64_t last, char* memory) {
               for (int64_t row = first; row < last; ++row) attention.combine(row, reinterpret_cast<float*>(memory));
             });
}

}  // namespace npugraph::codegen
