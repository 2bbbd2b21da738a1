// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/gate.h"

namespace npugraph::ge {

bool Gate::enter(bool first) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return shut_ || (!closed_ && (first || changes_ == 0)); });
  if (shut_) return false;
  ++runs_;
  return true;
}

void Gate::leave() {
  {
    std::lock_guard lock(mutex_);
    --runs_;
  }
  changed_.notify_all();
}

bool Gate::close() {
  std::unique_lock lock(mutex_);
  ++changes_;
  changed_.wait(lock, [this] { return shut_ || (!closed_ && runs_ == 0); });
  --changes_;
  if (shut_) return false;
  closed_ = true;
  return true;
}

void Gate::open() {
  {
    std::lock_guard lock(mutex_);
    closed_ = false;
  }
  changed_.notify_all();
}

bool Gate::shut() {
  std::unique_lock lock(mutex_);
  if (shut_) return false;
  shut_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !closed_ && runs_ == 0; });
  return true;
}

}  // namespace npugraph::ge
