// SPDX-License-Identifier: Apache-2.0
// A kernel class as an ng_task. The class has a default-constructible State and
//   bool bind(const ng_call& call, State& state) const;    // false: these sizes cannot be bound
//   ng_status run(const State& state, ng_call& call) const;
// neither of which throws; making a State may.
#pragma once

#include <exception>
#include <memory>
#include <new>

#include "abi/task.h"
#include "base/error.h"

namespace npugraph::kernels {

template <typename Kernel>
ng_task make_task(std::unique_ptr<Kernel> kernel) {
  using State = typename Kernel::State;
  return {
      .context = kernel.release(),
      .run =
          [](void* context, void* state, ng_call* call) {
            return static_cast<const Kernel*>(context)->run(*static_cast<const State*>(state), *call);
          },
      .bind =
          [](void* context, const ng_call* call, void** state) {
            if (*state == nullptr) *state = new (std::nothrow) State;
            if (*state == nullptr) return NG_ERROR;
            return static_cast<const Kernel*>(context)->bind(*call, *static_cast<State*>(*state)) ? NG_OK : NG_ERROR;
          },
      .unbind = [](void*, void* state) { delete static_cast<State*>(state); },
      .workspace = nullptr,
      .destroy = [](void* context) { delete static_cast<Kernel*>(context); },
  };
}

// Turns `make`, which throws on errors, into an ng_make.
template <ng_task (*make)(const ng_definition& task)>
ng_status made_by(const ng_definition* definition, ng_task* task, void (*refuse)(void*, const char*), void* reason) {
  try {
    *task = make(*definition);
    return NG_OK;
  } catch (const std::exception& error) {
    refuse(reason, error.what());
    return NG_ERROR;
  }
}

}  // namespace npugraph::kernels
