// SPDX-License-Identifier: Apache-2.0
#include "runtime/instance/instance.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "program/call_symbols.h"
#include "program/offsets.h"
#include "runtime/memory/red_zones.h"
#include "runtime/task_error.h"
#include "runtime/watch/ledger.h"
#include "tensor/shape.h"

namespace npugraph::runtime {

using program::BufferClass;
using program::kNone;

namespace {

std::vector<bool> written_inputs(const program::Program& program) {
  std::vector<bool> written;
  for (const auto& input : program.inputs) {
    if (input.buffer != kNone) written.push_back(input.mutated);
  }
  return written;
}

int64_t arena_aligned(int64_t bytes) {
  return (bytes + program::kArenaAlignment - 1) / program::kArenaAlignment * program::kArenaAlignment;
}

void* advance(void* base, int64_t bytes) { return base == nullptr ? nullptr : static_cast<std::byte*>(base) + bytes; }

}  // namespace

Instance::Instance(const Blueprint& blueprint, std::span<const ng_task> tasks, Host& host, Lease& lease,
                   std::vector<Scalar> symbols, const StagingRule& staging, const Specialise& specialise)
    : blueprint_(blueprint),
      tasks_(tasks.begin(), tasks.end()),
      host_(host),
      sizes_(blueprint, std::move(symbols)),
      constants_(lease.constants),
      red_zone_(red_zones() ? RedZones::kBytes : 0),
      overlap_(written_inputs(*blueprint.program)) {
  if (blueprint.has_strands()) lease.serve_strands(blueprint.num_strands);
  make_blocks(lease);
  sizes_.evaluate(0);
  measure_inputs();
  plan_staging(staging);
  place_constants();
  try {
    if (specialise) specialise_tasks(specialise);
    bind_epoch(0);
    plan_arena(lease.solver);
  } catch (...) {
    unbind_tasks();
    throw;
  }
  epochs_bound_ = 1;
  captures = 1;
}

Instance::~Instance() {
  unbind_tasks();
  for (Staged& staged : staged_) drop_first(staged);
}

void Instance::unbind_tasks() {
  for (size_t t = 0; t < tasks_.size(); ++t) {
    if (steps_[t].state != nullptr) tasks_[t].unbind(tasks_[t].context, steps_[t].state);
  }
  for (const int32_t t : own_tasks_) {
    if (tasks_[t].destroy != nullptr) tasks_[t].destroy(tasks_[t].context);
  }
}

void Instance::specialise_tasks(const Specialise& specialise) {
  for (const int32_t t : blueprint_.epochs[0].tasks) {
    const program::Task& task = blueprint_.program->tasks[t];
    if (task.scalars.empty()) continue;
    const std::optional<ng_task> made = specialise(task, evaluate_scalars(t));
    if (!made) continue;
    own_tasks_.push_back(t);
    tasks_[t] = *made;
    steps_[t].run = made->run;
    steps_[t].context = made->context;
  }
}

void Instance::make_blocks(const Lease& lease) {
  const program::Program& program = *blueprint_.program;
  buffers_.resize(blueprint_.windows.size());
  for (size_t w = 0; w < buffers_.size(); ++w) {
    const Window& window = blueprint_.windows[w];
    buffers_[w] = {nullptr,
                   nullptr,
                   sizes_.at(window.sizes),
                   sizes_.at(window.strides),
                   static_cast<int32_t>(window.operand->sizes.size()),
                   static_cast<int32_t>(window.operand->dtype),
                   0,
                   0};
  }
  scalars_.resize(blueprint_.first_scalar.back());
  defined_.resize(blueprint_.first_defined.back());
  calls_.resize(program.tasks.size());
  steps_.resize(program.tasks.size());
  bound_at_.resize(program.tasks.size());
  workspace_.resize(program.tasks.size());
  bases_.resize(program.buffers.size());
  objects_.resize(program.buffers.size());
  for (size_t t = 0; t < calls_.size(); ++t) {
    const program::Task& task = program.tasks[t];
    calls_[t] = {
        .buffers = buffers_.data() + blueprint_.first_window[t],
        .scalars = scalars_.data() + blueprint_.first_scalar[t],
        .defined = defined_.data() + blueprint_.first_defined[t],
        .workspace = nullptr,
        .host = blueprint_.has_strands() ? &lease.strand_services[blueprint_.strand_of_task[t]] : &lease.service,
        .num_buffers = static_cast<uint32_t>(task.operands.size()),
        .num_scalars = static_cast<uint32_t>(task.scalars.size()),
        .num_defined = static_cast<uint32_t>(task.defines.size()),
        .abi_version = NG_TASK_ABI_VERSION};
    steps_[t] = {.run = tasks_[t].run,
                 .context = tasks_[t].context,
                 .state = nullptr,
                 .call = &calls_[t],
                 .prepares = !blueprint_.allocated_by_task[t].empty() || !blueprint_.adopted_by_task[t].empty(),
                 .finishes = !blueprint_.adopted_by_task[t].empty() || !task.releases.empty() ||
                             !blueprint_.inputs_done_after_task[t].empty(),
                 .hosts = program::has(task.kind, program::KindTrait::kOfHost)};
  }
}

void Instance::measure_inputs() {
  const program::Program& program = *blueprint_.program;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  for (int32_t i = 0; i < static_cast<int32_t>(program.inputs.size()); ++i) {
    const program::Input& input = program.inputs[i];
    if (input.buffer == kNone) continue;
    sizes.clear();
    strides.clear();
    for (const auto& size : input.sizes) sizes.push_back(sizes_.value(size).as_int());
    for (const auto& stride : input.strides) strides.push_back(sizes_.value(stride).as_int());
    if (!program.buffers[input.buffer].opaque) note_given_dims(i, sizes, strides);
    const bool is_memory = !program.buffers[input.buffer].opaque && !blueprint_.windows_of_buffer[input.buffer].empty();
    const int64_t bytes = !is_memory ? 0 : extent_bytes(sizes, strides, input.dtype);
    inputs_.push_back({.input = i, .buffer = input.buffer, .bytes = bytes, .reach = bytes});
    if (input.storage_offset) {
      places_.push_back({i, sizes_.value(*input.storage_offset).as_int()});
      inputs_.back().offset = places_.back().storage_offset * size_of(input.dtype);
      inputs_.back().named = true;
    }
    input_bytes_ += bytes;
  }
  measure_windows_of_inputs();
  bound_.resize(inputs_.size());
  moved_.resize(inputs_.size() + 1);
}

// A stride does not count where no element follows it.
void Instance::note_given_dims(int32_t i, std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  const program::Input& input = blueprint_.program->inputs[i];
  const bool is_empty = std::ranges::find(sizes, 0) != sizes.end();
  const auto rank = static_cast<int32_t>(sizes.size());
  // Sizes first: strides that do not fit follow from them.
  for (int32_t d = 0; d < rank; ++d) {
    if (!input.sizes[d].is_constant()) given_dims_.push_back({i, d, false, sizes[d]});
  }
  for (int32_t d = 0; d < rank; ++d) {
    const bool counts = !is_empty && sizes[d] > 1;
    if (counts && !input.strides[d].is_constant()) given_dims_.push_back({i, d, true, strides[d]});
  }
}

void Instance::check_dims(std::span<const BoundInput> inputs) const {
  for (const GivenDim& wanted : given_dims_) {
    const BoundInput& input = inputs[wanted.input];
    const int64_t* given = wanted.is_stride ? input.strides : input.sizes;
    if (given != nullptr && given[wanted.dim] != wanted.value) [[unlikely]]
      refuse_dims(wanted, input);
  }
}

void Instance::refuse_dims(const GivenDim& dim, const BoundInput& input) const {
  const program::Input& declared = blueprint_.program->inputs[dim.input];
  const auto& wanted = dim.is_stride ? declared.strides : declared.sizes;
  const std::span given(dim.is_stride ? input.strides : input.sizes, wanted.size());
  const std::string key = key_text(blueprint_, sizes_.symbols());
  throw InputError(cat(program::input_name(*blueprint_.program, dim.input), " has ",
                       dim.is_stride ? "strides " : "sizes ", program::shape_text("", given),
                       "; the graph was compiled for ", program::shape_text(*blueprint_.program, "", wanted), " with ",
                       key));
}

void Instance::measure_windows_of_inputs() {
  const program::Program& program = *blueprint_.program;
  input_of_buffer_.assign(program.buffers.size(), kNone);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (program.buffers[inputs_[i].buffer].opaque) continue;
    input_of_buffer_[inputs_[i].buffer] = static_cast<int32_t>(i);
  }
  for (const int32_t w : blueprint_.epochs[0].windows) {
    if (input_of_buffer_[blueprint_.windows[w].operand->buffer] != kNone) measure_window(w);
  }
}

