// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul.h"

#include "base/error.h"
#include "codegen/matmul_run.h"

namespace npugraph::codegen {
namespace {

struct Matmul {
  MatmulSpec spec;
  target::Target target;
};

struct State {
  MatmulPlan plan;
  MatmulCode code;
};

ng_status bind(void* context, const ng_call* call, void** state) {
  const auto& matmul = *static_cast<const Matmul*>(context);
  auto plan = plan_matmul(matmul.spec, matmul.target, *call);
  if (!plan) return NG_ERROR;
  if (*state == nullptr) *state = new State;
  auto& made = *static_cast<State*>(*state);
  made.plan = *std::move(plan);
  made.code = find_code(matmul.spec, matmul.target, made.plan);
  return NG_OK;
}

int64_t workspace(void* context, const ng_call* call) {
  const auto& matmul = *static_cast<const Matmul*>(context);
  const auto plan = plan_matmul(matmul.spec, matmul.target, *call);
  return plan ? plan->workspace() : -1;
}

bool is_element(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

}  // namespace

ng_task make_matmul(const MatmulSpec& spec, const target::Target& target) {
  for (const DType dtype : {spec.a, spec.b, spec.c}) {
    if (!is_element(dtype))
      throw UserError(cat("matmul: elements of ", name_of(dtype), "; f32, bf16 and f16 are known"));
    if (dtype == DType::kF16 && !target.f16c) throw UserError(cat("matmul: ", name_of(target.level), " has no f16"));
  }
  if (spec.epilogue) epilogue_code(target, *spec.epilogue);
  return {
      .context = new Matmul{spec, target},
      .run =
          [](void*, void* state, ng_call* call) {
            const auto& bound = *static_cast<const State*>(state);
            run_matmul(bound.plan, bound.code, *call);
            return NG_OK;
          },
      .bind = bind,
      .unbind = [](void*, void* state) { delete static_cast<State*>(state); },
      .workspace = workspace,
      .destroy = [](void* context) { delete static_cast<Matmul*>(context); },
  };
}

}  // namespace npugraph::codegen
