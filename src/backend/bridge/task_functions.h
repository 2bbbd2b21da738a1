// SPDX-License-Identifier: Apache-2.0
// The functions of the task ABI over a class that throws. A Task has, all const:
//
//   void bind(State& state, const ng_call* call)
//   void run(State& state, ng_call* call)
//   void finish(State& state, const ng_call* call) noexcept    after each run, whether it returned or threw
#pragma once

#include <memory>

#include "abi/task.h"
#include "backend/bridge/task_error.h"

namespace npugraph::bridge {

template <typename Task, typename State>
struct TaskFunctions {
  static ng_status run(void* context, void* state, ng_call* call) {
    const auto& task = *static_cast<const Task*>(context);
    auto& bound = *static_cast<State*>(state);
    ng_status status = NG_OK;
    try {
      task.run(bound, call);
    } catch (...) {
      status = report_current_exception(call);
    }
    task.finish(bound, call);
    return status;
  }

  static ng_status bind(void* context, const ng_call* call, void** state) {
    try {
      if (*state == nullptr) *state = new State;
      static_cast<const Task*>(context)->bind(*static_cast<State*>(*state), call);
      return NG_OK;
    } catch (...) {
      return report_current_exception(call);
    }
  }

  static void unbind(void*, void* state) { delete static_cast<State*>(state); }
  static void destroy(void* context) { delete static_cast<Task*>(context); }
};

// The runtime's handle of `task`, which it now owns.
template <typename State, typename Task>
ng_task task_of(std::unique_ptr<Task> task) {
  using Functions = TaskFunctions<Task, State>;
  return {.context = task.release(),
          .run = Functions::run,
          .bind = Functions::bind,
          .unbind = Functions::unbind,
          .workspace = nullptr,
          .destroy = Functions::destroy};
}

}  // namespace npugraph::bridge