void Instance::measure_window(int32_t w) {
  const program::Operand& operand = *blueprint_.windows[w].operand;
  const int64_t extent = extent_bytes(sizes_.sizes(w), sizes_.strides(w), operand.dtype);
  if (extent == 0) return;
  TensorInput& input = inputs_[input_of_buffer_[operand.buffer]];
  int64_t end = 0;
  if (__builtin_add_overflow(sizes_.offset(w), extent, &end))
    throw UserError("the end of a window does not fit 64 bits");
  input.before = std::max(input.before, -sizes_.offset(w));
  input.reach = std::max(input.reach, end);
  const program::Input& declared = blueprint_.program->inputs[input.input];
  if (input.before > input.offset) {
    throw UserError(cat("a window of input ", input.input, " (", declared.source, ") begins before its memory"));
  }
}

// Checks a window of an input that became known while the tasks run.
void Instance::check_late_window(int32_t w) const {
  const program::Operand& operand = *blueprint_.windows[w].operand;
  const int32_t i = input_of_buffer_[operand.buffer];
  const int64_t extent = i == kNone ? 0 : extent_bytes(sizes_.sizes(w), sizes_.strides(w), operand.dtype);
  if (extent == 0) return;
  const program::Input& declared = blueprint_.program->inputs[inputs_[i].input];
  if (sizes_.offset(w) < -inputs_[i].offset || sizes_.offset(w) > bound_[i].capacity - extent) {
    throw TaskError(cat("a window of input ", inputs_[i].input, " (", declared.source, ") leaves its memory"));
  }
}

