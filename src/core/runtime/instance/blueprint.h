// SPDX-License-Identifier: Apache-2.0
// Everything that can be prepared from a Program before any size is known: the slot of each size, stride and offset,
// the windows that follow a buffer when it moves, and the values that become known between two segments.
//
// Immutable once made, so thread-safe.
//
// Words: a *window* is a strided view of a buffer; the operands of the tasks come first, in order, then the outputs'
// tensors. An *epoch* is the point from which a value is known: 0 when the inputs are, k when segment k - 1 has run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/parts.h"
#include "program/program.h"
#include "program/window_facts.h"

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
  bool dies = false;              // arena memory that no later task touches
  bool fits = false;              // proven to lie in its buffer for all symbol values
  // Slots among an Instance's integers of the first size, the first stride and the offset.
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
  int32_t window = program::kNone;  // kNone if the output is no tensor
  bool whole = false;               // the window is all of the input, or of the object that its task allocated
  bool last_of_buffer = false;      // no later output is a window of the same buffer
};

struct Epoch {
  std::vector<int32_t> symbols;  // in epochs after 0, in the order in which the preceding task defines them
  std::vector<int32_t> exprs;
  std::vector<ExprUse> uses;
  std::vector<int32_t> windows;  // windows whose numbers, and the sizes of whose buffers, are known from here on
  std::vector<int32_t> tasks;    // tasks that can be bound from here on
};

struct Blueprint {
  // UserError when the Program breaks a rule of program::verify().
  explicit Blueprint(std::shared_ptr<const program::Program> source);

  std::shared_ptr<const program::Program> program;
  std::vector<Window> windows;
  std::vector<int32_t> first_window;  // per task, then the end
  std::vector<OutputPlan> outputs;
  int32_t output_dims = 0;             // number of sizes and strides of all tensor outputs
  std::vector<int32_t> bytes_slot;     // per buffer
  std::vector<int64_t> integers;       // initial integers of an Instance: the constants, and 0 for all others
  std::vector<int32_t> first_scalar;   // per task, then the end
  std::vector<int32_t> first_defined;  // per task, then the end
  std::vector<Epoch> epochs;           // one per segment, and one for the symbols that the last segment defines
  std::unordered_map<std::string, int32_t> symbol_index;
  std::vector<int32_t> input_symbols;
  std::vector<int32_t> key_symbols;  // input symbols whose values are the key of an Instance
  // The other input symbols: numbers of the caller that determine no size and that only results and tasks that read
  // their scalars at each run use. If they change, these tasks are bound again.
  std::vector<int32_t> refreshed_symbols;
  IndexLists windows_of_buffer;
  IndexLists exprs_of_task;  // expressions that are read when the task is bound
  // Buffers for which the runtime allocates memory right before the task, or with strands before any strand runs.
  IndexLists allocated_by_task;
  IndexLists adopted_by_task;  // windows for which the task allocates memory itself
  // Inputs whose memory neither later tasks nor results touch, and no task writes. Empty with strands.
  IndexLists inputs_done_after_task;
  IndexLists arena_deaths;             // arena buffers whose last step is the last one of the task
  std::vector<int32_t> arena_buffers;  // arena buffers that tasks touch
  program::Steps steps;                // the steps of each task and each buffer
  std::vector<int32_t> owned_buffers;  // output and heap buffers: their memory lives for one replay
  // The strand of each task if the Program runs in strands (runtime/threads/strands.h), else empty.
  std::vector<int32_t> strand_of_task;
  // With strands, for each of arena_buffers: the strand of its first task, and the last task of that strand that may
  // run before all tasks that touch the buffer are done.
  std::vector<int32_t> strand_of_arena_buffer;
  std::vector<int32_t> last_in_strand;
  int32_t num_strands = 1;
  bool has_strands() const { return !strand_of_task.empty(); }

 private:
  void find_strands();
  void place_integers();
  void add_window(const program::Operand& operand, int32_t task, program::WindowFits& fits);
  int32_t add_integer(const program::Dim& dim);
  void find_epochs();
  void list_task_exprs(const std::vector<int32_t>& epoch_of_expr);
  void split_input_symbols(const std::vector<int32_t>& epoch_of_expr);
  std::vector<bool> find_told_exprs(const std::vector<int32_t>& epoch_of_expr) const;
  void list_buffers();
  void list_inputs_done();
  void plan_outputs();
  bool is_whole(int32_t window) const;

  std::vector<ExprUse> uses_;  // all of them, in the order of their slots
};

}  // namespace npugraph::runtime
