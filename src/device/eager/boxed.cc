// SPDX-License-Identifier: Apache-2.0
#include "device/eager/boxed.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/Operators.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "backend/bridge/convert.h"
#include "backend/own_kernels/own_kernels.h"
#include "device/capture/capture.h"
#include "device/eager/cpu_call.h"
#include "device/npu/call_record.h"
#include "device/npu/generator.h"
#include "device/npu/operators.h"
#include "device/npu/tensor.h"
#include "device/runtime/streams.h"

namespace npugraph::eager {

using namespace npu;

namespace {

namespace ops = at::_ops;

// Arguments of torch's own operators that may be cpu tensors, by the operator's name without its overload.
constexpr std::pair<std::string_view, std::string_view> kOfTorch[] = {
    {ops::index_Tensor::name, "indices"},
    {ops::_unsafe_index_Tensor::name, "indices"},
    {ops::index_put::name, "indices"},
    {ops::index_put_::name, "indices"},
    {ops::_index_put_impl::name, "indices"},
    {ops::_index_put_impl_::name, "indices"},
    {ops::_unsafe_index_put::name, "indices"},
    {ops::_pack_padded_sequence::name, "lengths"},
    {ops::_ctc_loss::name, "input_lengths"},
    {ops::_ctc_loss::name, "target_lengths"},
    {ops::_ctc_loss_backward::name, "input_lengths"},
    {ops::_ctc_loss_backward::name, "target_lengths"},
};

// Whether an argument may be a cpu tensor beside npu tensors: lengths and indices.
bool may_be_on_host(const c10::OperatorHandle& op, const c10::Argument& argument) {
  if (const npu::Operator* row = npu::find_operator(op))
    return std::ranges::find(row->traits.on_host, argument.name()) != row->traits.on_host.end();
  const std::pair<std::string_view, std::string_view> given(op.operator_name().name, argument.name());
  return std::ranges::find(kOfTorch, given) != std::end(kOfTorch);
}

using c10::IValue;
using c10::OperatorHandle;
using torch::jit::Stack;

bool holds(const c10::Type& type, c10::TypeKind kind) {
  if (type.kind() == kind) return true;
  for (const c10::TypePtr& inner : type.containedTypes())
    if (holds(*inner, kind)) return true;
  return false;
}

// The kernel of one operator, with the facts of its schema that each call needs.
class BoxedKernel final : public c10::OperatorKernel {
 public:
  explicit BoxedKernel(const OperatorHandle& op);
  void operator()(const OperatorHandle& op, c10::DispatchKeySet, Stack* stack) const;

 private:
  void run(const OperatorHandle& op, Stack* stack) const;
  struct Tensors {
    size_t position;
    bool written;
    bool may_be_cpu;
  };
  using Held = c10::SmallVector<IValue, 8>;
  // Replaces `value` by its aliases, and keeps both in `held`.
  void pass_tensors(CpuCall& call, const Tensors& argument, IValue& value, Held& held) const;
  void return_tensors(CpuCall& call, IValue& value) const;
  // Called after the call: gives the aliases back for the thread's next calls, which reuse the first one first.
  static void give_back(Held& held);

