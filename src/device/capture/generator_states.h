// SPDX-License-Identifier: Apache-2.0
// States of generators in one capture. A state that a capture reads and sets again is read and set again by each
// replay, whatever state the generator has then, so that a recomputed part draws the same numbers again.
//
// Reading a state is a launch that keeps it in memory of the graph. Setting a state that was read is a launch that
// takes it from there. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace npugraph::capture {

// The state of a generator at the start of a replay.
struct StartState {
  at::Generator generator;
  at::Tensor state;  // on npu

  void read() const;
};

class GeneratorStates {
 public:
  // To be called before a launch that may draw from `generator`.
  void save(const at::Generator& generator);
  // Restores the saved states, and forgets the states that were read.
  void undo();

  // `bytes` is the state of a generator that the caller reads, `kept` the npu tensor in which replays keep theirs.
  // Returns the tensor that the caller gets in place of `bytes`.
  at::Tensor add_read(const at::Tensor& bytes, at::Tensor kept);
  // The `kept` tensor of the state that was read as `bytes`, here or in another capture; undefined if there is none.
  at::Tensor find_read(const at::Tensor& bytes) const;

  // An npu tensor that holds the state of `generator` at the start of each replay.
  at::Tensor start_of(const at::Generator& generator);
  std::vector<StartState> take_starts();

 private:
  struct Read {
    at::Tensor bytes, kept;
  };

  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::pair<at::Generator, at::Tensor>> saved_;
  std::vector<Read> reads_;
  std::vector<StartState> starts_;
};

// From now on, captures are told of operations on npu generators, and operators can ask
// whether they are captured. Once in the process.
void record_generator_states();

}  // namespace npugraph::capture
