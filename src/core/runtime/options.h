// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "runtime/instance/capture_rules.h"
#include "runtime/memory/block_source.h"

namespace npugraph::runtime {

// How the calls of a Program run.
struct Options {
  int64_t max_instances = 64;  // captured Instances that are kept; the least recently used one is dropped first
  int64_t max_concurrent = 4;  // calls at the same time; more wait
  bool capture = true;         // false: tasks are bound before each run, and no Instance is kept
  CaptureRules rules;
  BlockSource* memory = &process_memory();  // of arenas without use_graph_pool; must outlive the Executable
  std::string label;                        // names calls in a profiler; empty: calls have no name there
};

}  // namespace npugraph::runtime
