// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/record_function.h>

#include "backend/bridge/borrowed_tensor.h"
#include "backend/bridge/convert.h"
#include "backend/bridge/declared.h"
#include "backend/bridge/dispatch.h"
#include "backend/bridge/task_functions.h"
#include "backend/bridge/task_makers.h"
#include "backend/own_kernels/own_kernels.h"
#include "base/error.h"
#include "base/words.h"

namespace npugraph::bridge {

namespace {

using torch::jit::Stack;

int32_t first_equal_window(const program::Task& task, int32_t operand) {
  // Empty parts of a tensor can be equal windows. To torch they are
  // different tensors, and it may write only one of them.
  const auto& sizes = task.operands[operand].sizes;
  if (std::any_of(sizes.begin(), sizes.end(), [](const program::Dim& size) { return size == program::Dim{0}; }))
    return operand;
  int32_t first = 0;
  const auto is_same = [](const program::Operand& a, const program::Operand& b) {
    return a.buffer == b.buffer && a.dtype == b.dtype && program::same_window(a, b);
  };
  while (first < operand && !is_same(task.operands[first], task.operands[operand])) ++first;
  return first;
}

// The state of one Instance: one tensor per operand, and the argument list over them.
struct AtenState {
  std::vector<std::optional<BorrowedTensor>> tensors;
  std::vector<c10::IValue> args;
  std::vector<ng_scalar> scalars;  // the values that `args` were made with
  Stack stack;                     // empty between runs; kept for its capacity
};

class AtenTask {
 public:
  AtenTask(const program::Program& program, const program::Task& task, c10::OperatorHandle op,
           std::span<const FixedArgument> fixed);

  void bind(AtenState& state, const ng_call* call) const;
  void run(AtenState& state, ng_call* call) const;
  void finish(AtenState& state, const ng_call* call) const noexcept;

 private:
  struct Variable {
    int32_t arg = 0;
    int32_t first_scalar = 0;
    bool has_scalars = false;
  };

  void note_arg(const program::Program& program, const program::Task& task, size_t arg, int32_t& next_scalar);
  template <typename FindTensor>
  c10::IValue make_arg(const Variable& variable, const ng_scalar* scalars, FindTensor find) const;
  void make_tensors(AtenState& state) const;
  void make_args(AtenState& state, const ng_call* call, bool only_with_scalars) const;
  void push_args(AtenState& state, const ng_call* call) const;
  void store_results(AtenState& state, ng_call* call) const;
  void check_written(AtenState& state, const ng_call* call) const;

