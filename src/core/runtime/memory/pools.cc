// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/pools.h"

#include <algorithm>
#include <mutex>

#include "base/fork.h"
#include "base/trace.h"

namespace npugraph::runtime {
namespace {

constexpr int kPoolListRank = 2;  // the highest: callers may hold a mutex of their own

struct Registry {
  std::mutex mutex;
  std::vector<const PoolRecord*> records;  // in the order of creation
  const HeldAcrossFork held_across_fork{mutex, kPoolListRank};
};

// Leaked on purpose: pools may outlive static destruction.
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

}  // namespace

PoolRecord::PoolRecord(std::string name, std::string owner) : name_(std::move(name)), owners_{std::move(owner)} {
  add("lease", 0);
  std::lock_guard lock(registry().mutex);
  registry().records.push_back(this);
}

PoolRecord::~PoolRecord() {
  std::lock_guard lock(registry().mutex);
  std::erase(registry().records, this);
}

void PoolRecord::report(const char* what, int64_t bytes) {
  std::lock_guard lock(registry().mutex);
  add(what, bytes);
}

void PoolRecord::add_owner(const std::string& owner) {
  std::lock_guard lock(registry().mutex);
  if (std::ranges::find(owners_, owner) == owners_.end()) owners_.push_back(owner);
}

void PoolRecord::add(const char* what, int64_t bytes) {
  peak_bytes_ = std::max(peak_bytes_, bytes);
  events_[event_count_++ % kHistory] = {now_ns(), what, bytes};
}

PoolInfo PoolRecord::info() const {
  PoolInfo info{.name = name_, .owners = owners_, .live_bytes = 0, .peak_bytes = peak_bytes_, .history = {}};
  const size_t kept = std::min(event_count_, kHistory);
  for (size_t i = event_count_ - kept; i < event_count_; ++i) {
    const Event& event = events_[i % kHistory];
    info.history.push_back({event.ns, event.what, event.bytes});
  }
  info.live_bytes = info.history.back().bytes;
  return info;
}

std::vector<PoolInfo> pools() {
  std::lock_guard lock(registry().mutex);
  std::vector<PoolInfo> result;
  for (const PoolRecord* record : registry().records) result.push_back(record->info());
  return result;
}

}  // namespace npugraph::runtime
