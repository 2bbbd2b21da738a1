// SPDX-License-Identifier: Apache-2.0
#include "device/capture/capture.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/Operators.h>

#include "backend/bridge/dispatch.h"
#include "base/error.h"
#include "device/capture/compiled_call.h"
#include "device/capture/overwritten.h"
#include "device/capture/task_group.h"
#include "device/npu/call_record.h"
#include "device/npu/generator.h"
#include "device/npu/operators.h"
#include "device/npu/tensor.h"

namespace npugraph::capture {

namespace {

bool is_mask(const c10::IValue& indices) {
  bool found = false;
  for_each_tensor(indices, [&](const at::Tensor& tensor) {
    found |= tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte;
  });
  return found;
}

// Whether the host must read results of the operator before it can go on. Numbers that are returned beside tensors,
// such as a seed, are known at the launch.
bool is_read_by_host(const c10::OperatorHandle& op, std::span<const c10::IValue> args) {
  const c10::FunctionSchema& schema = op.schema();
  if (op.hasTag(at::Tag::data_dependent_output)) return true;
  const auto is_number = [](const c10::Argument& result) {
    const c10::TypeKind kind = result.type()->kind();
    return kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType || kind == c10::TypeKind::BoolType ||
           kind == c10::TypeKind::NumberType;
  };
  if (!schema.returns().empty() && std::ranges::all_of(schema.returns(), is_number)) return true;
  if (!op.hasTag(at::Tag::dynamic_output_shape)) return false;
  // The size of the result of these two is known, except for masks, or without output_size.
  if (schema.name() == at::_ops::index_Tensor::name) return is_mask(args[1]);
  if (schema.name() == at::_ops::repeat_interleave_Tensor::name) return args.back().isNone();
  return true;
}

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

bool is_copy_to_itself(const c10::FunctionSchema& schema, std::span<const c10::IValue> args) {
  if (schema.name() != at::_ops::copy_::name) return false;
  const at::Tensor& to = args[0].toTensor();
  const at::Tensor& from = args[1].toTensor();
  return storage_of(to) == storage_of(from) && to.storage_offset() == from.storage_offset() &&
         to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() && to.strides() == from.strides() &&
         to.is_neg() == from.is_neg() && to.is_conj() == from.is_conj();
}

// Whether the call wrote an argument or made new memory. Views do not.
bool is_launch(const c10::OperatorHandle& op, std::span<const c10::IValue> args, std::span<const c10::IValue> results) {
  const c10::FunctionSchema& schema = op.schema();
  if (op.hasTag(at::Tag::inplace_view) || is_copy_to_itself(schema, args)) return false;
  for (size_t i = 0; i < args.size(); ++i)
    if (is_written(schema, i)) return true;
  std::vector<const c10::StorageImpl*> given;
  for (const c10::IValue& value : args)
    for_each_tensor(value, [&](const at::Tensor& tensor) { given.push_back(storage_of(tensor)); });
  bool is_new = results.empty();
  for (const c10::IValue& value : results) {
    for_each_tensor(value,
                    [&](const at::Tensor& tensor) { is_new |= std::ranges::count(given, storage_of(tensor)) == 0; });
  }
  return is_new;
}

// The results of an operator that returns only arguments that it writes; their
// sizes are known without running it. Else nullopt.
std::optional<std::vector<c10::IValue>> written_arguments(const c10::FunctionSchema& schema,
                                                          std::span<const c10::IValue> args) {
  std::vector<c10::IValue> results;
  for (size_t i = 0; i < args.size(); ++i)
    if (is_written(schema, i))
      for_each_tensor(args[i], [&](const at::Tensor& tensor) { results.emplace_back(tensor); });
  if (schema.returns().empty()) return results.empty() ? std::nullopt : std::make_optional(std::vector<c10::IValue>{});
  if (results.size() != schema.returns().size()) return std::nullopt;
  return results;
}

void check_arguments(const c10::OperatorHandle& op, std::span<const c10::IValue> args, c10::Stream stream) {
  // Copies between host and device are checked earlier. Operators from outside of torch read lengths and the like from
  // host tensors at the launch.
  if (op.schema().name() == at::_ops::copy_::name || !op.schema().name().starts_with("aten::")) return;
  for (const c10::IValue& value : args) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (tensor.device().is_cpu() && tensor.dim() != 0) check_host_may_wait(op.schema().name().c_str(), stream);
    });
  }
}

