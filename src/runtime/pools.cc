// SPDX-License-Identifier: Apache-2.0
#include "runtime/pools.h"

#include <algorithm>
#include <mutex>

#include "base/clock.h"
#include "base/fork.h"

namespace npugraph::runtime {
namespace {

constexpr size_t kHistory = 256;  // events kept per pool, see PoolInfo::history

constexpr int kPoolsRank = 2;  // who makes pools, or reports to them, holds a mutex of its own

struct Registry {
  std::mutex mutex;
  std::vector<const PoolRecord*> records;  // in the order of creation
  const HeldAcrossFork held_across_fork{mutex, kPoolsRank};
};

// Leaked on purpose: pools may outlive static destruction.
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

}  // namespace

PoolRecord::PoolRecord(std::string name, std::string owner) {
  info_.name = std::move(name);
  info_.owners.push_back(std::move(owner));
  info_.history.push_back({now_ns(), "lease", 0});
  std::lock_guard lock(registry().mutex);
  registry().records.push_back(this);
}

PoolRecord::~PoolRecord() {
  std::lock_guard lock(registry().mutex);
  std::erase(registry().records, this);
}

void PoolRecord::report(const char* what, int64_t bytes) {
  std::lock_guard lock(registry().mutex);
  info_.live_bytes = bytes;
  info_.peak_bytes = std::max(info_.peak_bytes, bytes);
  if (info_.history.size() == kHistory) info_.history.erase(info_.history.begin());
  info_.history.push_back({now_ns(), what, bytes});
}

std::vector<PoolInfo> pools() {
  std::lock_guard lock(registry().mutex);
  std::vector<PoolInfo> result;
  for (const PoolRecord* record : registry().records) result.push_back(record->info_);
  return result;
}

}  // namespace npugraph::runtime
