// SPDX-License-Identifier: Apache-2.0
// The tasks behind quant.h. Internal to codegen.
#pragma once

#include "codegen/quant_block.h"
#include "codegen/row_count.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

struct QuantLinearSpec {
  BlockType type = BlockType::kQ4_0;
  bool by_codes = false;
  loop::Kernel epilogue;
};

ng_task make_quant_linear(const QuantLinearSpec& spec, const target::Target& target, RowCount rows);
ng_task make_quant_rows(BlockType type, const target::Target& target);

}  // namespace npugraph::codegen
