// SPDX-License-Identifier: Apache-2.0
// Checks of gradients for silent corruption, by statistics of earlier steps. Their definition is not published. Each
// returns one integer that says whether it found something.
#include "torch/npu_ops/framework/checks.h"
#include "torch/npu_ops/training/families.h"

namespace npugraph::npu_ops {
namespace {

Tensor found(const Tensor& val) { return val.new_empty_symint({1}, val.options().dtype(at::kInt)); }

Tensor silent_check(Tensor&, const Tensor& val, Tensor&, Tensor&, Tensor&, const Tensor&, int64_t, double, double,
                    double, double) {
  return found(val);
}

Tensor silent_check_v2(const Tensor& val, Tensor&, Tensor&, Tensor&, int64_t, double, double, double, double, int64_t) {
  return found(val);
}

Tensor silent_check_v3(const Tensor& val, Tensor&, Tensor&, Tensor&, Tensor&, double, double, double, int64_t) {
  return found(val);
}

}  // namespace

void define_silent_checks(Definitions& npu) {
  npu.shaped("_npu_silent_check", &silent_check);
  npu.shaped("_npu_silent_check_v2", &silent_check_v2);
  npu.shaped("_npu_silent_check_v3", &silent_check_v3);
}

}  // namespace npugraph::npu_ops
