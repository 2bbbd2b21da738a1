// SPDX-License-Identifier: Apache-2.0
// Horizontal fusion: small tasks that do not depend on each other become one task (program/parts.h), whose parts run at
// the same time, each in one thread. Branches of a model are groups level by level:
//
//   matmul.mm(x, wa -> a)   matmul.mm(a, va -> p)         group.2x_matmul.mm(x, wa -> a; y, wb -> b)
//   matmul.mm(y, wb -> b)   matmul.mm(b, vb -> q)   ->    group.2x_matmul.mm(a, va -> p; b, vb -> q)
//
// Candidates are generated tasks that cannot fail and that one thread finishes soon. Legality: a task may move up over
// tasks with which it shares no memory that one of them writes; it moves over nothing that the host runs, and what it
// writes for the caller does not appear before a task that may fail. Score: the time that two threads save by it, by
// the cost model.
#pragma once

#include <string>
#include <vector>

#include "lower/lower.h"
#include "program/program.h"
#include "target/target.h"

namespace npugraph::lower {

// Tasks that may run at the same time.
struct Grouping {
  std::string tasks;        // "2x_matmul.mm"
  double saved_ns = 0;      // the score
  const char* reason = "";  // why they stay apart; empty if they are one task
};

// Groups tasks where it saves time, and lists all candidates in program order. `notes` has one entry per task, before
// and after. Requires a Program without a plan.
std::vector<Grouping> group_tasks(program::Program& program, std::vector<TaskNote>& notes,
                                  const target::Target& target);

}  // namespace npugraph::lower