// Whether the operator must come after a begun collective.
bool precedes(const BegunCollective& begun, const c10::OperatorHandle& op, std::span<const c10::IValue> args) {
  const c10::FunctionSchema& schema = op.schema();
  const auto is_view = [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  };
  if (op.hasTag(at::Tag::inplace_view) || std::ranges::any_of(schema.returns(), is_view)) return false;
  bool found = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool writes = is_written(schema, i);
    for_each_tensor(args[i], [&](const at::Tensor& tensor) { found |= begun.precedes(tensor, writes); });
  }
  return found;
}

}  // namespace

Capture::Capture(c10::Stream origin, ErrorMode mode, Purpose purpose)
    : origin_(origin), mode_(mode), purpose_(purpose), is_direct_(purpose == Purpose::kUpdate) {}

RecordedStep& Capture::open_step() {
  auto& steps = recording_.steps;
  if (steps.empty() || steps.back().kind != RecordedStep::Kind::kLaunches || steps.back().group != group_)
    steps.push_back({.kind = RecordedStep::Kind::kLaunches, .launches = {}, .group = group_, .call = {}, .event = {}});
  return steps.back();
}

void Capture::note_launch(std::string name, c10::Stream stream) {
  Launch launch{std::move(name), stream, {}};
  Progress& noted = noted_[stream];
  for (const auto& [other, launches] : seen_[stream]) {
    if (other == stream || launches <= noted[other]) continue;
    noted[other] = launches;
    launch.waits.push_back(numbers_[other][static_cast<size_t>(launches) - 1]);
  }
  std::ranges::sort(launch.waits);
  ++seen_[stream][stream];
  numbers_[stream].push_back(static_cast<int64_t>(recording_.launched.size()));
  recording_.launched.push_back(std::move(launch));
}

void Capture::launch(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::Stream stream,
                     c10::function_ref<void()> run) {
  const c10::FunctionSchema& schema = op.schema();
  const auto count = static_cast<std::ptrdiff_t>(schema.arguments().size());
  const std::vector<c10::IValue> args(stack.end() - count, stack.end());
  if (is_read_by_host(op, args)) check_host_may_wait(schema.name().c_str(), stream);
  check_arguments(op, args, stream);
  await_begun([&](const BegunCollective& begun) { return precedes(begun, op, args); });
  const bridge::BelowAutograd below;
  // The memory of a graph may be in use while an update replaces a part of it, so
  // operators whose results are known do not run.
  if (const auto written = purpose_ == Purpose::kUpdate ? written_arguments(schema, args) : std::nullopt) {
    torch::jit::drop(stack, args.size());
    stack.insert(stack.end(), written->begin(), written->end());
    if (!is_launch(op, args, *written)) return;
    const std::lock_guard lock(mutex_);
    if (is_direct_ && is_repeatable(args)) return recording_.direct.push_back({op, args, *written});
    describe_direct_calls();
    return describe(op, args, *written, stream);
  }
  std::vector<const c10::StorageImpl*> by_rows;
  {
    const std::lock_guard lock(mutex_);
    describe_direct_calls();
    open_step();
    by_rows = save_written(op, args);
    save_generators(args);
  }
  {
    const Inside inside;
    const npu::Captured captured;
    const auto save = [&](const at::Tensor& into, const Places& places) {
      if (std::ranges::count(by_rows, storage_of(into)) == 0) return;
      const std::lock_guard lock(mutex_);
      recording_.memory.save_rows(into, places);
    };
    const npu::HearRowWrites hear(save);
    run();
  }
  const std::span<const c10::IValue> results(stack.end() - static_cast<std::ptrdiff_t>(schema.returns().size()),
                                             stack.end());
  if (!is_launch(op, args, results)) return;
  const std::lock_guard lock(mutex_);
  describe(op, args, results, stream);
}

