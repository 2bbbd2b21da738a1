// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/task_scope.h"

namespace npugraph::bridge {

namespace {
thread_local const std::string* current_name = nullptr;
}

const std::string* TaskScope::current() { return current_name; }

void TaskScope::enter(const std::string& name) {
  outer_ = current_name;
  current_name = &name;
  entered_ = true;
}

void TaskScope::leave() { current_name = outer_; }

}  // namespace npugraph::bridge
