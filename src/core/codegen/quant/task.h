// SPDX-License-Identifier: Apache-2.0
// The tasks behind quant.h. Internal to codegen.
#pragma once

#include "codegen/task/row_count.h"
#include "loop/gguf.h"
#include "loop/int4.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

struct QuantLinearSpec {
  loop::BlockType type = loop::BlockType::kQ4_0;
  bool by_codes = false;
  loop::Kernel epilogue;
};

struct Int4LinearSpec {
  loop::Int4Packing packing;
  int64_t group = 32;  // steps that share a scale and a zero
  loop::Kernel epilogue;
};

ng_task make_quant_linear(const QuantLinearSpec& spec, const target::Target& target, RowCount rows);
ng_task make_int4_linear(const Int4LinearSpec& spec, const target::Target& target, RowCount rows);
ng_task make_quant_rows(loop::BlockType type, const target::Target& target);

}  // namespace npugraph::codegen
