// SPDX-License-Identifier: Apache-2.0
// A Program ready to run in this process: its tasks built, its Instances cached, its arenas shared.
//
// Thread-safe. Concurrent calls each lease an Instance and an arena of their own, up to Options::max_concurrent; more
// calls wait for one, so the caller must hold no lock that a task may need (the GIL, if there are Python tasks). A task
// may call its own Executable from the thread that runs it: nested calls never wait. An error in a call does not change
// the Executable: the next call works. In the child of a fork, the calls of other threads are forgotten and the memory
// that they held is leaked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/call.h"
#include "runtime/host.h"
#include "runtime/options.h"
#include "runtime/task_makers.h"

namespace npugraph::runtime {

// Callbacks from an Executable to the layers above the runtime.
struct Hooks {
  bool counts_by_name = false;  // count graphs in the process's counters, too, under the names of Ascend's documents
  // Called once for each Instance with the values of the symbols, of which those of inputs are known. Returns the
  // function that makes the Instance's own tasks; it may be empty.
  std::function<Specialise(std::span<const Scalar> symbols)> specialise;
};

class Executable {
 public:
  // Makes every task with `make`, whose UserError passes through.
  Executable(std::shared_ptr<const program::Program> program, Host& host, const MakeTask& make, Options options,
             std::string name, Hooks hooks = {});
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // Binds and replays. `outputs` has one entry per Program output; their sizes and strides go to `dims`. If the status
  // is not kOk, no output holds a reference.
  RunResult run(const BoundInputs& inputs, std::span<BoundOutput> outputs, std::vector<int64_t>& dims);

  // Makes the Instance for the sizes and numbers of these inputs, whose memory is not read, unless there is one.
  // Returns the bytes of the block that its arena needs. Takes no memory from Options::memory, and throws what run()
  // reports.
  int64_t prepare(const BoundInputs& inputs);

  // The door to all else: Observation (observation.h) looks through it, HeldMemory (held_memory.h) manages what lies
  // behind it between calls.
  struct State;
  State& state() { return *state_; }
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace npugraph::runtime