void Instance::place_constants() {
  const program::Program& program = *blueprint_.program;
  zoned_constants_.clear();
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const program::Buffer& buffer = program.buffers[b];
    if (buffer.cls != BufferClass::kConstant) continue;
    const program::Constant& constant = program.constants[buffer.source];
    void* object = buffer.opaque ? host_.constant_object(constant) : nullptr;
    auto* data = const_cast<void*>(constants_.data(buffer.source));  // no task writes a constant
    if (has_red_zones() && !buffer.opaque && constant.bytes > 0) {
      constexpr int64_t kUnit = program::kArenaAlignment;
      zoned_constants_.push_back(std::make_unique<std::byte[]>(constant.bytes + 2 * red_zone_ + kUnit));
      const auto begin = reinterpret_cast<uintptr_t>(zoned_constants_.back().get()) + red_zone_;
      data = std::memcpy(reinterpret_cast<void*>((begin + kUnit - 1) / kUnit * kUnit), data, constant.bytes);
    }
    place_buffer(static_cast<int32_t>(b), data, object);
  }
  constants_generation_ = constants_.generation();
}

// The lifetimes are the same for all Instances, so those of a lease share its solver.
void Instance::plan_arena(std::optional<program::ArenaSolver>& solver) {
  std::vector<program::Lifetime> lives;
  std::vector<int64_t> bytes;
  for (const int32_t b : blueprint_.arena_buffers) {
    lives.push_back(blueprint_.steps.of_buffer[b]);
    bytes.push_back(sizes_.bytes(b));
  }
  std::vector<int32_t> arena_buffers = blueprint_.arena_buffers;
  for (const Staged& staged : std::span(staged_).first(over_first_ ? 0 : staged_.size())) {
    const int32_t b = arena_buffers.emplace_back(inputs_[staged.input].buffer);
    lives.push_back({0, blueprint_.steps.of_task[blueprint_.program->buffers[b].last_task].last});
    bytes.push_back(inputs_[staged.input].bytes);
  }
  live_bytes_ = program::most_alive(lives, bytes);
  for (const int32_t t : blueprint_.epochs[0].tasks) {
    if (tasks_[t].workspace == nullptr) continue;
    lives.push_back(blueprint_.steps.of_task[t]);
    bytes.push_back(workspace_[t]);
    workspace_offsets_.emplace_back(t, 0);
  }
  if (blueprint_.has_strands()) {
    plan_arena_of_strands(arena_buffers, bytes);
    return plan_red_zones(bytes);
  }
  if (!solver) solver.emplace(lives);
  const program::Placement placement = solver->place(bytes);
  auto next = placement.offsets.begin();
  for (const int32_t b : arena_buffers) arena_offsets_.emplace_back(b, *next++);
  for (auto& [task, offset] : workspace_offsets_) offset = *next++;
  arena_bytes_ = placement.arena_bytes;
  lower_bound_bytes_ = placement.lower_bound_bytes;
  plan_red_zones(bytes);
}

