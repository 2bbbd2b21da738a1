// SPDX-License-Identifier: Apache-2.0
// The part of an Executable that one call at a time holds: memory, the services that tasks see, and the Instances bound
// to both.
//
// Not thread-safe: the Executable hands a lease to one call at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "abi/task.h"
#include "program/offsets.h"
#include "runtime/memory/call_memory.h"

namespace npugraph::runtime {

struct Lease {
  // `index` numbers the leases of one Executable, whose name is `owner`. `source` and `constants` must outlive it.
  Lease(const std::string& owner, int32_t index, BlockSource& source, const ConstantMemory& constants);
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  // Makes services for `strands` strands.
  void serve_strands(size_t strands) { strand_services.resize(strands, service); }

  const int32_t index;
  const ConstantMemory& constants;  // shared by all leases of the Executable
  WorkingMemory memory;
  WorkingMemory* working = &memory;      // the memory of the call in progress
  std::unique_ptr<KeptResults> results;  // shared by the Instances of this lease; null: not shared
  KeptResults* kept = nullptr;           // keeps the results of the call in progress; null: they are the caller's
  ng_host service;
  std::deque<ng_host> strand_services;         // one per strand of a Program that runs in strands
  std::mutex error_mutex;                      // guards `error`: strands may fail at once
  std::string error;                           // the last error message of a task of the call in progress
  int64_t copied_bytes = 0;                    // copied by the run in progress, beyond what its tasks declare
  std::optional<program::ArenaSolver> solver;  // of the Executable's Program, made by the first Instance
  bool busy = false;
  std::thread::id holder;   // the thread of the call, while busy
  uint64_t generation = 0;  // fork_generation() when it became busy
};

}  // namespace npugraph::runtime
