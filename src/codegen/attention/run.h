// SPDX-License-Identifier: Apache-2.0
// Runs a planned attention: cuts it into work items, none of which depends on how many threads there are.
#pragma once

#include "codegen/attention/piece.h"
#include "codegen/attention/plan.h"
#include "codegen/attention/streams.h"
#include "codegen/matmul/amx_tile.h"
#include "codegen/matmul/epilogue.h"

namespace npugraph::codegen {

// The machine code that a plan needs. Arrays: wide panels, then narrow ones of one vector.
struct AttentionCode {
  StoreSumsFunction* store = nullptr;
  MaskRowFunction* mask = nullptr;  // of a mask that is contiguous along keys

  struct Panels {
    TileFunction* products = nullptr;          // with keys; on AMX also with values
    ValueTileFunction* values = nullptr;       // value_tile_rows()
    ValueTileFunction* one_more = nullptr;     // a row more
    SoftmaxPanelFunction* softmax[2][2] = {};  // [limited][masked]
  };
  Panels panels[2];
  TransposeFunction* transpose = nullptr;
  InterleaveFunction* interleave = nullptr;  // of values for AMX
  AmxCode amx;

  ScoresFunction* scores = nullptr;        // rows: with many keys as they lie
  RowsMatvecFunction* products = nullptr;  // and with few
  ValuesFunction* values = nullptr;
  int64_t least_keys = 0;  // that are many
  SoftmaxRowFunction* softmax_row = nullptr;
};

// Rows of most tiles that a value of so many elements is cut into, as equal as can be; the first ones have one more.
int64_t value_tiles(const AttentionPlan& plan);
inline int64_t value_tile_rows(const AttentionPlan& plan) { return plan.value_size / value_tiles(plan); }

AttentionCode find_code(const AttentionPlan& plan, const target::Target& target);

// Makes what find_code() finds for plans that differ from this one in their number of queries.
void make_code_for_queries(const AttentionPlan& plan, const target::Target& target);

void run_attention(const AttentionPlan& plan, const AttentionCode& code, const ng_call& call);

}  // namespace npugraph::codegen
