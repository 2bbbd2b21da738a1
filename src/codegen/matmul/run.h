// SPDX-License-Identifier: Apache-2.0
// Runs a planned product: cuts it into work items, none of which depends on how many threads there are.
#pragma once

#include "codegen/matmul/amx_tile.h"
#include "codegen/matmul/code.h"
#include "codegen/matmul/plan.h"

namespace npugraph::codegen {

// The machine code that a plan needs; `epilogue` is its owner's to fill in.
struct MatmulCode {
  TileFunction* wide = nullptr;  // kPackA and kPackB, as far as they need them
  TileFunction* narrow = nullptr;
  AmxCode amx;                               // for tiles that need it
  TransposeFunction* transpose = nullptr;    // kPackA
  CopyTileRowsFunction* copy = nullptr;      // kPackA, where whole cuts of rows of B are copied as they are
  WidenFunction* widen = nullptr;            // kPackA, where rows of B are i8 that are multiplied as something else
  InterleaveFunction* interleave = nullptr;  // kPackB
  RowsMatvecFunction* matvec = nullptr;      // the others, and rows that kPackA leaves
  StoreSumsFunction* store = nullptr;        // one of these two
  EpilogueFunction* epilogue = nullptr;
};

MatmulCode find_code(const MatmulSpec& spec, const target::Target& target, const MatmulPlan& plan);

// Makes what find_code() finds for plans that differ from this one in their number of rows.
void make_code_for_rows(const MatmulSpec& spec, const target::Target& target, const MatmulPlan& plan);

void run_matmul(const MatmulPlan& plan, const MatmulCode& code, const ng_call& call);
void run_matmuls(const MatmulPlans& plans, const std::vector<MatmulCode>& codes, const ng_call& call);

}  // namespace npugraph::codegen
