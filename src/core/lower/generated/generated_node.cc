// SPDX-License-Identifier: Apache-2.0
#include "lower/generated/generated_node.h"

#include "target/target.h"

namespace npugraph::lower {

bool is_generated_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || (dtype == DType::kF16 && target::host_target().f16c);
}

}  // namespace npugraph::lower
