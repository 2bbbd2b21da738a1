// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/collective_task.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "backend/bridge/convert.h"
#include "backend/bridge/declared.h"
#include "backend/bridge/dispatch.h"
#include "backend/bridge/task_functions.h"
#include "base/error.h"
#include "ops/operators.h"

namespace npugraph::bridge {

UnderWay::UnderWay(size_t operands)
    : TensorImpl(c10::DispatchKeySet(c10::DispatchKey::CPU), caffe2::TypeMeta::Make<uint8_t>(), c10::kCPU) {
  memories_.reserve(operands);
}

UnderWay::~UnderWay() {
  landings_.clear();
  try {
    wait();
  } catch (const std::exception&) {  // an object that is dropped has nobody to report to
  }
}

at::Tensor UnderWay::tensor(const DeclaredOperand& declared, const ng_buffer& buffer) {
  BorrowedTensor& memory = memories_.emplace_back(declared.dtype, declared.device);
  const auto rank = static_cast<size_t>(buffer.rank);
  memory.set_shape({buffer.sizes, rank}, {buffer.strides, rank});
  memory.point_to(buffer.data);
  if (buffer.object != nullptr) {
    auto* impl = static_cast<c10::TensorImpl*>(buffer.object);
    kept_.emplace_back(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(impl));
  }
  return memory.alias();
}

void UnderWay::add(c10::intrusive_ptr<c10d::Work> work, const std::vector<at::Tensor>& tensors) {
  kept_.insert(kept_.end(), tensors.begin(), tensors.end());
  if (work) works_.push_back(std::move(work));
}

void UnderWay::wait() {
  std::exception_ptr error;
  for (const auto& work : std::exchange(works_, {})) {
    try {
      work->wait();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  kept_.clear();
  if (error) std::rethrow_exception(error);
  for (const auto& [data, memory] : std::exchange(landings_, {})) memory.copy_(data);
}

namespace {

using c10d::ProcessGroup;
using c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

constexpr std::array<std::pair<std::string_view, ReduceOp::RedOpType>, 8> kReductions = {
    {{"sum", ReduceOp::SUM},
     {"avg", ReduceOp::AVG},
     {"product", ReduceOp::PRODUCT},
     {"min", ReduceOp::MIN},
     {"max", ReduceOp::MAX},
     {"band", ReduceOp::BAND},
     {"bor", ReduceOp::BOR},
     {"bxor", ReduceOp::BXOR}}};

ReduceOp reduction(const std::string& task, const std::string& name) {
  const auto at = std::ranges::find(kReductions, name, [](const auto& row) { return row.first; });
  if (at != kReductions.end()) return at->second;
  std::string known;
  for (const auto& row : kReductions) known += cat(known.empty() ? "" : ", ", row.first);
  throw UserError(cat(task, ": there is no reduction '", name, "'; allowed are ", known));
}

struct NoState {};

// The arguments of a collective except its tensors.
struct Settings {
  std::string name, group, reduce_op;
  std::vector<int64_t> ranks, numbers;  // `numbers`: the schema's int arguments
};

// One call of a collective. The process group gets tensors without gaps.
class Begin {
 public:
  Begin(const Settings& settings, UnderWay& under_way, Tensors inputs, Tensors outputs)
      : settings_(settings),
        under_way_(under_way),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        group_(c10d::resolve_process_group(settings.group)) {}

  void all_reduce() const {
    const ReduceOp op = reduction(settings_.name, settings_.reduce_op);
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    if (outputs_.size() == 1) {
      Tensors whole = {in_place(inputs_[0], outputs_[0], op)};
      return start(group_->allreduce(whole, options), whole);
    }
    // One message for all of them.
    Tensors flat;
    for (const at::Tensor& input : inputs_) flat.push_back(real(input, op).reshape({-1}));
    Tensors whole = {at::cat(flat)};
    int64_t begin = 0;
    for (size_t i = 0; i < flat.size(); ++i) {
      const at::Tensor memory = real(outputs_[i], op);
      land(whole[0].narrow(0, begin, flat[i].numel()).view(memory.sizes()), memory);
      begin += flat[i].numel();
    }
    start(group_->allreduce(whole, options), whole);
  }

  void all_gather() const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      at::Tensor from = inputs_[i].contiguous(), into = dense(outputs_[i]);
      start(group_->all_gather_single(into, from), {from, into});
    }
  }

  void reduce_scatter() const {
    c10d::ReduceScatterOptions options;
    options.reduceOp = reduction(settings_.name, settings_.reduce_op);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      at::Tensor from = inputs_[i].contiguous(), into = dense(outputs_[i]);
      start(group_->reduce_scatter_single(into, from, options), {from, into});
    }
  }

  // Numbers: the row counts from each rank, then the row counts to each rank. Without numbers, all parts are equal.
  void all_to_all() const {
    const auto half = settings_.numbers.begin() + static_cast<std::ptrdiff_t>(settings_.numbers.size() / 2);
    std::vector<int64_t> out(settings_.numbers.begin(), half), in(half, settings_.numbers.end());
    at::Tensor from = inputs_[0].contiguous(), into = dense(outputs_[0]);
    start(group_->all_to_all_single(into, from, out, in), {from, into});
  }

  void broadcast() const {
    c10d::BroadcastOptions options;
    options.rootRank = settings_.numbers[0];
    Tensors whole = {dense(outputs_[0].copy_(inputs_[0]))};
    if (!whole[0].is_same(outputs_[0])) whole[0].copy_(inputs_[0]);
    start(group_->broadcast(whole, options), whole);
  }

  // Peers are ranks of the world, as torch.distributed takes them. Numbers: peers, then tags.
  void send() const { send(0, 0); }
  void receive() const { receive(0); }
  // All at once. The peers of outputs precede those of inputs.
  void transfer() const {
    for (size_t i = 0; i < outputs_.size(); ++i) receive(i);
    for (size_t i = 0; i < inputs_.size(); ++i) send(i, outputs_.size() + i);
  }

 private:
  static bool is_sum(const ReduceOp& op) { return op == ReduceOp::SUM || op == ReduceOp::AVG; }

  // A complex tensor as pairs of real numbers, which have the same sum.
  at::Tensor real(const at::Tensor& tensor, const ReduceOp& op) const {
    if (!tensor.is_complex()) return tensor;
    if (!is_sum(op)) {
      throw UserError(
          cat(settings_.name, ": complex tensors have the reductions sum and avg, got ", settings_.reduce_op));
    }
    return at::view_as_real(tensor);
  }

  at::Tensor in_place(const at::Tensor& input, const at::Tensor& output, const ReduceOp& op) const {
    at::Tensor into = dense(real(output, op));
    if (into.data_ptr() != input.data_ptr()) into.copy_(real(input, op));
    return into;
  }

  // `memory`, or a tensor without gaps that is copied to it in the end.
  at::Tensor dense(const at::Tensor& memory) const {
    if (memory.is_contiguous()) return memory;
    at::Tensor data = at::empty(memory.sizes(), memory.options());
    land(data, memory);
    return data;
  }

  void send(size_t i, size_t number) const {
    Tensors whole = {inputs_[i].contiguous()};
    start(group_->send(whole, peer(number), tag(number)), whole);
  }

  void receive(size_t i) const {
    Tensors whole = {dense(outputs_[i])};
    start(group_->recv(whole, peer(i), tag(i)), whole);
  }

  int peer(size_t i) const {
    const auto at = std::ranges::find(settings_.ranks, settings_.numbers[i]);
    if (at == settings_.ranks.end()) {
      throw UserError(
          cat(settings_.name, ": rank ", settings_.numbers[i], " is not in the process group '", settings_.group, "'"));
    }
    return static_cast<int>(at - settings_.ranks.begin());
  }

  int tag(size_t i) const { return static_cast<int>(settings_.numbers[settings_.numbers.size() / 2 + i]); }

  void land(at::Tensor data, at::Tensor memory) const { under_way_.land(std::move(data), std::move(memory)); }

  void start(WorkPtr work, const Tensors& tensors) const { under_way_.add(std::move(work), tensors); }

  const Settings& settings_;
  UnderWay& under_way_;
  const Tensors inputs_, outputs_;
  const c10::intrusive_ptr<ProcessGroup> group_;
};

using Start = void (Begin::*)() const;

// Null if there is no such collective.
Start find_start(std::string_view name) {
  static const std::unordered_map<std::string_view, Start> starts = {
      {own::all_reduce::op().name, &Begin::all_reduce},
      {own::all_gather::op().name, &Begin::all_gather},
      {own::reduce_scatter::op().name, &Begin::reduce_scatter},
      {own::all_to_all::op().name, &Begin::all_to_all},
      {own::broadcast::op().name, &Begin::broadcast},
      {own::send::op().name, &Begin::send},
      {own::receive::op().name, &Begin::receive},
      {own::transfer::op().name, &Begin::transfer},
      {own::all_reduce_::op().name, &Begin::all_reduce},
      {own::broadcast_::op().name, &Begin::broadcast},
      {own::all_gather_into::op().name, &Begin::all_gather},
      {own::reduce_scatter_into::op().name, &Begin::reduce_scatter},
  };
  const auto found = starts.find(name);
  return found == starts.end() ? nullptr : found->second;
}

std::vector<int64_t> constants_of(const Attr& attr) {
  std::vector<int64_t> out;
  if (const auto* items = std::get_if<std::vector<Expr>>(&attr)) {
    for (const Expr& item : *items) out.push_back(item.as_int().value());
  }
  return out;
}

class BeginTask {
 public:
  BeginTask(const program::Program& program, const program::Task& task)
      : declared_(program, task), args_(task.args), num_operands_(task.operands.size()) {
    start_ = find_start(task.name);
    if (start_ == nullptr) throw UserError(cat("there is no collective ", task.name));
    if (args_.size() < 3 || task.operands.size() < 2) throw UserError(cat(task.name, " lacks arguments"));
    settings_.name = task.name;
    settings_.group = std::get<std::string>(args_[args_.size() - 2]);
    settings_.ranks = constants_of(args_.back());
    for (size_t i = 0; i + 2 < args_.size(); ++i) {
      if (const auto* text = std::get_if<std::string>(&args_[i])) settings_.reduce_op = *text;
    }
    writes_inputs_ = task.name.ends_with('_');
    for (const int32_t result : task.results) outputs_.push_back(result);
  }