// Makes a second placement with room for red zones, for whole tasks in the order of the program. `bytes` are the sizes
// of the buffers in arena_offsets_, then of the workspaces.
void Instance::plan_red_zones(std::span<const int64_t> bytes) {
  if (!has_red_zones()) return;
  std::vector<program::Lifetime> lives;
  std::vector<int64_t> zoned;
  for (const int64_t size : bytes) zoned.push_back(size > 0 ? arena_aligned(size) + 2 * red_zone_ : 0);
  for (const auto& [b, offset] : arena_offsets_) {
    const program::Buffer& buffer = blueprint_.program->buffers[b];
    lives.push_back({buffer.cls == BufferClass::kArena ? buffer.first_task : 0, buffer.last_task});
  }
  for (const auto& [task, offset] : workspace_offsets_) lives.push_back({task, task});
  const program::Placement placement = program::ArenaSolver(lives).place(zoned);
  for (const int64_t offset : placement.offsets) zoned_offsets_.push_back(offset + red_zone_);
  zoned_bytes_ = placement.arena_bytes + 2 * red_zone_;
}

// Each strand has a part of the arena for the buffers that its tasks make, placed for the order of its tasks; the last
// part is for inputs that are staged before any strand runs. `buffers` are the Blueprint's arena buffers, then the
// staged inputs. `bytes` are the sizes of these buffers, then of the workspaces.
void Instance::plan_arena_of_strands(std::span<const int32_t> buffers, std::span<const int64_t> bytes) {
  const size_t num_planned = blueprint_.arena_buffers.size();
  for (const int32_t b : buffers) arena_offsets_.emplace_back(b, 0);
  for (int32_t strand = 0; strand <= blueprint_.num_strands; ++strand) {
    std::vector<program::Lifetime> lives;
    std::vector<int64_t> bytes_of_strand;
    std::vector<int64_t*> places;
    const auto add = [&](size_t i, program::Lifetime life, int64_t& place) {
      lives.push_back(life);
      bytes_of_strand.push_back(bytes[i]);
      places.push_back(&place);
    };
    for (size_t i = 0; i < num_planned; ++i) {
      if (blueprint_.strand_of_arena_buffer[i] != strand) continue;
      const program::Buffer& buffer = blueprint_.program->buffers[buffers[i]];
      add(i, {buffer.first_task, blueprint_.last_in_strand[i]}, arena_offsets_[i].second);
    }
    const auto end = static_cast<int32_t>(blueprint_.program->tasks.size());
    for (size_t i = num_planned; strand == blueprint_.num_strands && i < buffers.size(); ++i)
      add(i, {0, end}, arena_offsets_[i].second);
    for (size_t i = 0; i < workspace_offsets_.size(); ++i) {
      auto& [task, place] = workspace_offsets_[i];
      if (blueprint_.strand_of_task[task] == strand) add(buffers.size() + i, {task, task}, place);
    }
    const program::Placement placement = program::ArenaSolver(lives).place(bytes_of_strand);
    for (size_t i = 0; i < places.size(); ++i) *places[i] = arena_bytes_ + placement.offsets[i];
    arena_bytes_ += placement.arena_bytes;
    lower_bound_bytes_ += placement.lower_bound_bytes;
  }
}

