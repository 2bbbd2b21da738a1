// SPDX-License-Identifier: Apache-2.0
// A function that is called before and after every task of every replay, with the memory of its operands, so that a
// debugger can follow a Program. While there is one, tasks run one by one without a standing team. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "abi/task.h"
#include "program/program.h"

namespace npugraph::runtime {

struct WatchedOperand {
  const program::Operand& operand;
  const program::Buffer& buffer;
  const ng_buffer& window;  // of results that the task allocates itself, valid only after the task
};

// An input of the Program as the caller gave it.
struct WatchedInput {
  const program::Input& input;
  const program::Buffer& buffer;
  const void* data = nullptr;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

struct WatchedSymbol {
  const program::Symbol& symbol;
  Scalar value;
};

struct WatchedTask {
  const std::string& artifact;
  int32_t task = 0;
  bool done = false;  // whether it has run
  std::vector<WatchedOperand> operands;
  // Before the first task only: the tensors among the inputs that some task reads, and the symbols that inputs define.
  std::vector<WatchedInput> inputs;
  std::vector<WatchedSymbol> symbols;
};

// Called by the thread that replays; must not throw.
using TaskWatch = std::function<void(const WatchedTask&)>;

// Replaces the previous function; an empty one ends the watching. Replays that have begun keep the old one.
void set_task_watch(TaskWatch watch);
// Null if there is no function.
std::shared_ptr<const TaskWatch> task_watch();

}  // namespace npugraph::runtime
