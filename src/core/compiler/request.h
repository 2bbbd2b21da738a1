// SPDX-License-Identifier: Apache-2.0
// The options that a front end passes to the compiler and the runtime. One request goes through all layers: each layer
// reads its own part and copies nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lower/super_kernels.h"
#include "runtime/options.h"
#include "tensor/expr.h"

namespace npugraph::compiler {

// Tasks of symbolic sizes that are made again for each Instance (compiler/runnable.h).
struct StaticKernelRequest {
  bool enabled = false;
  bool on_disk = true;                         // the object cache on disk is read and written
  int64_t symbol = 0;                          // the position of a symbol among those of the inputs
  std::optional<std::vector<int64_t>> values;  // the values of that symbol that get static kernels; nullopt: all
};

// How a Program runs, whether it was just compiled or comes from a file.
struct RunRequest {
  runtime::Options calls;
  StaticKernelRequest static_kernels;
};

// Names of the graph passes, in order (pipeline.cc).
std::vector<std::string> default_passes();

struct CompileRequest {
  std::string name = "graph";
  std::vector<std::string> passes = default_passes();
  std::vector<std::string> disabled_passes;  // entries of `passes` that do not run, by name
  bool verify = false;      // the graph is verified after every pass that hit, not only at the end of phases
  bool training = false;    // the graph is the forward or backward graph of a training step
  bool place_parts = true;  // parts of a concatenation are computed into the memory of its result
  bool generate = false;    // loop nests are generated where they save memory traffic
  bool keep_rest = false;   // operators that neither code nor the host runs become tasks of the host all the same
  bool join = true;         // generated code may be of several nodes
  bool group = true;        // small tasks that do not depend on each other run at the same time
  lower::MergeOptions super_kernels = {.merges = false};
  // What the front end tests of sizes and numbers of inputs before each call, besides the bounds of symbols.
  std::vector<Expr> guards;
  RunRequest run;
};

}  // namespace npugraph::compiler