void Capture::describe(const c10::OperatorHandle& op, std::span<const c10::IValue> args,
                       std::span<const c10::IValue> results, c10::Stream stream) {
  RecordedStep& step = open_step();
  const auto number = static_cast<int32_t>(recording_.steps.size()) - 1;
  step.launches.push_back(describe_launch(op, args, results, recording_.memory, number));
  note_launch(step.launches.back().task.name, stream);
}

void Capture::describe_direct_calls() {
  is_direct_ = false;
  for (const DirectCall& call : std::exchange(recording_.direct, {}))
    describe(call.op, call.args, call.results, origin_);
}

void Capture::launch(std::shared_ptr<CompiledCall> call, at::ArrayRef<at::Tensor> written, c10::Stream stream,
                     c10::function_ref<void()> run) {
  await_begun([&](const BegunCollective& begun) {
    return std::ranges::any_of(call->inputs(), [&](const at::Tensor& tensor) {
      return tensor.defined() && begun.precedes(tensor, /*writes=*/true);
    });
  });
  {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!group_ && purpose_ == Purpose::kGraph, "a compiled graph cannot be part of a task group");
    const auto step = static_cast<int32_t>(recording_.steps.size());
    for (const at::Tensor& tensor : call->inputs())
      if (tensor.defined()) recording_.memory.argument(tensor, step);
    for (const at::Tensor& tensor : written) recording_.memory.save(tensor, step);
    save_generators({});
    recording_.steps.push_back(
        {.kind = RecordedStep::Kind::kCall, .launches = {}, .group = {}, .call = call, .event = {}});
    note_launch("compiled graph", stream);
  }
  const Inside inside;
  const npu::Captured captured;
  run();
}

void Capture::launch(std::shared_ptr<CollectiveCall> call, Tensors inputs, Tensors outputs, c10::Stream stream,
                     c10::function_ref<WorkPtr()> run) {
  {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!group_ && purpose_ == Purpose::kGraph, call->name(), ": a collective cannot be part of a task group");
    open_step();
    const auto step = static_cast<int32_t>(recording_.steps.size()) - 1;
    for (const at::Tensor& tensor : outputs) recording_.memory.save(tensor, step);
  }
  WorkPtr work;
  {
    const Inside inside;
    work = run();
  }
  {
    const std::lock_guard lock(mutex_);
    RecordedStep& step = open_step();
    const auto number = static_cast<int32_t>(recording_.steps.size()) - 1;
    BegunCollective begun{call, std::move(work), std::move(inputs), std::move(outputs)};
    step.launches.push_back(describe_collective(call->name(), begun, recording_.memory, number));
    recording_.collectives.push_back(call);
    begun_.push_back(std::move(begun));
    note_launch(call->name(), stream);
  }
  call->set_begun(mark(stream));
}

void Capture::await(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(begun_, &call, [](const BegunCollective& begun) { return begun.call.get(); });
  if (at == begun_.end()) return;
  RecordedStep& step = open_step();
  const auto number = static_cast<int32_t>(recording_.steps.size()) - 1;
  step.launches.push_back(describe_collective(std::string(program::kWaitTask), *at, recording_.memory, number));
  begun_.erase(at);
}

void Capture::await_begun(c10::function_ref<bool(const BegunCollective&)> which) {
  std::vector<BegunCollective> awaited;
  {
    const std::lock_guard lock(mutex_);
    for (const BegunCollective& begun : begun_)
      if (which(begun)) awaited.push_back(begun);
  }
  for (const BegunCollective& begun : awaited) {
    begun.work->wait();
    await(*begun.call);
  }
}

std::vector<const c10::StorageImpl*> Capture::save_written(const c10::OperatorHandle& op,
                                                           std::span<const c10::IValue> args) {
  const c10::FunctionSchema& schema = op.schema();
  const auto step = static_cast<int32_t>(recording_.steps.size()) - 1;
  std::vector<const c10::StorageImpl*> by_rows;
  const auto save = [&](const at::Tensor& tensor, const c10::Argument& argument) {
    if (!recording_.memory.is_outside(tensor, step)) return;
    if (npu::is_npu(tensor) && npu::writes_rows_of(op, argument.name()))
      by_rows.push_back(storage_of(npu::cpu_alias(tensor)));
    else if (!saved_by_places(op, args, tensor))
      recording_.memory.save(tensor, step, argument.is_out() && schema.name().starts_with("aten::"));
  };
  for (size_t i = 0; i < args.size(); ++i) {
    if (!is_written(schema, i)) continue;
    for_each_tensor(args[i], [&](const at::Tensor& tensor) { save(tensor, schema.arguments()[i]); });
  }
  return by_rows;
}