void Instance::add_places(std::vector<BufferLife>& lives) const {
  std::unordered_map<int32_t, int64_t> offsets(arena_offsets_.begin(), arena_offsets_.end());
  for (BufferLife& life : lives) {
    if (const auto at = offsets.find(*life.buffer); at != offsets.end()) life.offset = at->second;
  }
  for (const auto& [task, offset] : workspace_offsets_) {
    if (workspace_[task] == 0) continue;
    lives.push_back({.buffer = std::nullopt, .bytes = workspace_[task], .first = task, .last = task, .offset = offset});
  }
}

bool Instance::refresh(std::span<const int64_t> bits) {
  if (!sizes_.refresh(bits) && !refresh_failed_) return false;
  refresh_failed_ = true;
  sizes_.evaluate(0);
  bind_epoch(0);
  refresh_failed_ = false;
  return true;
}

void Instance::bind_epoch(size_t epoch) {
  for (const int32_t t : blueprint_.epochs[epoch].tasks) {
    const auto changed = [&](int32_t e) { return sizes_.changed_at(e) > bound_at_[t]; };
    if (bound_at_[t] == 0 || std::ranges::any_of(blueprint_.exprs_of_task[t], changed)) bind_task(t);
  }
  if (epoch == 0) return;  // their workspaces lie in the arena
  if (blueprint_.has_strands()) scratch_bytes_ = place_in_scratch(nullptr);
  for (const int32_t t : blueprint_.epochs[epoch].tasks) scratch_bytes_ = std::max(scratch_bytes_, workspace_[t]);
}

std::span<const ng_scalar> Instance::evaluate_scalars(int32_t t) {
  const std::span scalars = std::span(scalars_).subspan(blueprint_.first_scalar[t]);
  const std::vector<int32_t>& exprs = blueprint_.program->tasks[t].scalars;
  for (size_t i = 0; i < exprs.size(); ++i) {
    const Scalar value = sizes_.value(exprs[i]);
    if (value.kind == ScalarKind::kFloat) {
      scalars[i].f = value.f;
    } else {
      scalars[i].i = value.i;
    }
  }
  return scalars.first(exprs.size());
}

void Instance::bind_task(int32_t t) {
  const program::Task& task = blueprint_.program->tasks[t];
  for (int32_t w = blueprint_.first_window[t]; w < blueprint_.first_window[t + 1]; ++w) {
    const bool dies = blueprint_.windows[w].dies && sizes_.offset(w) % program::kArenaAlignment == 0;
    buffers_[w].flags = dies ? NG_BUFFER_DIES : 0;
  }
  evaluate_scalars(t);
  ng_call call = calls_[t];
  call.host = nullptr;
  const ng_task& functions = tasks_[t];
  const auto refuse = [&] {
    throw TaskError(cat(task.name, " cannot be bound to these sizes: ", key_text(blueprint_, sizes_.symbols())), t);
  };
  bound_at_[t] = 0;
  const int64_t planned = workspace_[t];
  try {
    if (functions.bind && functions.bind(functions.context, &call, &steps_[t].state) != NG_OK) refuse();
  } catch (const InternalError& error) {
    const std::string key = key_text(blueprint_, sizes_.symbols());
    throw met_at(cat("task ", t, " (", task.name, task.source.empty() ? "" : " at ", task.source, ")",
                     key.empty() ? "" : " for ", key),
                 error);
  }
  workspace_[t] = functions.workspace ? functions.workspace(functions.context, &call) : 0;
  if (workspace_[t] < 0) refuse();
  NG_CHECK(!refresh_failed_ || workspace_[t] <= planned, task.name, " needs more memory for other numbers");
  bound_at_[t] = sizes_.now();
}

