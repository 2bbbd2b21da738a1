// SPDX-License-Identifier: Apache-2.0
// Makes the unboxed npu kernel of an operator from its type: at::_ops::add_Tensor and the like.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "device/capture/registry.h"
#include "device/eager/boxed.h"
#include "device/eager/cpu_call.h"
#include "device/npu/generator.h"
#include "device/npu/tensor.h"

namespace npugraph::eager {

// Lists of indices for CPU kernels.
using IndexList = c10::List<std::optional<at::Tensor>>;

// An empty list for aliases, which are given back by the destructor, the last one first. Making a list costs two
// allocations, so each thread keeps one.
class ReusedIndexList {
 public:
  ReusedIndexList() : kept_(kept()) {
    if (kept_ == nullptr || kept_->is_taken) kept_ = &own_.emplace();
    kept_->is_taken = true;
  }
  ReusedIndexList(const ReusedIndexList&) = delete;
  ReusedIndexList& operator=(const ReusedIndexList&) = delete;
  ~ReusedIndexList() {
    kept_->is_taken = false;
    IndexList& list = kept_->list;
    if (list.use_count() != 1) {  // a kernel keeps it
      list = IndexList();
      return;
    }
    for (size_t place = list.size(); place-- > 0;)
      if (std::optional<at::Tensor> index = list.extract(place)) npu::reuse_alias(*std::move(index));
    list.clear();
  }

  const IndexList& list() const { return kept_->list; }

 private:
  struct Kept {
    IndexList list;
    bool is_taken = false;
  };

  // Null at the end of the thread, when objects that are destroyed after the list may still call operators.
  static Kept* kept() {
    static constinit thread_local bool is_gone = false;
    struct Owned : Kept {
      ~Owned() { is_gone = true; }
    };
    if (is_gone) return nullptr;
    static thread_local Owned out;
    return &out;
  }

  Kept* kept_;
  std::optional<Kept> own_;
};

namespace op = at::_ops;  // op::add_Tensor: operators as torch's own headers name them

// How an argument of one type is passed to the CPU kernel: `value` is made before the kernel is
// called, and the kernel gets get(). Aliases are given back after the call, the last one first, so
// that the same call finds each in its place again.
template <typename T>
struct Passed {
  T value;
  Passed(CpuCall&, T argument) : value(std::forward<T>(argument)) {}
  T get() { return std::forward<T>(value); }
};

class Alias {
 public:
  explicit Alias(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  Alias(const Alias&) = delete;
  Alias& operator=(const Alias&) = delete;
  ~Alias() { npu::reuse_alias(std::move(tensor_)); }
  at::Tensor& get() { return tensor_; }

 private:
  at::Tensor tensor_;
};

template <>
struct Passed<const at::Tensor&> {
  Alias value;
  Passed(CpuCall& call, const at::Tensor& argument) : value(call.read(argument)) {}
  const at::Tensor& get() { return value.get(); }
};

template <>
struct Passed<at::Tensor&> {
  Alias value;
  Passed(CpuCall& call, at::Tensor& argument) : value(call.write(argument)) {}
  at::Tensor& get() { return value.get(); }
};

template <>
struct Passed<const std::optional<at::Tensor>&> {
  std::optional<at::Tensor> value;
  Passed(CpuCall& call, const std::optional<at::Tensor>& argument) {
    if (argument.has_value()) value = call.read(*argument);
  }
  Passed(const Passed&) = delete;
  Passed& operator=(const Passed&) = delete;
  ~Passed() {
    if (value.has_value()) npu::reuse_alias(*std::move(value));
  }
  const std::optional<at::Tensor>& get() { return value; }
};

class Aliases {
 public:
  Aliases(CpuCall& call, const at::ITensorListRef& arguments) {
    tensors_.reserve(arguments.size());
    for (const at::Tensor& tensor : arguments) tensors_.push_back(call.read(tensor));
  }
  Aliases(const Aliases&) = delete;
  Aliases& operator=(const Aliases&) = delete;
  ~Aliases() {
    for (auto tensor = tensors_.rbegin(); tensor != tensors_.rend(); ++tensor) npu::reuse_alias(std::move(*tensor));
  }
  at::TensorList get() const { return tensors_; }

 private:
  std::vector<at::Tensor> tensors_;
};

template <>
struct Passed<const at::ITensorListRef&> {
  Aliases aliases;
  at::ITensorListRef value;
  Passed(CpuCall& call, const at::ITensorListRef& argument) : aliases(call, argument), value(aliases.get()) {}
  const at::ITensorListRef& get() { return value; }
};

template <>
struct Passed<at::TensorList> {
  Aliases value;
  Passed(CpuCall& call, at::TensorList argument) : value(call, argument) {}
  at::TensorList get() { return value.get(); }
};

// Indices, which may be on the host.
template <>
struct Passed<const IndexList&> {
  ReusedIndexList value;
  Passed(CpuCall& call, const IndexList& argument) {
    for (const at::OptionalTensorRef element : at::IOptTensorListRef(argument)) {
      std::optional<at::Tensor> index;
      if (element.has_value()) index = call.read(*element, /*may_be_cpu=*/true);
      value.list().push_back(std::move(index));
    }
  }
  const IndexList& get() { return value.list(); }
};

// All arguments. They are made in order and destroyed in reverse order.
template <typename... Args>
struct PassedArguments {
  explicit PassedArguments(CpuCall&) {}
  template <typename Op, typename... Values>
  decltype(auto) redispatch(Values&... values) {
    constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);
    return Op::redispatch(kCpu, values.get()...);
  }
};

template <typename First, typename... Rest>
struct PassedArguments<First, Rest...> {
  Passed<First> first;
  PassedArguments<Rest...> rest;
  PassedArguments(CpuCall& call, First&& argument, Rest&&... arguments)
      : first(call, std::forward<First>(argument)), rest(call, std::forward<Rest>(arguments)...) {}
  template <typename Op, typename... Values>
  decltype(auto) redispatch(Values&... values) {
    return rest.template redispatch<Op>(values..., first);
  }
};

inline at::Tensor returned(CpuCall& call, at::Tensor value) { return call.result(std::move(value)); }

inline std::vector<at::Tensor> returned(CpuCall& call, std::vector<at::Tensor> values) {
  for (at::Tensor& value : values) value = call.result(std::move(value));
  return values;
}

template <typename... Ts>
std::tuple<Ts...> returned(CpuCall& call, std::tuple<Ts...> values) {
  return std::apply([&](Ts&... value) { return std::tuple<Ts...>(call.result(std::move(value))...); }, values);
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

// Runs the boxed kernel, which records calls for captures.
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
    PassedArguments<Args...> passed(call, std::forward<Args>(arguments)...);
    if constexpr (std::is_same_v<Result, at::Tensor&>) {
      call.run([&] { passed.template redispatch<Op>(); });
      call.finish();
      return written_argument(arguments...);
    } else {
      Result result = call.run([&] { return passed.template redispatch<Op>(); });
      call.finish();
      return returned(call, std::move(result));
    }
  }
};

// The name of `Op` in a library: "add.Tensor".
template <typename Op>
std::string schema_name() {
  std::string name = Op::name + sizeof("aten::") - 1;
  if (*Op::overload_name != '\0') name += std::string(".") + Op::overload_name;
  return name;
}

// Registers the kernel of `Op`.
template <typename Op>
void register_unboxed(torch::Library& library) {
  library.impl(schema_name<Op>().c_str(), &UnboxedKernel<Op>::run);
}

}  // namespace npugraph::eager
