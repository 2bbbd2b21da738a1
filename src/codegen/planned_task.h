// SPDX-License-Identifier: Apache-2.0
// Tasks of which sizes and strides decide how they run: planned when they are bound.
#pragma once

#include <optional>
#include <utility>

#include "abi/task.h"

namespace npugraph::codegen {

// A Planner has
//   std::optional<Plan> plan(const ng_call&) const   nothing where the buffers do not fit; a Plan knows its workspace()
//   Code code(const Plan&) const                     the machine code that a plan needs
//   static void run(const Plan&, const Code&, const ng_call&)
template <typename Planner>
class PlannedTask {
 public:
  static ng_task make(Planner planner) {
    return {
        .context = new Planner(std::move(planner)),
        .run = run,
        .bind = bind,
        .unbind = [](void*, void* state) { delete static_cast<State*>(state); },
        .workspace = workspace,
        .destroy = [](void* context) { delete static_cast<Planner*>(context); },
    };
  }

 private:
  using Plan = typename decltype(std::declval<const Planner&>().plan(std::declval<const ng_call&>()))::value_type;
  using Code = decltype(std::declval<const Planner&>().code(std::declval<const Plan&>()));
  struct State {
    Plan plan;
    Code code;
  };

  static ng_status run(void*, void* state, ng_call* call) {
    const auto& bound = *static_cast<const State*>(state);
    Planner::run(bound.plan, bound.code, *call);
    return NG_OK;
  }

  static ng_status bind(void* context, const ng_call* call, void** state) {
    const auto& planner = *static_cast<const Planner*>(context);
    auto plan = planner.plan(*call);
    if (!plan) return NG_ERROR;
    State bound{*std::move(plan), {}};
    bound.code = planner.code(bound.plan);
    if (*state == nullptr) *state = new State;
    *static_cast<State*>(*state) = std::move(bound);
    return NG_OK;
  }

  static int64_t workspace(void* context, const ng_call* call) {
    const auto plan = static_cast<const Planner*>(context)->plan(*call);
    return plan ? plan->workspace() : -1;
  }
};

}  // namespace npugraph::codegen