// Every call runs this loop, so it has no branches: each index is written, and kept by advancing `found`.
std::span<const int32_t> Instance::find_moved(std::span<const BoundInput> inputs) {
  int32_t* const moved = moved_.data();
  const TensorInput* const tensors = inputs_.data();
  const Address* const bound = bound_.data();
  const auto count = static_cast<int32_t>(inputs_.size());
  size_t found = 0;
  for (int32_t i = 0; i < count; ++i) {
    const BoundInput& input = inputs[tensors[i].input];
    moved[found] = i;
    found += (input.data != bound[i].data) | (input.object != bound[i].object) | (input.capacity < tensors[i].reach);
  }
  return std::span(moved_).first(found);
}

bool Instance::is_elsewhere(std::span<const BoundInput> inputs) const {
  return std::ranges::any_of(
      places_, [&](const Place& place) { return inputs[place.input].storage_offset != place.storage_offset; });
}

void Instance::check_memory(const TensorInput& tensor, const BoundInput& input) const {
  const program::Input& declared = blueprint_.program->inputs[tensor.input];
  if (input.capacity < tensor.bytes || (input.capacity < tensor.reach && !tensor.named)) {
    const int64_t start = input.storage_offset * size_of(declared.dtype);
    throw InputError(cat("input ", tensor.input, " (", declared.source, ") needs ", start + tensor.reach,
                         " bytes of memory; its storage has ", start + input.capacity));
  }
  if (input.data == nullptr && tensor.bytes > 0) {
    throw TaskError(
        cat("input ", tensor.input, " (", declared.source, ") has no memory: its storage was freed or resized to 0"));
  }
}

RunStatus Instance::bind_inputs(const BoundInputs& inputs) {
  if (inputs_checked_ && inputs.version != 0 && inputs.version == inputs_version_) return RunStatus::kOk;
  inputs_version_ = 0;  // until all have passed
  check_dims(inputs.all);
  const RunStatus status = bind_moved(inputs.all);
  if (status == RunStatus::kOk) inputs_version_ = inputs.version;
  return status;
}

RunStatus Instance::bind_moved(std::span<const BoundInput> inputs) {
  if (is_elsewhere(inputs)) return RunStatus::kInputElsewhere;
  std::span<const int32_t> moved;
  if (inputs_checked_) {
    moved = find_moved(inputs);
    if (moved.empty()) return RunStatus::kOk;
  } else {
    std::iota(moved_.begin(), moved_.end(), 0);
    moved = std::span(moved_).first(inputs_.size());
  }
  inputs_checked_ = false;
  for (const int32_t i : moved) {
    const TensorInput& tensor = inputs_[i];
    const BoundInput& input = inputs[tensor.input];
    check_memory(tensor, input);
    if (input.capacity < tensor.reach) return RunStatus::kInputElsewhere;
    if (bound_[i].data != nullptr && bound_[i].data != input.data) note_move(tensor);
    bound_[i] = {input.data, input.object, input.capacity};
    if (staged_of_[i] == kNone) place_buffer(tensor.buffer, input.data, input.object);
    overlap_.set(i, advance(input.data, -tensor.before), tensor.before + tensor.reach);
  }
  if (over_first_) follow_first(inputs);
  inputs_checked_ = !overlap_.overlaps(moved);
  return inputs_checked_ ? RunStatus::kOk : RunStatus::kInputsOverlap;
}

void Instance::note_move(const TensorInput& tensor) {
  if (blueprint_.program->inputs[tensor.input].mutated) {
    moved_inputs_.written = true;
  } else if (blueprint_.program->buffers[tensor.buffer].cls == BufferClass::kParameter) {
    moved_inputs_.parameters = true;
  }
}

