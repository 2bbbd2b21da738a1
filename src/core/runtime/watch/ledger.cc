// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/ledger.h"

#include <cstring>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "base/plan_notes.h"

namespace npugraph::runtime {
namespace {

std::atomic<bool>& poison_switch() {
  static std::atomic<bool> on{environment().poison};
  return on;
}

std::atomic<bool>& red_zones_switch() {
  static std::atomic<bool> on{environment().red_zones};
  return on;
}

}  // namespace

NamedLimits by_name(const CoreLimits& limits) {
  NamedLimits named;
  if (limits.cube > 0) named.emplace_back("cube_core_num", limits.cube);
  if (limits.vector > 0) named.emplace_back("vector_core_num", limits.vector);
  return named;
}

TaskLog& TaskLog::instance() {
  static auto* log = new TaskLog;  // leaked on purpose: threads may log during static destruction
  return *log;
}

void TaskLog::start() {
  std::lock_guard lock(mutex_);
  starts_.push_back(records_.size());
  want_plan_notes(true);
  active_.store(true, std::memory_order_relaxed);
}

std::vector<TaskRecord> TaskLog::stop() {
  std::lock_guard lock(mutex_);
  if (starts_.empty()) throw UserError("the task log is not running: stop() needs a start() before it");
  const auto first = records_.begin() + static_cast<ptrdiff_t>(starts_.back());
  starts_.pop_back();
  std::vector<TaskRecord> since(first, records_.end());
  if (starts_.empty()) {
    active_.store(false, std::memory_order_relaxed);
    want_plan_notes(false);
    records_.clear();
  }
  return since;
}

void TaskLog::add(TaskRecord record) {
  std::lock_guard lock(mutex_);
  if (starts_.empty()) return;
  record.sequence = next_sequence_++;
  records_.push_back(std::move(record));
}

void set_poison(bool on) { poison_switch().store(on, std::memory_order_relaxed); }
bool poison() { return poison_switch().load(std::memory_order_relaxed); }

void poison_memory(void* data, size_t bytes) {
  if (poison() && bytes > 0) std::memset(data, 0xff, bytes);
}

void set_red_zones(bool on) { red_zones_switch().store(on, std::memory_order_relaxed); }
bool red_zones() { return red_zones_switch().load(std::memory_order_relaxed); }

}  // namespace npugraph::runtime