  std::string name_;
  bool is_foreign_ = false;         // from outside of torch
  bool is_of_ascend_ = false;       // may ask for the device that it runs on
  own::StackKernel own_ = nullptr;  // see own_kernel()
  size_t arguments_ = 0;
  size_t returns_ = 0;
  std::vector<Tensors> tensors_;
  std::vector<size_t> generators_;
  std::vector<size_t> devices_;
};

BoxedKernel::BoxedKernel(const OperatorHandle& op) : name_(toString(op.operator_name())) {
  const c10::FunctionSchema& schema = op.schema();
  is_foreign_ = bridge::is_foreign(op.operator_name().getNamespace().value_or(""));
  is_of_ascend_ = name_.starts_with("npu::") || name_.starts_with("atb::") || name_.starts_with("air::");
  own_ = own::own_kernel(op.operator_name(), /*as_compiled=*/true);
  arguments_ = schema.arguments().size();
  returns_ = schema.returns().size();
  for (size_t position = 0; position < arguments_; ++position) {
    const c10::Argument& argument = schema.arguments()[position];
    const c10::Type& type = *argument.real_type();
    if (holds(type, c10::TypeKind::TensorType))
      tensors_.push_back({position, argument.alias_info() != nullptr && argument.alias_info()->isWrite(),
                          may_be_on_host(op, argument)});
    else if (holds(type, c10::TypeKind::GeneratorType))
      generators_.push_back(position);
    else if (holds(type, c10::TypeKind::DeviceObjType))
      devices_.push_back(position);
  }
}

void BoxedKernel::pass_tensors(CpuCall& call, const Tensors& argument, IValue& value, Held& held) const {
  held.push_back(std::move(value));
  const IValue& given = held.back();
  auto pass = [&](const at::Tensor& tensor) {
    return argument.written ? call.write(tensor) : call.read(tensor, argument.may_be_cpu);
  };
  if (given.isTensor()) {
    value = pass(given.toTensor());
  } else if (given.isTensorList()) {
    c10::List<at::Tensor> out;
    out.reserve(given.toListRef().size());
    for (const IValue& element : given.toListRef()) out.push_back(pass(element.toTensor()));
    value = std::move(out);
  } else if (given.isList()) {
    c10::List<std::optional<at::Tensor>> out;
    for (const IValue& element : given.toListRef())
      out.push_back(element.isNone() ? std::nullopt : std::make_optional(pass(element.toTensor())));
    value = std::move(out);
  } else {
    value = given;
  }
  held.push_back(value);
}

// An operator with cpu tensors comes here if it is given an npu generator.
void check_generator(const CpuCall& call, const IValue& generator) {
  if (generator.isNone()) return;
  const c10::DeviceType expected = call.is_on_npu() ? kNpu : c10::kCPU;
  const c10::DeviceType found = generator.toGenerator().device().type();
  TORCH_CHECK(found == expected, "Expected a '", expected, "' device type for generator but found '", found, "'");
}

void BoxedKernel::return_tensors(CpuCall& call, IValue& value) const {
  if (value.isTensor()) {
    value = call.result(std::move(value).toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list = std::move(value).toTensorList();
    c10::List<at::Tensor> out;
    out.reserve(list.size());
    for (size_t index = 0; index < list.size(); ++index) out.push_back(call.result(list.extract(index)));
    value = std::move(out);
  }
}

void BoxedKernel::give_back(Held& held) {
  for (size_t index = held.size(); index > 0; index -= 2) {
    IValue& alias = held[index - 1];
    if (alias.isTensor()) {
      if (!alias.is(held[index - 2])) reuse_alias(std::move(alias).toTensor());
    } else if (alias.isTensorList()) {
      c10::List<at::Tensor> list = std::move(alias).toTensorList();
      if (list.use_count() > 1) continue;  // the kernel keeps it
      for (size_t element = list.size(); element-- > 0;) reuse_alias(list.extract(element));
    }
  }
}

void BoxedKernel::operator()(const OperatorHandle& op, c10::DispatchKeySet, Stack* stack) const {
  const auto run_it = [&] { run(op, stack); };
  if (capture::is_watching()) [[unlikely]]
    return launch_watched(op, *stack, run_it);
  run_it();
}

void BoxedKernel::run(const OperatorHandle& op, Stack* stack) const {
  Held held;  // outlives `call`, which uses the held tensors until its end
  CpuCall call(name_.c_str(), is_foreign_);
  IValue* arguments = stack->data() + (stack->size() - arguments_);
  for (const Tensors& argument : tensors_) pass_tensors(call, argument, arguments[argument.position], held);
  for (const size_t position : devices_) {
    IValue& value = arguments[position];
    if (!value.isDevice()) continue;
    if (value.toDevice().type() == kNpu) call.set_device(checked_device(value.toDevice().index()));
    value = c10::Device(c10::kCPU);
  }
  for (const size_t position : generators_) {
    IValue& value = arguments[position];
    check_generator(call, value);
    value = cpu_generator_of(value.isNone() ? std::nullopt : std::make_optional(value.toGenerator()), call.device());
  }
  std::optional<OverAliases> over_aliases;
  if (is_of_ascend_ && call.is_on_npu()) over_aliases.emplace(call.device());
  call.run([&] {
    if (own_ != nullptr)
      own_(*stack);
    else
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  });
  call.finish();
  IValue* results = stack->data() + (stack->size() - returns_);
  for (size_t index = 0; index < returns_; ++index) return_tensors(call, results[index]);
  give_back(held);
}

// The device that a call runs on: that of the first npu tensor among the arguments, else the current one.
c10::DeviceIndex device_of_call(const OperatorHandle& op, const Stack& stack) {
  c10::DeviceIndex found = -1;
  const auto note = [&](const at::Tensor& tensor) {
    if (found < 0 && tensor.device().type() == kNpu) found = tensor.device().index();
  };
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  for (auto value = stack.end() - count; value != stack.end(); ++value) capture::for_each_tensor(*value, note);
  return found < 0 ? current_device() : found;
}

bool has_cpu_kernel(const OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd);
}

// Kernels of operators that are defined after the device. An operator may be
// removed and defined again with another schema.
std::shared_ptr<const BoxedKernel> later_kernel(const OperatorHandle& op) {
  struct Known {
    c10::FunctionSchema schema;
    std::shared_ptr<const BoxedKernel> kernel;
  };
  static std::mutex mutex;
  static auto* known = new std::unordered_map<c10::OperatorName, Known>;
  const std::lock_guard lock(mutex);
  auto found = known->find(op.operator_name());
  if (found == known->end() || found->second.schema != op.schema())
    found = known->insert_or_assign(op.operator_name(), Known{op.schema(), std::make_shared<BoxedKernel>(op)}).first;
  return found->second.kernel;
}

void fallback(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(has_cpu_kernel(op), "the npu device has no kernel of ", op.operator_name(),
                              ", and no CPU kernel to run in its place. torch.library.impl with \"PrivateUse1\", or "
                              "\"CPU\", gives it one.");
  call_boxed(op, keys, stack);
}

// Operators whose composite kernels must not run on npu's tensors: they ask for the type of the device and know only
// torch's own devices, or they call several operators. Those of scans would each be a CPU call of its own. Products
// inside of a kernel of cpu are ATen's, in graphs and alone.
constexpr std::string_view kBoxedThoughComposite[] = {
    at::_ops::convolution::name,    at::_ops::convolution_backward::name,
    at::_ops::_convolution::name,   at::_ops::_lazy_clone::name,
    at::_ops::mode::name,           at::_ops::_conj_physical::name,
    at::_ops::conj_physical_::name, at::_ops::cummax::name,
    at::_ops::cummin::name,         at::_ops::logcumsumexp::name,
    at::_ops::kaiser_window::name,  at::_ops::_euclidean_dist::name,
    at::_ops::_trilinear::name,     at::_ops::linalg_pinv_atol_rtol_tensor::name,
};

bool is_boxed(const OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  if (op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) return false;
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CPU) || name.find("::_foreach_") != name.npos) return true;
  // An overload that is decomposed under gradients keeps its decomposition.
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) return false;
  return std::ranges::find(kBoxedThoughComposite, name) != std::end(kBoxedThoughComposite);
}

}  // namespace

void launch_watched(const OperatorHandle& op, Stack& stack, c10::Stream stream, c10::function_ref<void()> run) {
  const auto capture = capture::recorder_of(stream);
  if (!capture) return run();
  capture->launch(op, stack, stream, run);
}

void launch_watched(const OperatorHandle& op, Stack& stack, c10::function_ref<void()> run) {
  launch_watched(op, stack, device::current_stream(device_of_call(op, stack)), run);
}

void call_boxed(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  (*later_kernel(op))(op, keys, stack);
}

void register_boxed_kernels(const std::string& name_space) {
  // Never destroyed: kernels are removed with their library.
  auto* library =
      new torch::Library(torch::Library::IMPL, name_space, c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  const std::string prefix = name_space + "::";
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with(prefix)) continue;
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || !is_boxed(*op)) continue;
    const std::string local = toString(name).substr(prefix.size());
    library->impl(local.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(*op)));
  }
}

void register_boxed_fallback() {
  static auto* all = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace npugraph::eager
