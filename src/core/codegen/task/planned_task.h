// SPDX-License-Identifier: Apache-2.0
// Tasks that are planned when they are bound, because sizes and strides decide how they run.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "abi/task.h"

namespace npugraph::codegen {

// Whether calls of a task may differ in their number of rows (of A, or of queries). If they may, all machine code is
// made when the first call is bound, so that no later call waits for the compiler.
enum class RowCount : uint8_t { kFixed, kVaries };

// A Planner has
//   std::optional<Plan> plan(const ng_call&) const   nullopt if the buffers do not fit; a Plan has a workspace()
//   Code code(const Plan&) const                     the machine code that a plan needs
//   static void run(const Plan&, const Code&, const ng_call&)
// and, if calls may differ in their number of rows,
//   void prepare(const Plan&) const                  makes the code that plans for other numbers of rows need
// prepare() runs once, for a task whose number of rows varies, so that calls of other sizes do not wait for the
// compiler.
template <typename Planner>
class PlannedTask {
 public:
  static ng_task make(Planner planner, RowCount rows = RowCount::kFixed) {
    return {
        .context = new Context{.planner = std::move(planner), .rows = rows},
        .run = run,
        .bind = bind,
        .unbind = [](void*, void* state) { delete static_cast<State*>(state); },
        .workspace = workspace,
        .destroy = [](void* context) { delete static_cast<Context*>(context); },
    };
  }

 private:
  using Plan = typename decltype(std::declval<const Planner&>().plan(std::declval<const ng_call&>()))::value_type;
  using Code = decltype(std::declval<const Planner&>().code(std::declval<const Plan&>()));
  struct Context {
    Planner planner;
    RowCount rows;
    std::once_flag prepared;
  };
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
    auto& [planner, rows, prepared] = *static_cast<Context*>(context);
    auto plan = planner.plan(*call);
    if (!plan) return NG_ERROR;
    if constexpr (requires { planner.prepare(*plan); }) {
      if (rows == RowCount::kVaries) std::call_once(prepared, [&] { planner.prepare(*plan); });
    }
    State bound{*std::move(plan), {}};
    bound.code = planner.code(bound.plan);
    if (*state == nullptr) *state = new State;
    *static_cast<State*>(*state) = std::move(bound);
    return NG_OK;
  }

  static int64_t workspace(void* context, const ng_call* call) {
    const auto plan = static_cast<const Context*>(context)->planner.plan(*call);
    return plan ? plan->workspace() : -1;
  }
};

}  // namespace npugraph::codegen
