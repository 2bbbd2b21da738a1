// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/families.h"

namespace npugraph::npu_ops {

void define_mla_preprocess(Definitions& /*atb*/) {}

}  // namespace npugraph::npu_ops
