// SPDX-License-Identifier: Apache-2.0
// What one call at a time holds of an Executable: memory, the services that tasks see, and the Instances bound to both.
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
#include "runtime/memory/kept_results.h"
#include "runtime/memory/working_memory.h"

namespace npugraph::runtime {

struct Lease {
  // `index` numbers the leases of one Executable, whose name is `owner`.
  Lease(const std::string& owner, int32_t index);
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  // Makes services for so many lanes.
  void serve_lanes(size_t lanes) { lane_services.resize(lanes, service); }

  const int32_t index;
  WorkingMemory memory;
  WorkingMemory* working = &memory;      // what the call in progress works in
  std::unique_ptr<KeptResults> results;  // of the Instances of this lease, where they share them
  KeptResults* kept = nullptr;           // where results of the call in progress stay; null: they are the caller's
  ng_host service;
  std::deque<ng_host> lane_services;           // one per stream of a Program that runs in lanes
  std::mutex error_mutex;                      // lanes may fail at once
  std::string error;                           // what a task of the call in progress said last
  int64_t copied_bytes = 0;                    // by the run in progress, beyond what its tasks declare
  std::optional<program::ArenaSolver> solver;  // of the Executable's Program, made by the first Instance
  bool busy = false;
  std::thread::id holder;   // while busy
  uint64_t generation = 0;  // of the process in which it became busy, see base/fork.h
};

}  // namespace npugraph::runtime
