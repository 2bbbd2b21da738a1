// SPDX-License-Identifier: Apache-2.0
// The operators of Ascend's namespaces "npu", "atb" and "air". Each has one row, which holds all that is known of it,
// in the file with its kernel:
//
//   void define_norms(OperatorLibrary& library) {
//     library.add({.schema = "npu::npu_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)",
//                  .kernel = parts(&rms_norm),
//                  .definition = "Root mean square normalization over the last dimensions of self. ..."});
//   }
//
// The row says how calls are computed (Computation in device/npu/operators.h). A kernel of parts runs on cpu tensors,
// on npu tensors over the same memory (through device/eager), and on meta and fake tensors, whose sizes may be symbols
// (through torch_npu, under whose fake mode each of its ATen operators is fake). So it may read the sizes of tensors
// (sym_sizes), but never their values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/library.h>

#include "device/npu/operators.h"

namespace npugraph::npu_ops {

// torch can make a graph functional only if its operators do not return what they write: such a result would be a
// second name of the same tensor. So operators that return what they write have a second form for graphs, which writes
// the same and returns nothing:
//
//   npu::npu_dtype_cast_(Tensor(a!) input, Tensor src) -> Tensor(a!)
//   npu::npu_dtype_cast__in_graphs(Tensor(a!) input, Tensor src) -> ()
//
// The argument `Tensor[] out` of overloads "out" is written, though their schemas do not say so; in the second form it
// is marked as written. Operators that are decomposed before they reach a graph (composite) need no second form.

// Defines the second form of `op`, which `schema` defined and which has its kernels, in `library`. Returns its name, or
// "" if the operator needs none. `library` must outlive all calls.
std::string define_graph_form(torch::Library& library, const char* schema, const c10::OperatorHandle& op);

// How an operator is computed, and by which functions. They have the types that torch::Library expects for the schema.
struct Kernel {
  npu::Computation computation;
  std::optional<torch::CppFunction> function = std::nullopt;
  // Gives sizes, strides and types of the results.
  std::optional<torch::CppFunction> meta = std::nullopt;
  std::vector<std::string> whole_with = {};
};

template <typename Function>
Kernel parts(Function&& function) {
  return {npu::Computation::kParts, torch::CppFunction(std::forward<Function>(function))};
}
// Computed as whole() in calls that pass one of the arguments `whole_with`, as parts() in all others.
template <typename Function, typename Meta>
Kernel parts_unless(std::vector<std::string> whole_with, Function&& function, Meta&& meta) {
  return {npu::Computation::kParts, torch::CppFunction(std::forward<Function>(function)),
          torch::CppFunction(std::forward<Meta>(meta)), std::move(whole_with)};
}
template <typename Function>
Kernel composite(Function&& function) {
  return {npu::Computation::kComposite, torch::CppFunction(std::forward<Function>(function))};
}
template <typename Function, typename Meta>
Kernel whole(Function&& function, Meta&& meta) {
  return {npu::Computation::kWhole, torch::CppFunction(std::forward<Function>(function)),
          torch::CppFunction(std::forward<Meta>(meta))};
}
template <typename Function, typename Meta>
Kernel on_npu(Function&& function, Meta&& meta) {
  return {npu::Computation::kOnNpu, torch::CppFunction(std::forward<Function>(function)),
          torch::CppFunction(std::forward<Meta>(meta))};
}
// The result is no tensor, so graphs break at a call.
template <typename Function>
Kernel on_npu(Function&& function) {
  return {npu::Computation::kOnNpu, torch::CppFunction(std::forward<Function>(function))};
}
template <typename Function>
Kernel factory(Function&& function) {
  return {npu::Computation::kFactory, torch::CppFunction(std::forward<Function>(function))};
}
template <typename Function>
Kernel mark(Function&& function) {
  return {npu::Computation::kMark, torch::CppFunction(std::forward<Function>(function))};
}
template <typename Meta>
Kernel sizes_only(Meta&& meta) {
  return {npu::Computation::kSizes, std::nullopt, torch::CppFunction(std::forward<Meta>(meta))};
}

struct OperatorRow {
  const char* schema;  // with the namespace
  Kernel kernel;
  npu::RecordGradient gradient = nullptr;  // of calls that graphs contain whole
  npu::Traits traits = {};
  // What the operator computes, shapes and types of its arguments, and the paper or document where it comes from. Users
  // read it as __doc__ and in docs/npu_operators.md.
  const char* definition;
};

// Registers operators with torch, and declares them (device/npu/operators.h). It must outlive all calls.
class OperatorLibrary {
 public:
  OperatorLibrary();

  void add(OperatorRow row);

 private:
  struct Namespace {
    explicit Namespace(const char* name);
    void add_kernels(const char* name, const c10::OperatorHandle& op, Kernel kernel);

    torch::Library schemas, cpu, npu, select, meta, autograd, inplace;
  };

  Namespace npu_, atb_, air_;
};

}  // namespace npugraph::npu_ops
