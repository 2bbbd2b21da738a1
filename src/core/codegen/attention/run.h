// SPDX-License-Identifier: Apache-2.0
// Runs a planned attention: cuts it into work items, which do not depend on the number of threads.
#pragma once

#include "codegen/attention/piece.h"
#include "codegen/attention/plan.h"
#include "codegen/matmul/amx_tile.h"
#include "codegen/matmul/code.h"

namespace npugraph::codegen {

// The machine code that a plan needs.
struct AttentionCode {
  StoreSumsFunction* store = nullptr;
  MaskRowFunction* mask = nullptr;  // for a mask that is contiguous along keys

  struct Panels {
    TileFunction* products = nullptr;          // with keys; on AMX also with values
    ValueTileFunction* values = nullptr;       // of value_tile_rows() rows
    ValueTileFunction* one_more = nullptr;     // of one row more
    SoftmaxPanelFunction* softmax[2][2] = {};  // [limited][masked]
  };
  Panels panels[2];                // wide panels, then narrow ones of one vector
  WidenFunction* widen = nullptr;  // operands that are not of the type that is multiplied
  TransposeFunction* transpose = nullptr;
  InterleaveFunction* interleave = nullptr;  // for values on AMX
  AmxCode amx;

  // For plans by rows.
  ScoresFunction* scores = nullptr;        // products with at least `least_keys` keys
  RowsMatvecFunction* products = nullptr;  // products with fewer keys
  ValuesFunction* values = nullptr;
  int64_t least_keys = 0;
  SoftmaxRowFunction* softmax_row = nullptr;
};

// Number of tiles that a value is cut into, as equal as possible, and rows of most of them; the first ones have one
// more.
int64_t value_tiles(const AttentionPlan& plan);
inline int64_t value_tile_rows(const AttentionPlan& plan) { return plan.value_size / value_tiles(plan); }

AttentionCode find_code(const AttentionPlan& plan, const target::Target& target);

// Makes the code that find_code() returns for plans that differ from this one in their number of queries.
void make_code_for_queries(const AttentionPlan& plan, const target::Target& target);

void run_attention(const AttentionPlan& plan, const AttentionCode& code, const ng_call& call);

}  // namespace npugraph::codegen
