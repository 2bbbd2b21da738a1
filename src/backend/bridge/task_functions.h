// SPDX-License-Identifier: Apache-2.0
// What the tasks of torch have in common: functions of the task ABI, errors, the name of what runs.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>

#include "abi/task.h"
#include "backend/own_kernels/export.h"

namespace npugraph::bridge {

// How a C++ exception leaves a task, which must not throw. To be called in a catch block. Keeps the current exception
// of the calling thread for take_kept_exception(), tells the host its text when there is a host, and returns NG_ERROR.
NPUGRAPH_EXPORT ng_status report_current_exception(const ng_call* call) noexcept;

void keep_exception(std::exception_ptr thrown);
// Returns the exception that the calling thread kept last, or null, and forgets it.
std::exception_ptr take_kept_exception();

// Which operator the calling thread is running, for counting allocations. Costs one relaxed load while nobody counts.
// Thread-safe.
class NPUGRAPH_EXPORT TaskScope {
 public:
  explicit TaskScope(const std::string& name) {
    if (tracked_.load(std::memory_order_relaxed)) [[unlikely]]
      enter(name);
  }
  ~TaskScope() {
    if (entered_) [[unlikely]]
      leave();
  }
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

  static void set_tracked(bool on) { tracked_.store(on, std::memory_order_relaxed); }
  // The innermost operator of the calling thread that began while tracking was on, or null.
  static const std::string* current();

 private:
  void enter(const std::string& name);
  void leave();

  static inline std::atomic<bool> tracked_{false};
  const std::string* outer_ = nullptr;
  bool entered_ = false;
};

// The functions of the task ABI over a class that throws. A Task has, all const:
//
//   void bind(State& state, const ng_call* call)
//   void run(State& state, ng_call* call)
//   void finish(State& state, const ng_call* call) noexcept    after each run, whether it returned or threw
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
