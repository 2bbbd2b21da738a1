// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/nested_task.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>

#include "backend/bridge/convert.h"
#include "backend/bridge/declared.h"
#include "backend/bridge/dispatch.h"
#include "backend/bridge/run_result.h"
#include "backend/bridge/task_functions.h"
#include "base/error.h"
#include "runtime/observation.h"

namespace npugraph::bridge {

using program::Output;
using program::Symbol;

NestedRun::NestedRun(std::shared_ptr<runtime::Executable> executable)
    : executable_(std::move(executable)),
      program_(runtime::Observation(*executable_).program()),
      inputs_(program().inputs.size()),
      outputs_(program().outputs.size()),
      copies_(program().inputs.size()) {}

NestedRun::~NestedRun() { drop_results(); }

void NestedRun::drop_results() {
  for (runtime::BoundOutput& output : outputs_) {
    if (output.object != nullptr) take_object(output);
  }
}

void NestedRun::clear() noexcept {
  drop_results();
  std::ranges::fill(copies_, at::Tensor());
}

// The value of `dim` for the inputs of the current run.
int64_t NestedRun::size_of(const program::Dim& dim) const {
  if (dim.is_constant()) return dim.constant;
  return evaluate(program().exprs[dim.expr],
                  [&](const std::string& name) {
                    const auto& symbols = program().symbols;
                    const auto symbol = std::ranges::find(symbols, name, &Symbol::name);
                    NG_CHECK(symbol != symbols.end() && symbol->input != program::kNone, "an input's size names ",
                             name);
                    const NestedValue& value = given_[symbol->input];
                    if (symbol->dim != program::kNone) return Scalar::of_int(value.sizes[symbol->dim]);
                    return symbol->kind == ScalarKind::kFloat ? Scalar::of_float(value.scalar.f)
                                                              : Scalar::of_int(value.scalar.i);
                  })
      .as_int();
}

runtime::BoundInput NestedRun::bound(size_t number, const NestedValue& value) {
  const program::Input& input = program().inputs[number];
  if (input.buffer == program::kNone) return {.scalar = value.scalar};
  std::vector<int64_t> sizes, strides;
  for (const program::Dim& size : input.sizes) sizes.push_back(size_of(size));
  for (const program::Dim& stride : input.strides) strides.push_back(size_of(stride));
  if (value.sizes != at::IntArrayRef(sizes)) {
    throw UserError(cat("value ", number, " of ", program().name, " has sizes ", value.sizes, "; it was traced for ",
                        at::IntArrayRef(sizes)));
  }
  bool lies_so = true;
  for (size_t i = 0; i < sizes.size(); ++i) lies_so &= sizes[i] <= 1 || value.strides[i] == strides[i];
  copies_[number] = at::Tensor();
  if (lies_so || value.data == nullptr) return {.data = value.data, .sizes = value.sizes.data()};
  const auto options = at::TensorOptions().dtype(to_torch(input.dtype));
  copies_[number] = at::empty_strided(sizes, strides, options);
  copies_[number].copy_(at::from_blob(value.data, value.sizes, value.strides, options));
  return {.data = copies_[number].mutable_data_ptr(), .sizes = value.sizes.data()};
}

void NestedRun::run(std::span<const NestedValue> inputs) {
  NG_CHECK(inputs.size() == inputs_.size(), program().name, " takes ", inputs_.size(), " inputs, got ", inputs.size());
  drop_results();
  given_ = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) inputs_[i] = bound(i, inputs[i]);
  const c10::impl::ForceDispatchKeyGuard as_outside(keys_);
  check_run(executable_->run({.all = inputs_}, outputs_, dims_), program());
}

namespace {

at::Scalar scalar_of(ng_scalar value, ScalarKind kind) {
  if (kind == ScalarKind::kFloat) return value.f;
  return kind == ScalarKind::kBool ? at::Scalar(value.i != 0) : at::Scalar(value.i);
}

}  // namespace

at::Scalar NestedRun::scalar(size_t number) const {
  return scalar_of(outputs_[number].scalar, outputs_[number].scalar_kind);
}

