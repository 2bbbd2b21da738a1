// SPDX-License-Identifier: Apache-2.0
// One run of an Instance's tasks: the hot loop, and the life of the memory that exists for this run only.
//
// Not thread-safe; lives as long as one call. The destructor releases all memory that was not handed out, so that an
// error in any task leaves nothing behind.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/call.h"
#include "runtime/host.h"
#include "runtime/instance/instance.h"
#include "runtime/instance/lease.h"

namespace npugraph::runtime {

class Observer;

class Replay {
 public:
  // `inputs` are those that were bound, and outlive the Replay.
  Replay(const Blueprint& blueprint, Instance& instance, Lease& lease, Host& host, const BoundInputs& inputs)
      : blueprint_(blueprint), instance_(instance), lease_(lease), host_(host), inputs_(inputs) {
    lease_.copied_bytes = 0;
  }
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Runs every task. TaskError if one fails. `observer` may be null.
  void run(Observer* observer);
  // Moves the results to the caller, their sizes and strides to `dims`. Throws what Host::allocate throws; then no
  // output holds a reference.
  void hand_out(std::span<BoundOutput> outputs, std::vector<int64_t>& dims);

  bool rebound() const { return rebound_; }  // a symbol that a task defines differed from the last replay

 private:
  void run_segment(int32_t begin, int32_t end, Observer* observer);
  bool has_limits() const;
  void run_strands(int32_t begin, int32_t end, Observer* observer);
  void run_tasks(int32_t begin, int32_t end, Observer* observer);
  template <bool kObserved>
  void run_tasks(int32_t begin, int32_t end, Observer* observer);
  void stage_inputs(Observer* observer);
  int64_t result_bytes(int32_t buffer) const;
  void keep_allocated();
  void prepare(int32_t task);
  void finish(int32_t task);
  void adopt(int32_t task, int32_t window);
  void allocate(int32_t buffer);
  void allocate_for(int32_t task);
  const ResultMemory* given_memory(int32_t buffer) const;
  void* allocate(int64_t bytes, void** data);
  [[noreturn]] void fail(int32_t task) const;
  void hand_out_tensor(const OutputPlan& plan, BoundOutput& result, std::vector<int64_t>& dims);
  void hand_out_copy(const OutputPlan& plan, BoundOutput& result);

  const Blueprint& blueprint_;
  Instance& instance_;
  Lease& lease_;
  Host& host_;
  const BoundInputs& inputs_;
  int64_t allocated_bytes_ = 0;
  bool rebound_ = false;
};

}  // namespace npugraph::runtime
