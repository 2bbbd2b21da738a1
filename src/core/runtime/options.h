// SPDX-License-Identifier: Apache-2.0
// Limits and rules of the calls of a Program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "runtime/memory/block_source.h"

namespace npugraph::runtime {

using PoolHandle = std::pair<int64_t, int64_t>;

// Which threads may not wait for a device, take raw memory of it or free cached memory while a graph of it is captured:
// all threads, the thread that began the capture, or none.
enum class CaptureErrorMode : uint8_t { kGlobal, kThreadLocal, kRelaxed };
// UserError that lists the modes if `mode` is none of them.
CaptureErrorMode parse_capture_error_mode(const std::string& mode);

// The user's options for captures and for the memory of graphs. An option that is not set never makes a graph write the
// caller's memory or overwrite results that the caller holds. The fields have the names of the options; docs/options.md
// says what each does.
struct CaptureRules {
  std::optional<PoolHandle> use_graph_pool;
  std::optional<bool> reuse_graph_pool_in_same_fx;
  std::optional<bool> clone_input;
  std::optional<bool> clone_output;
  std::optional<int64_t> capture_limit;
  bool force_recapture = false;
  bool frozen_parameter = false;
  std::optional<CaptureErrorMode> capture_error_mode;
};

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
