// SPDX-License-Identifier: Apache-2.0
// Conversions between element types, with the results that loop/README.md states.
#pragma once

#include "codegen/emit/vectors.h"

namespace npugraph::codegen {

llvm::Value* emit_cast(Ir& b, const target::Target& target, llvm::Value* value, DType from, DType to);

// Conversions between small floats (their bits) and f32. Narrowing rounds to nearest even, whatever the control word
// says; NaN stays NaN.
llvm::Value* widen_float(Ir& b, const target::Target& target, llvm::Value* bits, DType from);
llvm::Value* narrow_float(Ir& b, const target::Target& target, llvm::Value* value, DType to);

}  // namespace npugraph::codegen