  c10::OperatorHandle op_;
  Declared declared_;
  std::vector<Attr> attrs_;
  std::vector<c10::IValue> constants_;  // per argument; None where it is variable
  std::vector<Variable> variables_;     // arguments with tensors or symbolic scalars
  std::vector<ScalarKind> scalar_kinds_;
  std::vector<int32_t> tensor_of_;  // per operand: the operand whose BorrowedTensor it uses, or kNone
  std::vector<int32_t> moving_;     // operands whose pointer is set before each run
  std::vector<int32_t> written_;    // members of moving_ that the operator writes
  own::StackKernel own_ = nullptr;  // see own_kernel()
  bool direct_ = false;             // calls the CPU kernel without asking the dispatcher
  const bool foreign_;              // see Task::foreign
  bool on_device_ = false;          // runs on tensors of the device, not on CPU tensors over their memory
  bool fresh_tensors_ = false;      // arguments are made anew for each run: opaque ones, or ones that may be kept
};

AtenTask::AtenTask(const program::Program& program, const program::Task& task, c10::OperatorHandle op,
                   std::span<const FixedArgument> fixed)
    : op_(std::move(op)),
      declared_(program, task),
      attrs_(task.args),
      constants_(task.args.size()),
      foreign_(task.foreign) {
  const BelowAutograd below;
  const size_t count = op_.schema().arguments().size();
  if (task.args.size() != count) {
    throw UserError(
        cat("operator ", task.name, " takes ", counted(count, "argument"), " and was given ", task.args.size()));
  }
  // Foreign operators may have a kernel of their own for the device, some of torch's have one only for accelerators,
  // and random ones draw from the device's generator.
  const bool uses_device =
      std::ranges::any_of(declared_.operands(), [](const auto& operand) { return !operand.device.is_cpu(); });
  const bool has_cpu_kernel = op_.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  on_device_ = uses_device && (foreign_ || !has_cpu_kernel || op_.hasTag(at::Tag::nondeterministic_seeded));
  for (const int32_t expr : task.scalars) scalar_kinds_.push_back(program.exprs.at(expr).kind());
  tensor_of_.assign(task.operands.size(), program::kNone);
  int32_t next_scalar = 0;
  for (size_t i = 0; i < count; ++i)
    if (std::ranges::find(fixed, i, &FixedArgument::position) == fixed.end()) note_arg(program, task, i, next_scalar);
  for (const FixedArgument& argument : fixed) constants_.at(argument.position) = argument.value;
  NG_CHECK(next_scalar == static_cast<int32_t>(scalar_kinds_.size()), task.name, " declares ", scalar_kinds_.size(),
           " scalars");

  // A planned result of a functional operator is copied into its memory.
  const auto& operands = declared_.operands();
  for (const int32_t result : task.results) {
    if (result != program::kNone && !operands[result].opaque && !operands[result].adopted) tensor_of_[result] = result;
  }
  bool any_opaque = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    any_opaque |= operands[i].opaque;
    const auto index = static_cast<int32_t>(i);
    if (tensor_of_[i] == index) moving_.push_back(index);
    if (tensor_of_[i] != program::kNone && operands[i].written) written_.push_back(tensor_of_[i]);
  }
  fresh_tensors_ = any_opaque || foreign_ || on_device_;
  own_ = own::own_kernel(op_.operator_name(), uses_device);
  direct_ = !any_opaque && !on_device_ && has_cpu_kernel;
}

// Converts a constant argument at once, and remembers any other. Equal windows share one tensor, because kernels ask
// whether out and self are the same object.
void AtenTask::note_arg(const program::Program& program, const program::Task& task, size_t arg, int32_t& next_scalar) {
  Variable variable{static_cast<int32_t>(arg), next_scalar, false};
  bool has_tensors = false;
  for_each_expr(task.args[arg], [&](const Expr& e) { next_scalar += e.is_constant() ? 0 : 1; });
  variable.has_scalars = next_scalar != variable.first_scalar;
  for_each_tensor(task.args[arg], [&](TensorRef ref) {
    has_tensors = true;
    const program::Operand& operand = task.operands.at(ref.id);
    if (program.buffers.at(operand.buffer).opaque) return;
    const int32_t first = first_equal_window(task, ref.id);
    tensor_of_[first] = tensor_of_[ref.id] = first;
  });
  if (has_tensors || variable.has_scalars) {
    variables_.push_back(variable);
    return;
  }
  const ArgumentSource nothing{[](TensorRef) { return at::Tensor(); }, [](const Expr&) { return Scalar(); },
                               on_device_};
  constants_[arg] = to_ivalue(task.args[arg], op_.schema().arguments()[arg], nothing);
}

template <typename FindTensor>
c10::IValue AtenTask::make_arg(const Variable& variable, const ng_scalar* scalars, FindTensor find) const {
  int32_t next = variable.first_scalar;
  const auto scalar = [&](const Expr&) {
    const ng_scalar value = scalars[next];
    switch (scalar_kinds_[next++]) {
      case ScalarKind::kFloat: return Scalar::of_float(value.f);
      case ScalarKind::kBool: return Scalar::of_bool(value.i != 0);
      default: return Scalar::of_int(value.i);
    }
  };
  return to_ivalue(attrs_[variable.arg], op_.schema().arguments()[variable.arg], {find, scalar, on_device_});
}

void AtenTask::make_tensors(AtenState& state) const {
  state.tensors.clear();
  state.tensors.resize(declared_.operands().size());
  for (const int32_t i : moving_) {
    const DeclaredOperand& operand = declared_.operands()[i];
    state.tensors[i].emplace(operand.dtype, on_device_ ? operand.device : c10::Device(c10::kCPU));
  }
}

void AtenTask::bind(AtenState& state, const ng_call* call) const {
  const BelowAutograd below;
  if (state.args.empty()) {
    state.args = constants_;
    state.stack.reserve(std::max(constants_.size(), op_.schema().returns().size()));
    make_tensors(state);
  }
  for (const int32_t i : moving_) {
    const ng_buffer& buffer = call->buffers[i];
    const auto rank = static_cast<size_t>(buffer.rank);
    state.tensors[i]->set_shape({buffer.sizes, rank}, {buffer.strides, rank});
  }
  make_args(state, call, false);
}

// Makes the arguments that contain tensors or symbolic scalars, or only those that contain symbolic scalars.
void AtenTask::make_args(AtenState& state, const ng_call* call, bool only_with_scalars) const {
  state.scalars.assign(call->scalars, call->scalars + call->num_scalars);
  if (fresh_tensors_) return;
  for (const Variable& variable : variables_) {
    if (only_with_scalars && !variable.has_scalars) continue;
    state.args[variable.arg] =
        make_arg(variable, call->scalars, [&](TensorRef ref) { return state.tensors[tensor_of_[ref.id]]->tensor(); });
  }
}

void AtenTask::push_args(AtenState& state, const ng_call* call) const {
  if (!fresh_tensors_) {
    // Scalars that are not part of an Instance's key change without a new bind.
    const size_t bytes = state.scalars.size() * sizeof(ng_scalar);
    if (bytes != 0 && std::memcmp(state.scalars.data(), call->scalars, bytes) != 0) make_args(state, call, true);
    state.stack.insert(state.stack.end(), state.args.begin(), state.args.end());
    return;
  }
  state.stack.insert(state.stack.end(), constants_.begin(), constants_.end());
  for (const Variable& variable : variables_) {
    state.stack[variable.arg] = make_arg(variable, call->scalars, [&](TensorRef ref) {
      if (!declared_.operands()[ref.id].opaque) return state.tensors[tensor_of_[ref.id]]->alias();
      auto* impl = static_cast<c10::TensorImpl*>(call->buffers[ref.id].object);
      return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(impl));
    });
  }
}

