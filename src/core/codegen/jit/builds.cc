// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/builds.h"

#include "base/counters.h"

namespace npugraph::codegen {

namespace {

thread_local BuildCount* innermost = nullptr;

}  // namespace

BuildCount::BuildCount() : outer_(innermost) { innermost = this; }
BuildCount::~BuildCount() { innermost = outer_; }

void count_build(int64_t nanoseconds) {
  process_counters().at("kernel_builds").add();
  process_counters().at("kernel_build_ns").add(nanoseconds);
  if (innermost == nullptr) return;
  ++innermost->builds_;
  innermost->nanoseconds_ += nanoseconds;
}

void count_load() {
  process_counters().at("kernel_loads").add();
  if (innermost != nullptr) ++innermost->loads_;
}

namespace {

thread_local BuildRules current;

}  // namespace

WithBuildRules::WithBuildRules(BuildRules rules) : before_(current) { current = rules; }
WithBuildRules::~WithBuildRules() { current = before_; }

const BuildRules& build_rules() { return current; }

}  // namespace npugraph::codegen