void Instance::bind_memory(Arena& arena, Arena& scratch) {
  if (constants_.generation() != constants_generation_) place_constants();
  reserve(arena);
  if (arena.generation() != arena_generation_) {
    size_t next = 0;
    const auto place = [&](int64_t offset) {
      return arena.data() + (has_red_zones() ? zoned_offsets_[next++] : offset);
    };
    for (const auto& [buffer, offset] : arena_offsets_) place_buffer(buffer, place(offset), nullptr);
    for (const auto& [task, offset] : workspace_offsets_) {
      std::byte* workspace = place(offset);
      calls_[task].workspace = workspace_[task] > 0 ? workspace : nullptr;
    }
    arena_generation_ = arena.generation();
  }
  place_scratch(scratch);
}

// If the memory is missing, the error is one of the task that first touches the largest buffer.
void Instance::reserve(Arena& arena) const {
  try {
    arena.reserve(block_bytes());
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    const auto bytes = [&](const auto& placed) { return sizes_.bytes(placed.first); };
    const auto largest = std::ranges::max_element(arena_offsets_, {}, bytes);
    if (largest == arena_offsets_.end()) throw;
    const int32_t window = blueprint_.windows_of_buffer[largest->first].front();
    throw TaskError(cat(error.what(), "; the largest buffer has ", bytes(*largest), " bytes"),
                    blueprint_.windows[window].task);
  }
}

void Instance::place_scratch(Arena& scratch) {
  scratch.reserve(scratch_bytes_ > 0 ? scratch_bytes_ + 2 * red_zone_ : 0);
  if (scratch.generation() == scratch_generation_) return;
  place_in_scratch(scratch.data() == nullptr ? nullptr : scratch.data() + red_zone_);
  scratch_generation_ = scratch.generation();
}

// Places workspaces of later epochs one after the other if there are strands, else all at the same address. Returns the
// total size with strands, else 0.
int64_t Instance::place_in_scratch(std::byte* scratch) {
  int64_t offset = 0;
  for (const Epoch& late : std::span(blueprint_.epochs).subspan(1)) {
    for (const int32_t t : late.tasks) {
      const bool has_place = scratch != nullptr && workspace_[t] > 0;
      calls_[t].workspace = has_place ? scratch + offset : nullptr;
      if (blueprint_.has_strands()) offset += arena_aligned(workspace_[t]) + (workspace_[t] > 0 ? 2 * red_zone_ : 0);
    }
  }
  return offset;
}

bool Instance::enter_epoch(size_t epoch, Arena& scratch) {
  const auto& definer = blueprint_.program->segments[epoch - 1];
  const int32_t first = blueprint_.first_defined[definer - 1];
  const int32_t end = blueprint_.first_defined[definer];
  const bool changed = sizes_.define(epoch, std::span(defined_).subspan(first, end - first));
  if (!changed && epoch < epochs_bound_) return false;
  // Later epochs may depend on these symbols, too; and if anything below fails, this epoch is not bound.
  epochs_bound_ = epoch;
  sizes_.evaluate(epoch);
  for (const int32_t w : blueprint_.epochs[epoch].windows) {
    check_late_window(w);
    point(w);
  }
  bind_epoch(epoch);
  scratch_generation_ = 0;
  place_scratch(scratch);
  epochs_bound_ = epoch + 1;
  return true;
}

void Instance::place_buffer(int32_t buffer, void* base, void* object) {
  bases_[buffer] = base;
  objects_[buffer] = object;
  for (const int32_t w : blueprint_.windows_of_buffer[buffer]) point(w);
}

void Instance::point(int32_t w) {
  const int32_t buffer = blueprint_.windows[w].operand->buffer;
  buffers_[w].data = advance(bases_[buffer], sizes_.offset(w));
  buffers_[w].object = objects_[buffer];
}

}  // namespace npugraph::runtime
