// SPDX-License-Identifier: Apache-2.0
#include "runtime/instance/captured_keys.h"

#include "base/counters.h"
#include "base/error.h"

namespace npugraph::runtime {
namespace {

constexpr size_t kRemembered = 65536;

}  // namespace

bool CapturedKeys::has_room_for(size_t key) const { return !limit_ || count_ < *limit_ || keys_.contains(key); }

void CapturedKeys::add(size_t key) {
  if (!limit_ && keys_.size() == kRemembered) keys_.clear();
  if (keys_.insert(key).second) count_captured(1);
}

void CapturedKeys::exhaust() {
  exhausted_ = true;
  keys_.clear();
  count_captured(-count_);
}

void CapturedKeys::count_captured(int64_t more) {
  count_ += more;
  if (!name_.empty()) process_counters().at("captured_" + name_).add(more);
}

void CapturedKeys::count_recapture(const char* reason) const {
  if (!name_.empty()) process_counters().at(cat("recapture_due_to_", reason, "_", name_)).add();
}

}  // namespace npugraph::runtime
