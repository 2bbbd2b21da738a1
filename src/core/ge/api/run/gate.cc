// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/gate.h"

namespace npugraph::ge {

Gate::Run Gate::enter(bool first) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return shut_ || (!closed_ && (first || changes_ == 0)); });
  if (shut_) return nullptr;
  ++runs_;
  return Run(this);
}

// Notifies with the lock: shut() may be the last thing that happens to the gate.
void Gate::leave() {
  std::lock_guard lock(mutex_);
  --runs_;
  changed_.notify_all();
}

Gate::Change Gate::close() {
  std::unique_lock lock(mutex_);
  ++changes_;
  changed_.wait(lock, [this] { return shut_ || (!closed_ && runs_ == 0); });
  --changes_;
  if (shut_) return nullptr;
  closed_ = true;
  return Change(this);
}

Gate::Change Gate::close_if_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return shut_ || !closed_; });
  if (shut_ || runs_ > 0) return nullptr;
  closed_ = true;
  return Change(this);
}

void Gate::open() {
  std::lock_guard lock(mutex_);
  closed_ = false;
  changed_.notify_all();
}

void Gate::shut() {
  std::unique_lock lock(mutex_);
  shut_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !closed_ && runs_ == 0; });
}

}  // namespace npugraph::ge
