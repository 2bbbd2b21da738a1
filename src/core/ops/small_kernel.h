// SPDX-License-Identifier: Apache-2.0
// Precompiled kernels that compute an elementwise operator of few elements.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/op.h"

namespace npugraph::ops {

// Element types that a kernel takes. All tensors have the same type, and so has the result unless the name says
// otherwise. The last two also take one f32 and one i64 tensor, for a result of f32.
enum class KernelTypes : uint8_t { kF32, kF32OrI64, kF32OrI64ToBool, kBool, kF32MixedWithI64, kF32OrI64OrMixed };

struct SmallKernel {
  std::string_view name;  // empty if there is no kernel
  KernelTypes accepts = KernelTypes::kF32;
  // Number of leading arguments that go to the kernel as they are; the others must have their default values.
  uint8_t inputs = 0;
};

// The kernel of the operator, or of the functional form of an in-place operator; null if there is none.
const SmallKernel* small_kernel(const ir::Op& op);

}  // namespace npugraph::ops
