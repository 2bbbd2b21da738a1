// SPDX-License-Identifier: Apache-2.0
// What can be prepared from a Program before any size is known: where each size, stride and offset will stand, which
// windows follow a buffer when it moves, and what becomes known between two segments.
//
// Immutable once made, so thread-safe.
//
// Words: a *window* is a strided view of a buffer; the operands of the tasks come first, in order, then the outputs'
// tensors. A *stage* is the point from which a value is known: 0 when the inputs are, k when segment k - 1 has run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/program.h"
#include "program/super_kernel.h"
#include "program/window_fit.h"

namespace npugraph::runtime {

// Lists of indices, one per key, back to back.
class IndexLists {
 public:
  IndexLists() = default;
  explicit IndexLists(const std::vector<std::vector<int32_t>>& lists);
  std::span<const int32_t> operator[](size_t key) const {
    return {items_.data() + starts_[key], items_.data() + starts_[key + 1]};
  }

 private:
  std::vector<int32_t> starts_;
  std::vector<int32_t> items_;
};

struct Window {
  const program::Operand* operand = nullptr;
  int32_t task = program::kNone;  // kNone: an output
  bool dies = false;              // planned memory that nobody reads after the task
  bool fits = false;              // it lies in its buffer whatever its sizes are
  // Where they stand among an Instance's integers.
  int32_t sizes = 0;
  int32_t strides = 0;
  int32_t offset = 0;
};

// Integer `slot` of an Instance is the value of expression `expr`.
struct ExprUse {
  int32_t expr = 0;
  int32_t slot = 0;
};

struct OutputPlan {
  int32_t window = program::kNone;  // of a tensor
  bool whole = false;               // the window is all of the input, or of the object that its task allocated
  bool last_of_buffer = false;      // no later output is a window of the same buffer
};

struct Stage {
  std::vector<int32_t> symbols;  // of stages after 0: in the order in which the task before defines them
  std::vector<int32_t> exprs;
  std::vector<ExprUse> uses;
  std::vector<int32_t> windows;  // that are wholly known, with their buffers, from here on
  std::vector<int32_t> tasks;    // that can be bound now and not before
};

struct Blueprint {
  // UserError when the Program breaks a rule of program::verify().
  explicit Blueprint(std::shared_ptr<const program::Program> source);

  std::shared_ptr<const program::Program> program;
  std::vector<Window> windows;
  std::vector<int32_t> first_window;  // per task, and one more
  std::vector<OutputPlan> outputs;
  int32_t output_dims = 0;             // sizes and strides of all tensor outputs
  std::vector<int32_t> bytes_slot;     // per buffer
  std::vector<int64_t> integers;       // an Instance's integers: the constants in place, the others 0
  std::vector<int32_t> first_scalar;   // per task, and one more
  std::vector<int32_t> first_defined;  // per task, and one more
  std::vector<Stage> stages;           // one per segment, and one for what the last segment defines
  std::unordered_map<std::string, int32_t> symbol_index;
  std::vector<int32_t> input_symbols;
  std::vector<int32_t> key_symbols;  // of these, those whose values are the key of an Instance
  // The others: numbers that the caller gives, of which no size follows, and which only tasks of the host are told. Tasks are
  // bound anew where they change.
  std::vector<int32_t> refreshed_symbols;
  IndexLists windows_of_buffer;
  IndexLists exprs_of_task;  // what binding the task reads
  IndexLists
      allocated_by_task;  // buffers for which the runtime allocates memory right before the task, or before lanes run
  IndexLists adopted_by_task;          // windows in which the task stores memory of its own
  IndexLists arena_deaths;             // arena buffers whose last step is the last one of the task
  std::vector<int32_t> arena_buffers;  // that tasks touch
  program::Steps steps;                // when
  std::vector<int32_t> owned_buffers;  // those whose memory lives for one replay: outputs and heap
  // Of a Program that runs in lanes (runtime/threads/lanes.h), else empty: the lane of each task.
  std::vector<int32_t> lane_of_task;
  // And of each arena buffer: the lane of its first task, and the last task of that lane that may run before all that touch it
  // are done.
  std::vector<int32_t> lane_of_arena_buffer;
  std::vector<int32_t> last_in_lane;
  int32_t num_lanes = 1;
  bool has_lanes() const { return !lane_of_task.empty(); }

 private:
  void find_lanes();
  void place_integers();
  void add_window(const program::Operand& operand, int32_t task, program::WindowFits& fits);
  int32_t add_integer(const program::Dim& dim);
  void find_stages();
  void list_task_exprs(const std::vector<int32_t>& stage_of_expr);
  void split_input_symbols(const std::vector<int32_t>& stage_of_expr);
  std::vector<bool> find_told_exprs(const std::vector<int32_t>& stage_of_expr) const;
  void list_buffers();
  void plan_outputs();
  bool is_whole(int32_t window) const;

  std::vector<ExprUse> uses_;  // all of them, in the order of their slots
};

}  // namespace npugraph::runtime