  void bind(NoState&, const ng_call*) const {}

  void run(NoState&, ng_call* call) const {
    const BelowAutograd below;
    const at::NoGradGuard no_grad;
    const TaskScope scope(declared_.name());
    auto under_way = c10::make_intrusive<UnderWay>(num_operands_);
    Settings settings = settings_;
    settings.numbers = numbers(call);
    Tensors inputs, outputs;
    for (const Attr& arg : args_) {
      for_each_tensor(arg, [&](TensorRef ref) {
        const at::Tensor given = tensor(*under_way, call, ref.id);
        const bool written = declared_.operands()[ref.id].written;
        if (written) outputs.push_back(given);
        if (!written || writes_inputs_) inputs.push_back(given);
      });
    }
    for (const int32_t output : outputs_) outputs.push_back(tensor(*under_way, call, output));
    (Begin(settings, *under_way, std::move(inputs), std::move(outputs)).*start_)();
    ng_buffer& object = call->buffers[num_operands_ - 1];
    object.data = nullptr;
    object.object = under_way.release();
  }

  void finish(NoState&, const ng_call*) const noexcept {}

 private:
  // The numbers among the arguments before the ranks.
  std::vector<int64_t> numbers(const ng_call* call) const {
    std::vector<int64_t> out;
    const ng_scalar* next = call->scalars;
    for (size_t i = 0; i + 1 < args_.size(); ++i) {
      for_each_expr(args_[i],
                    [&](const Expr& e) { out.push_back(e.is_constant() ? e.as_int().value() : (next++)->i); });
    }
    return out;
  }

