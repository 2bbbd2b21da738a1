// SPDX-License-Identifier: Apache-2.0
// One unboxed kernel of npu from the type of an operator: at::_ops::add_Tensor and the like.
#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/IListRef.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "torch/capture/registry.h"
#include "torch/device/boxed.h"
#include "torch/device/cpu_call.h"
#include "torch/npu/generator.h"

namespace npugraph::device {

// How an argument of one type goes to the CPU kernel: `value` is what the kernel gets, made before it is called.
template <typename T>
struct Passed {
  T value;
  Passed(CpuCall&, T argument) : value(std::forward<T>(argument)) {}
  T get() { return std::forward<T>(value); }
};

template <>
struct Passed<const at::Tensor&> {
  at::Tensor value;
  Passed(CpuCall& call, const at::Tensor& argument) : value(call.read(argument)) {}
  const at::Tensor& get() { return value; }
};

template <>
struct Passed<at::Tensor&> {
  at::Tensor value;
  Passed(CpuCall& call, at::Tensor& argument) : value(call.write(argument)) {}
  at::Tensor& get() { return value; }
};

template <>
struct Passed<const std::optional<at::Tensor>&> {
  std::optional<at::Tensor> value;
  Passed(CpuCall& call, const std::optional<at::Tensor>& argument) {
    if (argument.has_value()) value = call.read(*argument);
  }
  const std::optional<at::Tensor>& get() { return value; }
};

inline std::vector<at::Tensor> read_all(CpuCall& call, const at::ITensorListRef& arguments) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(arguments.size());
  for (const at::Tensor& tensor : arguments) tensors.push_back(call.read(tensor));
  return tensors;
}

template <>
struct Passed<const at::ITensorListRef&> {
  std::vector<at::Tensor> tensors;
  at::ITensorListRef value;
  Passed(CpuCall& call, const at::ITensorListRef& argument)
      : tensors(read_all(call, argument)), value(at::TensorList(tensors)) {}
  const at::ITensorListRef& get() { return value; }
};

template <>
struct Passed<at::TensorList> {
  std::vector<at::Tensor> tensors;
  Passed(CpuCall& call, at::TensorList argument) : tensors(read_all(call, argument)) {}
  at::TensorList get() { return tensors; }
};

// Indices: they may stay on the host.
template <>
struct Passed<const c10::List<std::optional<at::Tensor>>&> {
  c10::List<std::optional<at::Tensor>> value;
  Passed(CpuCall& call, const c10::List<std::optional<at::Tensor>>& argument) {
    value.reserve(argument.size());
    for (const std::optional<at::Tensor>& element : argument)
      value.push_back(element.has_value() ? std::make_optional(call.read(*element, true)) : std::nullopt);
  }
  const c10::List<std::optional<at::Tensor>>& get() { return value; }
};

inline at::Tensor returned(CpuCall& call, at::Tensor value) { return call.result(std::move(value)); }

inline std::vector<at::Tensor> returned(CpuCall& call, std::vector<at::Tensor> values) {
  for (at::Tensor& value : values) value = call.result(std::move(value));
  return values;
}

template <typename... Ts>
std::tuple<Ts...> returned(CpuCall& call, std::tuple<Ts...> values) {
  return std::apply([&](Ts&... value) { return std::tuple<Ts...>(returned(call, std::move(value))...); }, values);
}

// The written argument, which an in-place or out= operator returns.
template <typename... Args>
at::Tensor& written_argument(Args&... arguments) {
  at::Tensor* out = nullptr;
  auto note = [&](auto& argument) {
    if constexpr (std::is_same_v<decltype(argument), at::Tensor&>) out = &argument;
  };
  (note(arguments), ...);
  return *out;
}

// What is recorded is recorded by the boxed kernel.
template <typename Op, typename Result, typename... Args>
Result through_boxed(Args... arguments) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name);
  return c10::impl::BoxedKernelWrapper<Result(Args...)>::call(c10::BoxedKernel::makeFromFunction<&call_boxed>(), op,
                                                              c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                              std::forward<Args>(arguments)...);
}

template <typename Op, typename Schema = typename Op::schema>
struct UnboxedKernel;

template <typename Op, typename Result, typename... Args>
struct UnboxedKernel<Op, Result(Args...)> {
  static Result run(Args... arguments) {
    if (capture::is_watching()) [[unlikely]]
      return through_boxed<Op, Result, Args...>(std::forward<Args>(arguments)...);
    CpuCall call(Op::name);
    // Braces fix the order in which arguments are looked at.
    std::tuple<Passed<Args>...> passed{Passed<Args>(call, std::forward<Args>(arguments))...};
    constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);
    if constexpr (std::is_same_v<Result, at::Tensor&>) {
      std::apply([&](auto&... value) -> void { Op::redispatch(kCpu, value.get()...); }, passed);
      call.finish();
      return written_argument(arguments...);
    } else {
      Result result = std::apply([&](auto&... value) { return Op::redispatch(kCpu, value.get()...); }, passed);
      call.finish();
      return returned(call, std::move(result));
    }
  }
};

// Registers the kernel of `Op`.
template <typename Op>
void register_unboxed(torch::Library& library) {
  std::string name = Op::name + sizeof("aten::") - 1;
  if (*Op::overload_name != '\0') name += std::string(".") + Op::overload_name;
  library.impl(name.c_str(), &UnboxedKernel<Op>::run);
}

}  // namespace npugraph::device
