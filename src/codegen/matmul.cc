// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul.h"

#include "base/error.h"
#include "codegen/matmul_run.h"
#include "codegen/planned_task.h"

namespace npugraph::codegen {
namespace {

struct Planner {
  std::vector<MatmulSpec> specs;
  target::Target target;

  std::optional<MatmulPlans> plan(const ng_call& call) const { return plan_matmuls(specs, target, call); }
  std::vector<MatmulCode> code(const MatmulPlans& plans) const {
    std::vector<MatmulCode> codes;
    for (size_t i = 0; i < specs.size(); ++i) codes.push_back(find_code(specs[i], target, plans.plans[i]));
    return codes;
  }
  static void run(const MatmulPlans& plans, const std::vector<MatmulCode>& codes, const ng_call& call) {
    run_matmuls(plans, codes, call);
  }
};

bool is_element(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

void check(const MatmulSpec& spec, const target::Target& target) {
  if (spec.epilogue) epilogue_code(target, *spec.epilogue, sums_type(spec));
  if (spec.a == DType::kI8 && spec.b == DType::kI8) {
    if (!spec.epilogue) throw UserError("matmul: nothing says what happens to sums of i8");
    if (!target.int8_dot) throw UserError("matmul: the processor has no products of four i8");
    return;
  }
  for (const DType dtype : {spec.a, spec.b == DType::kI8 ? spec.a : spec.b, spec.c}) {
    if (!is_element(dtype))
      throw UserError(cat("matmul: elements of ", name_of(dtype), "; f32, bf16 and f16 are known"));
    if (dtype == DType::kF16 && !target.f16c) throw UserError(cat("matmul: ", name_of(target.level), " has no f16"));
  }
}

}  // namespace

ng_task make_matmul(const MatmulSpec& spec, const target::Target& target) { return make_matmuls({spec}, target); }

ng_task make_matmuls(const std::vector<MatmulSpec>& specs, const target::Target& target) {
  for (const MatmulSpec& spec : specs) check(spec, target);
  return PlannedTask<Planner>::make({specs, target});
}

}  // namespace npugraph::codegen