  at::Tensor tensor(UnderWay& under_way, const ng_call* call, int32_t operand) const {
    return under_way.tensor(declared_.operands()[operand], call->buffers[operand]);
  }

  Declared declared_;
  std::vector<Attr> args_;
  size_t num_operands_;
  bool writes_inputs_ = false;  // its outputs are its inputs
  std::vector<int32_t> outputs_;
  Settings settings_;
  Start start_ = nullptr;
};

class WaitTask {
 public:
  explicit WaitTask(const program::Task& task) : object_(task.operands.size() - 1) {}

  void bind(NoState&, const ng_call*) const {}
  void run(NoState&, ng_call* call) const {
    const BelowAutograd below;
    const at::NoGradGuard no_grad;
    static_cast<UnderWay*>(static_cast<c10::TensorImpl*>(call->buffers[object_].object))->wait();
  }
  void finish(NoState&, const ng_call*) const noexcept {}

 private:
  size_t object_;
};

}  // namespace

ng_task build_collective_task(const program::Program& program, const program::Task& task) {
  if (task.name != program::kWaitTask) return task_of<NoState>(std::make_unique<BeginTask>(program, task));
  const bool waits = !task.operands.empty() && program.buffers.at(task.operands.back().buffer).opaque;
  if (!waits) throw UserError(cat("a task ", program::kWaitTask, " has nothing to wait for"));
  return task_of<NoState>(std::make_unique<WaitTask>(task));
}

void rename_groups(program::Program& program,
                   const std::function<std::string(const std::string&, const std::vector<int64_t>&)>& rename) {
  for (program::Task& task : program.tasks) {
    if (task.kind != program::TaskKind::kCollective || task.args.size() < 2) continue;
    Attr& group = task.args[task.args.size() - 2];
    if (auto* name = std::get_if<std::string>(&group)) *name = rename(*name, constants_of(task.args.back()));
  }
}

}  // namespace npugraph::bridge
