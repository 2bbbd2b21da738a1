// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul.h"

#include "base/error.h"
#include "codegen/matmul_run.h"
#include "codegen/planned_task.h"

namespace npugraph::codegen {
namespace {

struct Planner {
  MatmulSpec spec;
  target::Target target;

  std::optional<MatmulPlan> plan(const ng_call& call) const { return plan_matmul(spec, target, call); }
  MatmulCode code(const MatmulPlan& plan) const { return find_code(spec, target, plan); }
  static void run(const MatmulPlan& plan, const MatmulCode& code, const ng_call& call) { run_matmul(plan, code, call); }
};

bool is_element(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

}  // namespace

ng_task make_matmul(const MatmulSpec& spec, const target::Target& target) {
  for (const DType dtype : {spec.a, spec.b, spec.c}) {
    if (!is_element(dtype))
      throw UserError(cat("matmul: elements of ", name_of(dtype), "; f32, bf16 and f16 are known"));
    if (dtype == DType::kF16 && !target.f16c) throw UserError(cat("matmul: ", name_of(target.level), " has no f16"));
  }
  if (spec.epilogue) epilogue_code(target, *spec.epilogue);
  return PlannedTask<Planner>::make({spec, target});
}

}  // namespace npugraph::codegen
