// SPDX-License-Identifier: Apache-2.0
// Makes the Executable of a planned Program, for Programs that were just compiled and for Programs from files, with
// the static kernels of its Instances.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "compiler/generated_tasks.h"
#include "compiler/request.h"
#include "program/program.h"
#include "runtime/executable.h"

namespace npugraph::compiler {

// Static kernels: generated loops of symbolic sizes are made again for the sizes of each new Instance. Loops of
// constant sizes need no remainder tests and fewer multiplications. Matrix products are not made again: they already
// plan by their sizes.
//
// Thread-safe.

class StaticKernels {
 public:
  StaticKernels(std::shared_ptr<const program::Program> program, StaticKernelRequest request,
                runtime::MakeTask make_task);

  // For runtime::Hooks. A task that cannot be made stays as it is, with one warning; it is not tried again in this
  // process.
  runtime::Specialise for_symbols(std::span<const Scalar> symbols);

  struct Counts {
    int64_t tasks = 0;  // tasks that Instances have of their own
    int64_t builds = 0;
    int64_t loads = 0;
    int64_t failures = 0;
  };
  Counts counts() const;
  // One line per set of sizes so far: "s0=8: 3 tasks have code of their own", or why there are none.
  std::vector<std::string> lines() const;

 private:
  struct Sizes {
    std::string key;
    int64_t tasks = 0;
    int64_t failures = 0;
    bool excluded = false;
  };

  std::optional<ng_task> make(const program::Task& task, std::span<const ng_scalar> scalars, const std::string& key);
  void count(const std::string& key, bool failed);
  Sizes& sizes_of(const std::string& key);
  bool is_wanted(std::span<const Scalar> symbols) const;
  std::string key_of(std::span<const Scalar> symbols) const;

  const std::shared_ptr<const program::Program> program_;
  const StaticKernelRequest request_;
  const runtime::MakeTask make_task_;
  mutable std::mutex mutex_;  // guards what follows
  Counts counts_;
  std::vector<Sizes> sizes_;
};

struct Runnable {
  std::shared_ptr<StaticKernels> static_kernels;  // null if the request asks for none
  std::shared_ptr<runtime::Executable> executable;
};

// `make_task` makes the tasks of the Program and the static kernels of its Instances. If `generated` is not null, the
// generated tasks of the Program are taken from it instead. `host` must outlive the Runnable.
Runnable make_runnable(std::shared_ptr<const program::Program> program, runtime::Host& host, const RunRequest& request,
                       const runtime::MakeTask& make_task, GeneratedTasks* generated = nullptr);

}  // namespace npugraph::compiler
