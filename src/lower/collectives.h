// SPDX-License-Identifier: Apache-2.0
// Collectives between processes: a task begins one where the node stands, and another one waits for it where its results are
// first needed. What lies between runs beside it.
#pragma once

#include <vector>

#include "program/program.h"

namespace npugraph::lower {

// The task that waits for what `begin` begins: it reads the last operand of `begin`, which stands for what is under way, and
// touches all others, so that they live until then.
program::Task wait_for(const program::Task& begin);

// Waits that have no place yet.
class Waits {
 public:
  void add(program::Task wait) { waits_.push_back(std::move(wait)); }
  // Takes out those that must stand before `next`: where it touches results that are under way, or writes what they are made
  // of; and before what an error of the collective must not come after: writes to inputs, Python, side effects.
  std::vector<program::Task> due(const program::Program& program, const program::Task& next);
  std::vector<program::Task> rest() { return std::move(waits_); }

 private:
  std::vector<program::Task> waits_;
};

}  // namespace npugraph::lower
