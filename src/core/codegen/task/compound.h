// SPDX-License-Identifier: Apache-2.0
// Several tasks as one: in turn, or at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "abi/task.h"

namespace npugraph::codegen {

// One of several tasks, and how many buffers and scalars of the call it takes. Those of all parts follow each other.
struct Part {
  ng_task task;
  uint32_t buffers = 0;
  uint32_t scalars = 0;
  std::string label;  // names it in errors
};

// One state per part, null if the part has none.
using PartStates = std::vector<void*>;

// Owns the tasks of parts.
class Parts {
 public:
  explicit Parts(std::vector<Part> parts) : parts_(std::move(parts)) {}
  ~Parts() {
    for (const Part& part : parts_) {
      if (part.task.destroy != nullptr) part.task.destroy(part.task.context);
    }
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  size_t size() const { return parts_.size(); }
  const Part& operator[](size_t i) const { return parts_[i]; }

  // Calls visit(index, the part's own call) until it returns false. Returns whether all calls returned true.
  template <typename Visit>
  bool for_each_call(const ng_call& call, Visit visit) const {
    ng_call own = call;
    own.num_defined = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      own.num_buffers = parts_[i].buffers;
      own.num_scalars = parts_[i].scalars;
      if (!visit(i, own)) return false;
      own.buffers += own.num_buffers;
      own.scalars += own.num_scalars;
    }
    return true;
  }

  // Binds all parts. On failure, `states` holds what is to be unbound.
  ng_status bind(const ng_call& call, PartStates& states) const {
    states.resize(parts_.size(), nullptr);
    const bool bound = for_each_call(call, [&](size_t i, const ng_call& own) {
      const ng_task& task = parts_[i].task;
      return task.bind == nullptr || task.bind(task.context, &own, &states[i]) == NG_OK;
    });
    return bound ? NG_OK : NG_ERROR;
  }

  void unbind(const PartStates& states) const {
    for (size_t i = 0; i < states.size(); ++i) {
      const ng_task& task = parts_[i].task;
      if (states[i] != nullptr) task.unbind(task.context, states[i]);
    }
  }

  // Workspace of a part for its own call; -1 if it is not known.
  int64_t workspace(size_t i, const ng_call& own) const {
    const ng_task& task = parts_[i].task;
    return task.workspace == nullptr ? 0 : task.workspace(task.context, &own);
  }

 private:
  const std::vector<Part> parts_;
};

// A task that runs the parts one after the other. Each part begins after the previous one is done in all threads. A
// part that fails ends the sequence, and the error message names it. No part may define symbols or allocate results. If
// `workers` is not 0, at most that many threads take part. The sequence owns the tasks.
ng_task make_sequence(std::vector<Part> parts, int64_t workers = 0);

// A run of such a sequence. Its workspace is that of the part that needs most.
ng_status run_in_turn(const Parts& parts, const PartStates& states, int64_t workers, const ng_call& call);

// In nanoseconds.
struct GroupTimes {
  std::vector<double> parts;  // of each part in one thread
  double region = 0;          // of starting the threads and waiting for the last one
};

// A task that runs parts that do not depend on each other, at the same time.
// No part may touch an element that another one writes, define symbols or allocate results. Each part runs in one
// thread if all parts are then done earlier, by these times, than one after the other in all threads; results do not
// depend on that. If parts fail, the error message is that of the first of them, and names it. The group owns the
// tasks.
ng_task make_group(std::vector<Part> parts, GroupTimes times);

// Whether the parts take less time at the same time, each in one of `workers` threads, than one after the other.
bool is_faster_together(const GroupTimes& times, int32_t workers);

}  // namespace npugraph::codegen
