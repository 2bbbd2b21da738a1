// SPDX-License-Identifier: Apache-2.0
#include "codegen/attention.h"

#include "base/error.h"
#include "codegen/attention_run.h"

namespace npugraph::codegen {
namespace {

struct Task {
  loop::Attention attention;
  DType dtype;
  target::Target target;

  std::optional<AttentionPlan> plan(const ng_call& call) const {
    return plan_attention(attention, dtype, target, call);
  }
};

struct State {
  AttentionPlan plan;
  AttentionCode code;
};

ng_status bind(void* context, const ng_call* call, void** state) {
  const auto& task = *static_cast<const Task*>(context);
  const auto plan = task.plan(*call);
  if (!plan) return NG_ERROR;
  if (*state == nullptr) *state = new State;
  *static_cast<State*>(*state) = {*plan, find_code(*plan, task.target)};
  return NG_OK;
}

int64_t workspace(void* context, const ng_call* call) {
  const auto plan = static_cast<const Task*>(context)->plan(*call);
  return plan ? plan->workspace() : -1;
}

}  // namespace

ng_task make_attention(const loop::Attention& attention, DType dtype, const target::Target& target) {
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16)
    throw UserError(cat("attention: elements of ", name_of(dtype), "; f32, bf16 and f16 are known"));
  if (dtype == DType::kF16 && !target.f16c) throw UserError(cat("attention: ", name_of(target.level), " has no f16"));
  return {
      .context = new Task{attention, dtype, target},
      .run =
          [](void*, void* state, ng_call* call) {
            const auto& bound = *static_cast<const State*>(state);
            run_attention(bound.plan, bound.code, *call);
            return NG_OK;
          },
      .bind = bind,
      .unbind = [](void*, void* state) { delete static_cast<State*>(state); },
      .workspace = workspace,
      .destroy = [](void* context) { delete static_cast<Task*>(context); },
  };
}

}  // namespace npugraph::codegen
