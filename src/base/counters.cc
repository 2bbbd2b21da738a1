// SPDX-License-Identifier: Apache-2.0
#include "base/counters.h"

namespace npugraph {
namespace {

// map[key] without a temporary string where the key exists.
template <typename Map>
auto& find_or_add(Map& map, std::string_view key) {
  auto found = map.find(key);
  return found != map.end() ? found->second : map[std::string(key)];
}

}  // namespace

Counter& Counters::at(std::string_view group, std::string_view name) {
  std::lock_guard lock(mutex_);
  return find_or_add(find_or_add(groups_, group), name);
}

Counters::Snapshot Counters::snapshot() const {
  std::lock_guard lock(mutex_);
  Snapshot out;
  for (const auto& [group, counters] : groups_)
    for (const auto& [name, counter] : counters) out[group][name] = counter.value();
  return out;
}

Counters& process_counters() {
  // Never destroyed: threads may count while the process ends.
  static auto* instance = new Counters;
  return *instance;
}

}  // namespace npugraph
