// SPDX-License-Identifier: Apache-2.0
// Checks of gradients for silent corruption, by statistics of earlier steps. Their definition is not published. Each
// returns one integer that says whether it found something.
#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

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

void define_silent_checks(OperatorLibrary& library) {
  library.add({
      .schema = "npu::_npu_silent_check(Tensor(a!) input_grad, Tensor val, Tensor(b!) pre_val, Tensor(c!) min_val, "
                "Tensor(d!) max_val, Tensor val_counter, int c_min_steps, float c_thresh_l1, float c_coeff_l1, float "
                "c_thresh_l2, float c_coeff_l2) -> Tensor",
      .kernel = sizes_only(&silent_check),
      .definition = "Checks a gradient for silent data corruption, by statistics of earlier steps. The schema marks "
                    "input_grad, pre_val, min_val and max_val as written in place; how they are computed is not "
                    "published. The result is [1] in int32 and says whether the check found something.",
  });
  library.add({
      .schema = "npu::_npu_silent_check_v2(Tensor val, Tensor(a!) input_grad, Tensor(b!) sfda, Tensor(c!) step, int "
                "c_min_steps, float c_thresh_l1, float c_coeff_l1, float c_thresh_l2, float c_coeff_l2, int "
                "npu_asd_detect) -> Tensor",
      .kernel = sizes_only(&silent_check_v2),
      .definition = "_npu_silent_check with other statistics: the schema marks input_grad, sfda and step as written in "
                    "place. How they are computed is not published. The result is [1] in int32.",
  });
  library.add({
      .schema = "npu::_npu_silent_check_v3(Tensor val, Tensor(a!) input_grad, Tensor(b!) step, Tensor(c!) max, "
                "Tensor(d!) avg, float c_thresh_l1, float c_thresh_l2, float betal, int npu_asd_detect) -> Tensor",
      .kernel = sizes_only(&silent_check_v3),
      .definition = "_npu_silent_check with other statistics: the schema marks input_grad, step, max and avg as "
                    "written in place. How they are computed is not published. The result is [1] in int32.",
  });
}

}  // namespace npugraph::npu_ops
