// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/matmul.h"

#include <array>

#include "base/error.h"
#include "codegen/kernel/kernel.h"
#include "codegen/matmul/plan.h"
#include "codegen/matmul/run.h"
#include "codegen/task/planned_task.h"
#include "loop/slices.h"

namespace npugraph::codegen {
namespace {

struct Planner {
  std::vector<MatmulSpec> specs;
  std::vector<std::shared_ptr<const EpilogueCode>> ends;  // nullptr: none
  std::vector<std::shared_ptr<const SliceCode>> factors;  // nullptr: B is a buffer
  target::Target target;
  Order order = Order::kApart;

  std::optional<MatmulPlans> plan(const ng_call& call) const { return plan_matmuls(specs, target, call, order); }
  std::vector<MatmulCode> code(const MatmulPlans& plans) const {
    std::vector<MatmulCode> codes;
    for (size_t i = 0; i < specs.size(); ++i) {
      codes.push_back(find_code(specs[i], target, plans.plans[i]));
      if (ends[i] != nullptr) codes.back().epilogue = ends[i]->function;
      codes.back().factor = factors[i].get();
    }
    return codes;
  }
  void prepare(const MatmulPlans& plans) const {
    for (size_t i = 0; i < specs.size(); ++i) make_code_for_rows(specs[i], target, plans.plans[i]);
  }
  static void run(const MatmulPlans& plans, const std::vector<MatmulCode>& codes, const ng_call& call) {
    run_matmuls(plans, codes, call);
  }
};

bool is_element(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

void check(const MatmulSpec& spec, const target::Target& target) {
  if (spec.factor) {
    const auto slices = loop::find_slices(*spec.factor);
    if (!slices || spec.factor->buffers[slices->result].dtype != spec.b || !spec.b_is_nk || !is_element(spec.b))
      throw UserError("matmul: a kernel that does not compute rows of the second factor");
  }
  if (is_integer_product(spec) && spec.b == DType::kI8) {
    if (!spec.epilogue) throw UserError("matmul: nothing says what happens to sums of i8");
    return;
  }
  for (const DType dtype : {spec.a, spec.b == DType::kI8 ? spec.a : spec.b, spec.c}) {
    if (!is_element(dtype))
      throw UserError(cat("matmul: elements of ", name_of(dtype), "; f32, bf16 and f16 are known"));
    if (dtype == DType::kF16 && !target.f16c) throw UserError(cat("matmul: ", target.level, " has no f16"));
  }
}

}  // namespace

std::vector<MatmulBlocks> matmul_blocks(const MatmulSpec& spec, const target::Target& target, const ng_call& call) {
  const auto plans = plan_matmuls({spec}, target, call);
  if (!plans) return {};
  std::vector<MatmulBlocks> blocks = {plans->plans.front().blocks()};
  for (const MatmulPlan& plan : candidates_of(plans->plans.front(), target)) {
    if (plan.blocks() != blocks.front()) blocks.push_back(plan.blocks());
  }
  return blocks;
}

std::string str(const MatmulBlocks& blocks) {
  constexpr std::array kForms = {"rows matvec", "columns matvec", "pack A", "pack B"};
  return cat(kForms[static_cast<size_t>(blocks.form)], " rows ", blocks.block_rows, " of ", blocks.tile_rows,
             " columns ", blocks.block_columns, " steps ", blocks.block_steps);
}

ng_task make_matmul(const MatmulSpec& spec, const target::Target& target) { return make_matmuls({spec}, target); }

ng_task make_matmuls(const std::vector<MatmulSpec>& specs, const target::Target& target, RowCount rows, Order order) {
  Planner planner{.specs = specs, .ends = {}, .factors = {}, .target = target, .order = order};
  for (const MatmulSpec& spec : specs) {
    check(spec, target);
    planner.ends.push_back(spec.epilogue ? epilogue_code(target, *spec.epilogue, sums_type(spec)) : nullptr);
    planner.factors.push_back(spec.factor ? std::make_shared<const SliceCode>(*spec.factor, target) : nullptr);
  }
  return PlannedTask<Planner>::make(std::move(planner), rows);
}

}  // namespace npugraph::codegen
