// SPDX-License-Identifier: Apache-2.0
// Made by the front end, and passed by const reference.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/capture_rules.h"

namespace npugraph::compiler {

// How a Program is run, one that was just compiled or one from a file.
struct RunOptions {
  int64_t max_instances = 64;
  int64_t max_concurrent = 4;
  bool capture = true;  // false: bind before each run, keep no Instance
  std::string label;    // of calls, for profilers; empty: none
  runtime::CaptureRules rules;
  // Code of their own for tasks of symbolic sizes, once for each Instance (compiler/static_kernels.h).
  bool static_kernels = false;
  bool static_kernels_on_disk = true;  // that code is read from the object cache and kept there
  int64_t static_symbol = 0;           // only where this one of the symbols of inputs ...
  std::vector<int64_t> static_values;  // ... has one of these values; empty: always
};

struct CompileOptions {
  std::string name = "graph";
  std::vector<std::string> disabled_passes;
  bool verify = false;               // verify the graph after every pass, not only at phase ends
  bool training = false;             // a forward or backward graph of a training step
  bool place_parts = true;           // compute parts of concatenations where they stand in these
  bool generate = false;             // generated loop nests instead of ATen calls where they save memory traffic
  bool super_kernels = false;        // adjacent tasks of one scope become one (lower/super_kernels.h)
  int64_t super_kernel_workers = 0;  // threads that such a task may use at most; 0: all
  RunOptions run;
};

}  // namespace npugraph::compiler
