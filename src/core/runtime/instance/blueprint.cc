// SPDX-License-Identifier: Apache-2.0
#include "runtime/instance/blueprint.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "program/task_order.h"
#include "tensor/expr.h"

namespace npugraph::runtime {

using program::BufferClass;
using program::kNone;

namespace {

int32_t count(const auto& list) { return static_cast<int32_t>(list.size()); }

// The segment of each task.
std::vector<int32_t> segment_of_tasks(const program::Program& program) {
  std::vector<int32_t> segment_of(program.tasks.size(), 0);
  int32_t segment = 0;
  for (int32_t t = 0; t < count(program.tasks); ++t) {
    while (t >= program.segments[segment]) ++segment;
    segment_of[t] = segment;
  }
  return segment_of;
}

}  // namespace

IndexLists::IndexLists(const std::vector<std::vector<int32_t>>& lists) {
  starts_.reserve(lists.size() + 1);
  starts_.push_back(0);
  for (const auto& list : lists) {
    items_.insert(items_.end(), list.begin(), list.end());
    starts_.push_back(count(items_));
  }
}

Blueprint::Blueprint(std::shared_ptr<const program::Program> source) : program(std::move(source)) {
  if (const std::string violation = program::verify(*program); !violation.empty()) {
    throw UserError(cat("Program \"", program->name, "\" is not valid: ", violation));
  }
  for (int32_t s = 0; s < count(program->symbols); ++s) {
    symbol_index.emplace(program->symbols[s].name, s);
    if (program->symbols[s].task == kNone) input_symbols.push_back(s);
  }
  steps = program::steps_of(*program);
  place_integers();
  find_epochs();
  list_buffers();
  find_strands();
  list_inputs_done();
  plan_outputs();
}

void Blueprint::find_strands() {
  const auto is_limited = [](const program::Task& task) { return task.limits != CoreLimits{}; };
  const bool has_streams = program::has_streams(*program);
  if (!has_streams && std::ranges::none_of(program->tasks, is_limited)) return;
  std::unordered_map<int32_t, int32_t> strands;
  for (const program::Task& task : program->tasks) {
    strand_of_task.push_back(strands.try_emplace(task.stream, static_cast<int32_t>(strands.size())).first->second);
  }
  num_strands = static_cast<int32_t>(strands.size());
  const program::TaskOrder order(*program);
  const auto touches = order.last_touches();
  for (Window& window : windows) {
    const auto is_done = [&](int32_t t) { return t == window.task || order.precedes(t, window.task); };
    window.dies = window.dies && std::ranges::all_of(touches[window.operand->buffer], is_done);
  }
  for (const int32_t b : arena_buffers) {
    const int32_t first = program->buffers[b].first_task;
    const int32_t strand = strand_of_task[first];
    int32_t last = program->buffers[b].last_task;
    const auto is_touch = [&](int32_t t) { return t == last; };
    while (last > first && (strand_of_task[last] != strand ||
                            (order.follows(touches[b], last) && std::ranges::none_of(touches[b], is_touch))))
      --last;
    strand_of_arena_buffer.push_back(strand);
    last_in_strand.push_back(last);
  }
}

int32_t Blueprint::add_integer(const program::Dim& dim) {
  const int32_t slot = count(integers);
  if (!dim.is_constant()) uses_.push_back({dim.expr, slot});
  integers.push_back(dim.is_constant() ? dim.constant : 0);
  return slot;
}

void Blueprint::add_window(const program::Operand& operand, int32_t task, program::WindowFits& fits) {
  Window window{.operand = &operand, .task = task, .fits = fits.of(operand) == program::Fit::kAlways};
  if (task != kNone) {
    const program::Buffer& buffer = program->buffers[operand.buffer];
    const auto of_buffer = std::ranges::count(program->tasks[task].operands, operand.buffer, &program::Operand::buffer);
    window.dies = operand.access == program::Access::kRead && buffer.cls == BufferClass::kArena && !buffer.opaque &&
                  buffer.last_task == task && of_buffer == 1;
  }
  window.sizes = count(integers);
  for (const auto& size : operand.sizes) add_integer(size);
  window.strides = count(integers);
  for (const auto& stride : operand.strides) add_integer(stride);
  window.offset = add_integer(operand.byte_offset);
  windows.push_back(window);
}

void Blueprint::place_integers() {
  int32_t scalars = 0;
  int32_t defined = 0;
  program::WindowFits fits(*program);
  for (int32_t t = 0; t < count(program->tasks); ++t) {
    const program::Task& task = program->tasks[t];
    first_window.push_back(count(windows));
    first_scalar.push_back(scalars);
    first_defined.push_back(defined);
    for (const auto& operand : task.operands) add_window(operand, t, fits);
    scalars += count(task.scalars);
    defined += count(task.defines);
  }
  first_window.push_back(count(windows));
  first_scalar.push_back(scalars);
  first_defined.push_back(defined);

  for (const auto& output : program->outputs) {
    const bool tensor = output.kind == program::Output::Kind::kTensor;
    outputs.push_back({.window = tensor ? count(windows) : kNone});
    if (!tensor) continue;
    output_dims += 2 * count(output.tensor.sizes);
    add_window(output.tensor, kNone, fits);
  }
  for (const auto& buffer : program->buffers) bytes_slot.push_back(add_integer(buffer.bytes));
}

void Blueprint::find_epochs() {
  const auto segment_of_task = segment_of_tasks(*program);
  const auto epoch_after = [&](int32_t task) { return task == kNone ? 0 : segment_of_task[task] + 1; };
  epochs.resize(program->segments.size() + 1);

  epochs[0].symbols = input_symbols;
  for (int32_t t = 0; t < count(program->tasks); ++t) {
    for (const auto& defined : program->tasks[t].defines) epochs[epoch_after(t)].symbols.push_back(defined.symbol);
  }
  std::vector<int32_t> epoch_of_expr;
  for (const int32_t task : program::defining_tasks(*program)) {
    epochs[epoch_after(task)].exprs.push_back(count(epoch_of_expr));
    epoch_of_expr.push_back(epoch_after(task));
  }
  for (const ExprUse& use : uses_) epochs[epoch_of_expr[use.expr]].uses.push_back(use);

  for (int32_t w = 0; w < count(windows); ++w) {
    int32_t epoch = 0;
    const auto visit = [&](const program::Dim& dim) {
      if (!dim.is_constant()) epoch = std::max(epoch, epoch_of_expr[dim.expr]);
    };
    std::ranges::for_each(windows[w].operand->sizes, visit);
    std::ranges::for_each(windows[w].operand->strides, visit);
    visit(windows[w].operand->byte_offset);
    visit(program->buffers[windows[w].operand->buffer].bytes);
    epochs[epoch].windows.push_back(w);
  }
  list_task_exprs(epoch_of_expr);
  split_input_symbols(epoch_of_expr);
}

// Per expression: whether its value is used only by results and by tasks that read their scalars at each run and are
// bound at the start.
std::vector<bool> Blueprint::find_told_exprs(const std::vector<int32_t>& epoch_of_expr) const {
  std::vector<bool> is_told;
  for (const int32_t epoch : epoch_of_expr) is_told.push_back(epoch == 0);
  const auto use = [&](const program::Dim& dim) {
    if (!dim.is_constant()) is_told[dim.expr] = false;
  };
  for (const ExprUse& of_window : uses_) is_told[of_window.expr] = false;
  for (const program::Input& input : program->inputs) {
    std::ranges::for_each(input.sizes, use);
    std::ranges::for_each(input.strides, use);
    if (input.storage_offset) use(*input.storage_offset);
  }
  for (const int32_t condition : program->conditions) is_told[condition] = false;
  for (int32_t t = 0; t < count(program->tasks); ++t) {
    const program::Task& task = program->tasks[t];
    const bool is_rebindable = program::has(task.kind, program::KindTrait::kRebindable);
    if (is_rebindable && std::ranges::binary_search(epochs[0].tasks, t)) continue;
    for (const int32_t e : task.scalars) is_told[e] = false;
  }
  return is_told;
}

void Blueprint::split_input_symbols(const std::vector<int32_t>& epoch_of_expr) {
  const std::vector<bool> is_told = find_told_exprs(epoch_of_expr);
  std::vector<std::string> needed;
  for (size_t e = 0; e < is_told.size(); ++e) {
    if (!is_told[e]) collect_symbols(program->exprs[e], needed);
  }
  for (const int32_t s : input_symbols) {
    const program::Symbol& symbol = program->symbols[s];
    const bool is_key = symbol.dim != kNone || std::ranges::find(needed, symbol.name) != needed.end();
    (is_key ? key_symbols : refreshed_symbols).push_back(s);
  }
}

void Blueprint::list_task_exprs(const std::vector<int32_t>& epoch_of_expr) {
  const auto segment_of_task = segment_of_tasks(*program);
  std::vector<std::vector<int32_t>> exprs(program->tasks.size());
  for (int32_t t = 0; t < count(program->tasks); ++t) {
    const program::Task& task = program->tasks[t];
    int32_t epoch = 0;
    // Symbols that the task itself defines are known only after it has run; binding does not wait for them.
    const auto visit = [&](int32_t expr) {
      if (epoch_of_expr[expr] > segment_of_task[t]) return;
      epoch = std::max(epoch, epoch_of_expr[expr]);
      exprs[t].push_back(expr);
    };
    const auto visit_dim = [&](const program::Dim& dim) {
      if (!dim.is_constant()) visit(dim.expr);
    };
    for (const auto& operand : task.operands) {
      std::ranges::for_each(operand.sizes, visit_dim);
      std::ranges::for_each(operand.strides, visit_dim);
    }
    std::ranges::for_each(task.scalars, visit);
    epochs[epoch].tasks.push_back(t);
  }
  exprs_of_task = IndexLists(exprs);
}

void Blueprint::list_buffers() {
  std::vector<std::vector<int32_t>> windows_of(program->buffers.size());
  for (int32_t w = 0; w < count(windows); ++w) windows_of[windows[w].operand->buffer].push_back(w);

  std::vector<std::vector<int32_t>> allocated(program->tasks.size());
  std::vector<std::vector<int32_t>> adopted(program->tasks.size());
  std::vector<std::vector<int32_t>> deaths(program->tasks.size());
  for (int32_t b = 0; b < count(program->buffers); ++b) {
    const program::Buffer& buffer = program->buffers[b];
    if (buffer.cls == BufferClass::kOutput || buffer.cls == BufferClass::kHeap) owned_buffers.push_back(b);
    if (buffer.first_task == kNone) continue;
    if (buffer.cls == BufferClass::kArena) {
      if (steps.of_buffer[b].last == steps.of_task[buffer.last_task].last) deaths[buffer.last_task].push_back(b);
      arena_buffers.push_back(b);
    }
    if (buffer.cls == BufferClass::kOutput || buffer.preallocated) allocated[buffer.first_task].push_back(b);
    if (buffer.cls == BufferClass::kHeap && !buffer.preallocated) {
      adopted[buffer.first_task].push_back(windows_of[b].front());
    }
  }
  windows_of_buffer = IndexLists(windows_of);
  allocated_by_task = IndexLists(allocated);
  adopted_by_task = IndexLists(adopted);
  arena_deaths = IndexLists(deaths);
}

void Blueprint::list_inputs_done() {
  std::vector<std::vector<int32_t>> done(program->tasks.size());
  for (int32_t i = 0; i < count(program->inputs) && !has_strands(); ++i) {
    const program::Input& input = program->inputs[i];
    if (input.buffer == kNone || input.mutated) continue;
    const program::Buffer& buffer = program->buffers[input.buffer];
    const bool is_returned = std::ranges::any_of(program->outputs, [&](const program::Output& output) {
      return output.input == i ||
             (output.kind == program::Output::Kind::kTensor && output.tensor.buffer == input.buffer);
    });
    if (buffer.cls == BufferClass::kInput && !buffer.opaque && buffer.last_task != kNone && !is_returned)
      done[buffer.last_task].push_back(i);
  }
  inputs_done_after_task = IndexLists(done);
}

void Blueprint::plan_outputs() {
  std::vector<bool> seen(program->buffers.size(), false);
  for (auto output = outputs.rbegin(); output != outputs.rend(); ++output) {
    if (output->window == kNone) continue;
    const int32_t buffer = windows[output->window].operand->buffer;
    output->last_of_buffer = !seen[buffer];
    output->whole = is_whole(output->window);
    seen[buffer] = true;
  }
}

bool Blueprint::is_whole(int32_t window) const {
  const program::Operand& operand = *windows[window].operand;
  const program::Buffer& buffer = program->buffers[operand.buffer];
  if (buffer.opaque) return true;
  const auto same = [&](const auto& all) {
    return operand.dtype == all.dtype && operand.sizes == all.sizes && operand.strides == all.strides;
  };
  switch (buffer.cls) {
    case BufferClass::kInput:
    case BufferClass::kParameter: return operand.byte_offset == program::Dim{} && same(program->inputs[buffer.source]);
    case BufferClass::kHeap: {
      if (buffer.preallocated) return false;
      const program::Operand& made = *windows[windows_of_buffer[operand.buffer].front()].operand;
      return operand.byte_offset == made.byte_offset && same(made);
    }
    default: return false;
  }
}

}  // namespace npugraph::runtime