// Errors about invalid places are left to the operator itself.
bool Capture::saved_by_places(const c10::OperatorHandle& op, std::span<const c10::IValue> args,
                              const at::Tensor& written) {
  try {
    const auto places = written_places(op, args);
    if (!places) return false;
    recording_.memory.save_rows(npu::is_npu(written) ? npu::cpu_alias(written) : written, *places);
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

void Capture::save_generators(std::span<const c10::IValue> args) {
  generators_.save(npu::default_generator(origin_.device_index()));
  for (const c10::IValue& value : args)
    if (value.isGenerator()) generators_.save(value.toGenerator());
}

Progress Capture::progress(c10::Stream stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = seen_.find(stream);
  return found == seen_.end() ? Progress{} : found->second;
}

void Capture::join(c10::Stream stream, const Progress& seen) {
  const std::lock_guard lock(mutex_);
  Progress& own = seen_[stream];
  for (const auto& [other, launches] : seen) own[other] = std::max(own[other], launches);
}

void Capture::add_event(RecordedStep::Kind kind, std::shared_ptr<ExternalEvent> event) {
  if (kind == RecordedStep::Kind::kRecord) await_begun([](const BegunCollective&) { return true; });
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!group_, "an ExternalEvent cannot be part of a task group");
  TORCH_CHECK(purpose_ == Purpose::kGraph, "an ExternalEvent cannot be part of the update of a task group");
  recording_.steps.push_back({.kind = kind, .launches = {}, .group = {}, .call = {}, .event = std::move(event)});
}

void Capture::begin_group() {
  await_begun([](const BegunCollective&) { return true; });  // an update would lose the wait
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(purpose_ == Purpose::kGraph, "graph_task_group_begin: the stream updates a task group");
  TORCH_CHECK(!group_, "graph_task_group_begin: a task group is already open, and they do not nest");
  group_ = std::make_shared<TaskGroup>();
}

std::shared_ptr<TaskGroup> Capture::end_group() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(group_, "graph_task_group_end: no task group is open");
  open_step();  // a group may be empty
  return std::exchange(group_, nullptr);
}

void Capture::undo() {
  begun_.clear();
  recording_.memory.restore();
  generators_.undo();
}

void Capture::check_joined() const {
  const auto joined = seen_.find(origin_);
  for (const auto& [stream, seen] : seen_) {
    if (stream == origin_ || seen.count(stream) == 0) continue;
    const bool is_joined =
        joined != seen_.end() && joined->second.count(stream) != 0 && joined->second.at(stream) >= seen.at(stream);
    TORCH_CHECK(is_joined, "the capture cannot end: stream ", stream.id(), " of ", stream.device(),
                " has work that the captured stream has not waited for; stream.wait_stream() joins it");
  }
}

std::exception_ptr Capture::end_begun() {
  {
    const std::lock_guard lock(mutex_);
    if (group_) return nullptr;  // other ranks may never begin theirs
  }
  try {
    await_begun([](const BegunCollective&) { return true; });
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

Recording Capture::finish() {
  const std::exception_ptr failed = end_begun();
  const std::lock_guard lock(mutex_);
  const bridge::BelowAutograd below;
  undo();
  TORCH_CHECK(!group_, "the capture cannot end: a task group is open");
  check_joined();
  if (failed) std::rethrow_exception(failed);
  recording_.memory.resolve();
  recording_.starts = generators_.take_starts();
  return std::move(recording_);
}

void Capture::abandon() {
  const std::lock_guard lock(mutex_);
  const bridge::BelowAutograd below;
  undo();
}

}  // namespace npugraph::capture