// InternalError if the operator gave a tensor other sizes or another storage, and so did not write the operand's
// memory. Out-variants may give it the strides that they prefer; then the elements are put where the Program reads
// them.
void AtenTask::check_written(AtenState& state, const ng_call* call) const {
  for (const int32_t i : written_) {
    const ng_buffer& buffer = call->buffers[i];
    const auto rank = static_cast<size_t>(buffer.rank);
    if (!state.tensors[i]->is_disturbed({buffer.sizes, rank})) {
      count_copied(call, state.tensors[i]->restore_strides({buffer.strides, rank}));
      continue;
    }
    make_tensors(state);
    bind(state, call);
    throw InternalError(cat("operator ", declared_.name(), " resized a tensor that it was to write"));
  }
}

void AtenTask::store_results(AtenState& state, ng_call* call) const {
  size_t number = 0;
  size_t position = 0;
  const auto store = [&](at::Tensor tensor) {
    if (declared_.keeps(number)) {
      const auto& own = state.tensors[declared_.operand_of(number)];
      declared_.store(call, number, std::move(tensor), own ? &*own : nullptr);
    }
    ++number;
  };
  for (c10::IValue& value : state.stack) {
    const size_t at = position++;
    if (value.isTensor()) {
      store(std::move(value).toTensor());
    } else if (value.isTensorList()) {
      const c10::List<at::Tensor> list = std::move(value).toTensorList();
      for (size_t i = 0; i < list.size(); ++i) store(list.extract(i));
    } else {
      if (value.isScalar()) declared_.store_scalar(call, at, value.toScalar());
      ++number;
    }
  }
}

void AtenTask::run(AtenState& state, ng_call* call) const {
  const BelowAutograd below(foreign_);
  const TaskScope scope(declared_.name());
  for (const int32_t i : moving_) state.tensors[i]->point_to(call->buffers[i].data);
  push_args(state, call);
  if (own_ != nullptr) {
    own_(state.stack);
  } else if (direct_ && !at::hasCallbacks()) {  // profilers see only calls through the dispatcher
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &state.stack);
  } else {
    op_.callBoxed(&state.stack);
  }
  if (!fresh_tensors_) check_written(state, call);
  store_results(state, call);
}

// Arguments may have been kept, for example by the frames that a Python exception passed through.
void AtenTask::finish(AtenState& state, const ng_call* call) const noexcept {
  state.stack.clear();
  if (!fresh_tensors_) return;
  for (const int32_t i : moving_) count_copied(call, state.tensors[i]->leave_copy_to_keepers());
}

}  // namespace

ng_task build_aten_task(const program::Program& program, const program::Task& task,
                        std::span<const FixedArgument> fixed) {
  const auto op = find_operator(task.name);
  if (!op) throw UserError(cat("torch has no operator ", task.name, " (", task.source, ")"));
  // A saved Program may come from another build of torch or of a library.
  const std::string schema = c10::toString(op->schema());
  if (!task.schema.empty() && task.schema != schema) {
    throw UserError(cat("the Program was made for the operator ", task.schema, "; in this process it is ", schema));
  }
  auto context = std::make_unique<AtenTask>(program, task, *op, fixed);
  return task_of<AtenState>(std::move(context));
}

}  // namespace npugraph::bridge