at::Scalar NestedRun::scalar_input(size_t number, ng_scalar value) const {
  const auto is_it = [&](const Symbol& symbol) {
    return symbol.input == static_cast<int32_t>(number) && symbol.dim == program::kNone;
  };
  const auto symbol = std::ranges::find_if(program().symbols, is_it);
  return scalar_of(value, symbol == program().symbols.end() ? ScalarKind::kInt : symbol->kind);
}

at::Tensor NestedRun::take(size_t number) {
  runtime::BoundOutput& output = outputs_[number];
  const int32_t input = program().outputs[number].input;
  if (output.object != nullptr && input == program::kNone) {
    const bool absent = is_absent(*static_cast<const c10::TensorImpl*>(output.object));
    NG_CHECK(!absent, "result ", number, " of ", program().name, " is undefined");
    return result_of(output);
  }
  // The result is an input, or a window of one.
  if (output.object != nullptr) take_object(output);
  NG_CHECK(output.kind == Output::Kind::kInput || output.kind == Output::Kind::kTensor, "result ", number, " of ",
           program().name, " is no tensor");
  const bool is_whole = output.kind == Output::Kind::kInput;
  const NestedValue& value = given_[input];
  const auto options = at::TensorOptions().dtype(to_torch(is_whole ? program().inputs[input].dtype : output.dtype));
  void* data = is_whole ? value.data : output.data;
  const at::IntArrayRef sizes = is_whole ? value.sizes : at::IntArrayRef(output.sizes.data(), output.sizes.size());
  const at::IntArrayRef strides =
      is_whole ? value.strides : at::IntArrayRef(output.strides.data(), output.strides.size());
  const at::Tensor made = at::empty_strided(sizes, strides, options);
  if (made.numel() != 0) made.copy_(at::from_blob(data, sizes, strides, options));
  return made;
}

namespace {

using Kind = NestedPrograms::Kind;

struct NestedTable {
  std::mutex mutex;
  std::unordered_map<int32_t, NestedPrograms> programs;
};

NestedTable& nested_table() {
  static auto* table = new NestedTable;  // never destroyed: callables may be unregistered while the process ends
  return *table;
}

NestedPrograms programs_of(const program::Task& task) {
  const std::lock_guard lock(nested_table().mutex);
  const auto found = nested_table().programs.find(task.callable);
  if (found != nested_table().programs.end()) return found->second;
  throw UserError(cat("the graphs of ", task.name, " (", task.source, ") are not registered"));
}

struct NestedState {
  std::deque<NestedRun> runs;  // one for each part
};

// A value that one turn passes to the next; a number if the tensor is undefined.
struct Carried {
  at::Tensor tensor;
  at::Scalar scalar;

  NestedValue value() const {
    if (tensor.defined()) return {.data = tensor.data_ptr(), .sizes = tensor.sizes(), .strides = tensor.strides()};
    NestedValue number;
    if (scalar.isFloatingPoint()) {
      number.scalar.f = scalar.toDouble();
    } else {
      number.scalar.i = scalar.toLong();
    }
    return number;
  }
};

class NestedTask {
 public:
  NestedTask(const program::Program& program, const program::Task& task, NestedPrograms programs);

  void bind(NestedState& state, const ng_call* call) const;
  void run(NestedState& state, ng_call* call) const;
  void finish(NestedState& state, const ng_call*) const noexcept {
    for (NestedRun& run : state.runs) run.clear();
  }

 private:
  const ng_buffer& buffer(const ng_call* call, const NestedPlace& place) const {
    return call->buffers[tensors_[place.index]];
  }
  NestedValue value_at(const ng_call* call, const NestedPlace& place) const;
  std::vector<NestedValue> values(const ng_call* call, size_t part) const;
  bool predicate(const ng_call* call) const;
  bool goes_on(NestedRun& condition, const std::vector<NestedValue>& inputs) const;
  void take_turn(NestedRun& body, std::vector<Carried>& carried) const;
  void store(ng_call* call, size_t number, Carried result) const;

  void run_cond(NestedState& state, ng_call* call) const;
  void run_while_loop(NestedState& state, ng_call* call) const;
  void run_scan(NestedState& state, ng_call* call) const;
  std::vector<at::Tensor> rows_of_results(const ng_call* call, size_t results) const;

