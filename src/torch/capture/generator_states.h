// SPDX-License-Identifier: Apache-2.0
// States of generators in one capture. What is read and put back inside of a capture is read and put back by each replay, wherever
// the generator is then, so that a part that is computed again draws the same numbers again.
//
// Reading a state is a launch, which keeps it in memory of the graph; setting a state that was read is one that takes it from there.
// Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/Generator.h>

namespace npugraph::capture {

// Of a generator where a replay begins.
struct StartState {
  at::Generator generator;
  at::Tensor state;  // on npu

  void read() const;
};

class GeneratorStates {
 public:
  // To be called before a launch that may draw from `generator`.
  void save(const at::Generator& generator);
  // Puts the saved states back, and forgets what was read.
  void undo();

  // `bytes` is the state of a generator as its caller reads it, `kept` the tensor of npu in which replays keep theirs. What the
  // caller gets in place of `bytes`.
  at::Tensor add_read(const at::Tensor& bytes, at::Tensor kept);
  // `kept` of the state that was read here, or inside of another capture, as `bytes`; undefined where none was.
  at::Tensor find_read(const at::Tensor& bytes) const;

  // A tensor of npu that holds at each replay the state in which `generator` is when it begins.
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

// From now on generators of npu tell captures what is done to them, and operators know whether they are captured. Once in the
// process.
void record_generator_states();

}  // namespace npugraph::capture
