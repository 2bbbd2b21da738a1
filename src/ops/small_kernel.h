// SPDX-License-Identifier: Apache-2.0
// Precompiled kernels that compute an elementwise operator of few elements.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/op.h"

namespace npugraph::ops {

// Element types of the tensors that a kernel takes, all equal, and of the result unless it says otherwise; the last two take i64
// tensors beside f32 ones too, for a result of f32.
enum class KernelTypes : uint8_t { kF32, kF32OrI64, kF32OrI64ToBool, kBool, kF32MixedWithI64, kF32OrI64OrMixed };

struct SmallKernel {
  std::string_view name;  // empty: there is none
  KernelTypes accepts = KernelTypes::kF32;
  // That many arguments come first and go to the kernel as they are; the others must have their default values.
  uint8_t inputs = 0;
};

// The kernel of the operator, or of the functional form of an in-place operator; null where there is none.
const SmallKernel* small_kernel(const ir::Op& op);

}  // namespace npugraph::ops