  NestedPrograms programs_;
  Declared declared_;
  std::vector<int32_t> tensors_;  // operands that are arguments
};

NestedTask::NestedTask(const program::Program& program, const program::Task& task, NestedPrograms programs)
    : programs_(std::move(programs)), declared_(program, task) {
  for (const Attr& arg : task.args) {
    for_each_tensor(arg, [&](TensorRef ref) { tensors_.push_back(ref.id); });
  }
}

void NestedTask::bind(NestedState& state, const ng_call*) const {
  if (!state.runs.empty()) return;
  for (const NestedPrograms::Part& part : programs_.parts) state.runs.emplace_back(part.executable);
}

NestedValue NestedTask::value_at(const ng_call* call, const NestedPlace& place) const {
  if (place.kind == NestedPlace::Kind::kConstant) return {.scalar = place.constant};
  if (place.kind == NestedPlace::Kind::kScalar) return {.scalar = call->scalars[place.index]};
  const ng_buffer& found = buffer(call, place);
  const auto rank = static_cast<size_t>(found.rank);
  return {.data = found.data, .sizes = {found.sizes, rank}, .strides = {found.strides, rank}};
}

std::vector<NestedValue> NestedTask::values(const ng_call* call, size_t part) const {
  std::vector<NestedValue> found;
  for (const NestedPlace& place : programs_.parts[part].inputs) found.push_back(value_at(call, place));
  return found;
}

bool NestedTask::predicate(const ng_call* call) const {
  if (programs_.predicate.kind != NestedPlace::Kind::kTensor) return value_at(call, programs_.predicate).scalar.i != 0;
  return *static_cast<const bool*>(buffer(call, programs_.predicate).data);
}

void NestedTask::store(ng_call* call, size_t number, Carried result) const {
  if (!result.tensor.defined()) return declared_.store_scalar(call, number, result.scalar);
  if (declared_.keeps(number)) declared_.store(call, number, std::move(result.tensor), nullptr);
}

bool is_tensor_result(const NestedRun& run, size_t result) {
  return run.program().outputs[result].kind != program::Output::Kind::kScalar;
}

Carried result_of(NestedRun& run, size_t number) {
  if (is_tensor_result(run, number)) return {.tensor = run.take(number), .scalar = {}};
  return {.tensor = {}, .scalar = run.scalar(number)};
}

void NestedTask::run_cond(NestedState& state, ng_call* call) const {
  const size_t branch = predicate(call) ? 0 : 1;
  NestedRun& run = state.runs[branch];
  run.run(values(call, branch));
  for (size_t i = 0; i < run.program().outputs.size(); ++i) {
    if (run.program().outputs[i].kind != program::Output::Kind::kNone) store(call, i, result_of(run, i));
  }
}

bool NestedTask::goes_on(NestedRun& condition, const std::vector<NestedValue>& inputs) const {
  condition.run(inputs);
  const Carried answer = result_of(condition, 0);
  return answer.tensor.defined() ? *answer.tensor.const_data_ptr<bool>() : answer.scalar.toBool();
}

// Sets `carried` to the results that the next turn takes.
void NestedTask::take_turn(NestedRun& body, std::vector<Carried>& carried) const {
  std::vector<Carried> next;
  for (int32_t i = 0; i < programs_.carried; ++i) next.push_back(result_of(body, i));
  carried = std::move(next);
}

// The result of a loop without turns: a copy of its input.
Carried initial(const NestedRun& body, size_t number, const NestedValue& value) {
  const program::Input& input = body.program().inputs[number];
  if (input.buffer == program::kNone) return {.tensor = {}, .scalar = body.scalar_input(number, value.scalar)};
  const auto options = at::TensorOptions().dtype(to_torch(input.dtype));
  const at::Tensor made = at::empty_strided(value.sizes, value.strides, options);
  if (made.numel() != 0) made.copy_(at::from_blob(value.data, value.sizes, value.strides, options));
  return {.tensor = made, .scalar = {}};
}

void NestedTask::run_while_loop(NestedState& state, ng_call* call) const {
  const auto count = static_cast<size_t>(programs_.carried);
  std::vector<NestedValue> for_condition = values(call, 0), for_body = values(call, 1);
  std::vector<Carried> carried;
  std::vector<std::vector<at::Tensor>> turns(count);
  while (goes_on(state.runs[0], for_condition)) {
    state.runs[1].run(for_body);
    take_turn(state.runs[1], carried);
    for (size_t i = 0; i < count; ++i) {
      for_condition[i] = for_body[i] = carried[i].value();
      if (programs_.keeps_turns && carried[i].tensor.defined()) turns[i].push_back(carried[i].tensor);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    Carried result = carried.empty() ? initial(state.runs[1], i, for_body[i]) : std::move(carried[i]);
    if (programs_.keeps_turns && result.tensor.defined())
      result.tensor = turns[i].empty() ? result.tensor.unsqueeze(0) : at::stack(turns[i]);
    store(call, i, std::move(result));
  }
}

// The tensors into which slices of the results after the carried ones are
// written. Undefined for results that are not kept.
std::vector<at::Tensor> NestedTask::rows_of_results(const ng_call* call, size_t results) const {
  std::vector<at::Tensor> rows(results);
  for (size_t i = static_cast<size_t>(programs_.carried); i < results; ++i) {
    if (!declared_.keeps(i)) continue;
    const ng_buffer& result = call->buffers[declared_.operand_of(i)];
    const auto rank = static_cast<size_t>(result.rank);
    rows[i] = at::empty_strided({result.sizes, rank}, {result.strides, rank},
                                at::TensorOptions().dtype(to_torch(static_cast<DType>(result.dtype))));
  }
  return rows;
}

void NestedTask::run_scan(NestedState& state, ng_call* call) const {
  NestedRun& body = state.runs[0];
  const auto count = static_cast<size_t>(programs_.carried), sliced = static_cast<size_t>(programs_.sliced);
  const size_t results = body.program().outputs.size();
  std::vector<NestedValue> inputs = values(call, 0);
  const std::vector<NestedValue> whole(inputs.begin() + programs_.carried,
                                       inputs.begin() + programs_.carried + programs_.sliced);
  std::vector<at::Tensor> rows = rows_of_results(call, results);
  std::vector<Carried> carried;
  const int64_t turns = whole.front().sizes[0];
  for (int64_t turn = 0; turn < turns; ++turn) {
    for (size_t i = 0; i < sliced; ++i) {
      NestedValue& slice = inputs[count + i];
      const int64_t bytes = turn * whole[i].strides[0] * size_of(body.program().inputs[count + i].dtype);
      slice = {.data = whole[i].data == nullptr ? nullptr : static_cast<std::byte*>(whole[i].data) + bytes,
               .sizes = whole[i].sizes.slice(1),
               .strides = whole[i].strides.slice(1)};
    }
    body.run(inputs);
    // Before take_turn() frees the inputs: a result may be one of them.
    for (size_t i = count; i < results; ++i) {
      if (rows[i].defined()) rows[i].select(0, turn).copy_(body.take(i));
    }
    take_turn(body, carried);
    for (size_t i = 0; i < count; ++i) inputs[i] = carried[i].value();
  }
  for (size_t i = 0; i < count; ++i) store(call, i, turns == 0 ? initial(body, i, inputs[i]) : std::move(carried[i]));
  for (size_t i = count; i < results; ++i) {
    if (rows[i].defined()) declared_.store(call, i, std::move(rows[i]), nullptr);
  }
}

void NestedTask::run(NestedState& state, ng_call* call) const {
  for (NestedRun& run : state.runs) run.keep_keys();
  const BelowAutograd below;
  const TaskScope scope(declared_.name());
  switch (programs_.kind) {
    case Kind::kCond: return run_cond(state, call);
    case Kind::kWhileLoop: return run_while_loop(state, call);
    case Kind::kScan: return run_scan(state, call);
  }
}

}  // namespace

ng_task build_nested_task(const program::Program& program, const program::Task& task) {
  return task_of<NestedState>(std::make_unique<NestedTask>(program, task, programs_of(task)));
}

void register_nested(int32_t callable, NestedPrograms programs) {
  const std::lock_guard lock(nested_table().mutex);
  nested_table().programs.insert_or_assign(callable, std::move(programs));
}

void unregister_nested(int32_t callable) {
  NestedPrograms dropped;  // destroyed after the lock is released: Executables may hold much
  const std::lock_guard lock(nested_table().mutex);
  if (const auto found = nested_table().programs.find(callable); found != nested_table().programs.end()) {
    dropped = std::move(found->second);
    nested_table().programs.erase(found);
  }
}

}  // namespace npugraph::bridge
