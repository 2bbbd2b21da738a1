// SPDX-License-Identifier: Apache-2.0
// Which tasks come before which in every run, through streams and waits.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace npugraph::program {

class TaskOrder {
 public:
  explicit TaskOrder(const Program& program);

  // Whether `a` is done when `b` begins.
  bool precedes(int32_t a, int32_t b) const { return a < b && done_[b][stream_[a]] > a; }
  // The first task, from the last of `tasks` on, for which follows() holds; the number of tasks if there is none.
  int32_t first_after(const std::vector<int32_t>& tasks) const;
  // The last task that does not come after all of `tasks`, at least the last of them. `tasks` must not be empty.
  int32_t last_beside(const std::vector<int32_t>& tasks) const;
  // Whether each of `tasks` precedes `task`, or is it.
  bool follows(const std::vector<int32_t>& tasks, int32_t task) const;
  // Per buffer: the last task of each stream that touches it.
  std::vector<std::vector<int32_t>> last_touches() const;

 private:
  const Program& program_;
  std::vector<int32_t> stream_;             // per task, numbered densely
  std::vector<std::vector<int32_t>> done_;  // per task and stream: one past the last task that precedes it; 0: none
};

}  // namespace npugraph::program
