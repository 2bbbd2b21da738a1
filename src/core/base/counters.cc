// SPDX-License-Identifier: Apache-2.0
#include "base/counters.h"

namespace npugraph {

Counter& CounterSet::at(std::string_view name) {
  std::lock_guard lock(mutex_);
  const auto found = counters_.find(name);
  return found != counters_.end() ? found->second : counters_[std::string(name)];
}

CounterSet::Snapshot CounterSet::snapshot() const {
  std::lock_guard lock(mutex_);
  Snapshot out;
  for (const auto& [name, counter] : counters_) out[name] = counter.value();
  return out;
}

CounterSet& process_counters() {
  // Never destroyed: threads may count while the process ends.
  static auto* instance = new CounterSet;
  return *instance;
}

}  // namespace npugraph
