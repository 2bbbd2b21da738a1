// SPDX-License-Identifier: Apache-2.0
// Runs a planned product: cuts it into work items, which do not depend on the number of threads.
#pragma once

#include "codegen/kernel/kernel.h"
#include "codegen/matmul/amx_tile.h"
#include "codegen/matmul/code.h"
#include "codegen/matmul/plan.h"

namespace npugraph::codegen {

// The machine code that a plan needs. The caller of find_code() fills in `epilogue` and `factor`.
struct MatmulCode {
  TileFunction* wide = nullptr;  // kPackA and kPackB, as far as they need them
  TileFunction* narrow = nullptr;
  AmxCode amx;                                 // for tiles that need it
  TransposeFunction* transpose = nullptr;      // kPackA, and for blocks of A that are turned
  InterleaveFunction* interleave_a = nullptr;  // if the elements of A are adjacent from row to row, not along them
  CopyTileRowsFunction* copy = nullptr;        // kPackA, if whole cuts of rows of B are copied without conversion
  // For rows of A and B that are copied before they are multiplied as another type. Null if the type is the same.
  WidenFunction* widen_a = nullptr;
  WidenFunction* widen_b = nullptr;
  const SliceCode* factor = nullptr;         // if B is computed
  InterleaveFunction* interleave = nullptr;  // kPackB
  RowsMatvecFunction* matvec = nullptr;      // the other forms, and the rows behind the tiles of kPackA
  // Either `store` or `epilogue` is set.
  StoreSumsFunction* store = nullptr;
  EpilogueFunction* epilogue = nullptr;
};

MatmulCode find_code(const MatmulSpec& spec, const target::Target& target, const MatmulPlan& plan);

// Makes the code that find_code() returns for plans that differ from this one in their number of rows.
void make_code_for_rows(const MatmulSpec& spec, const target::Target& target, const MatmulPlan& plan);

void run_matmul(const MatmulPlan& plan, const MatmulCode& code, const ng_call& call);
void run_matmuls(const MatmulPlans& plans, const std::vector<MatmulCode>& codes, const ng_call& call);

}  // namespace npugraph::codegen
