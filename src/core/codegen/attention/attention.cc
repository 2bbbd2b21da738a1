// SPDX-License-Identifier: Apache-2.0
#include "codegen/attention/attention.h"

#include "base/error.h"
#include "codegen/attention/run.h"
#include "codegen/task/planned_task.h"

namespace npugraph::codegen {
namespace {

struct Planner {
  loop::Attention attention;
  DType dtype;
  target::Target target;

  std::optional<AttentionPlan> plan(const ng_call& call) const {
    return plan_attention(attention, dtype, target, call);
  }
  AttentionCode code(const AttentionPlan& plan) const { return find_code(plan, target); }
  void prepare(const AttentionPlan& plan) const { make_code_for_queries(plan, target); }
  static void run(const AttentionPlan& plan, const AttentionCode& code, const ng_call& call) {
    run_attention(plan, code, call);
  }
};

}  // namespace

ng_task make_attention(const loop::Attention& attention, DType dtype, const target::Target& target, RowCount rows) {
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16)
    throw UserError(cat("attention: elements of ", name_of(dtype), "; f32, bf16 and f16 are known"));
  if (dtype == DType::kF16 && !target.f16c) throw UserError(cat("attention: ", target.level, " has no f16"));
  return PlannedTask<Planner>::make({attention, dtype, target}, rows);
}

}  // namespace npugraph::codegen
