// SPDX-License-Identifier: Apache-2.0
// The operators of Ascend's namespaces "npu" and "atb". All their schemas are in schemas_*.inc. A family of operators
// gives kernels to some of them, each written once, as ATen operators:
//
//   void define_norms(Definitions& npu) {
//     npu.composed("npu_rms_norm", &rms_norm, "y = x / sqrt(mean(x^2) + epsilon) * gamma; rstd in float32");
//   }
//
// A composed operator runs on cpu tensors, on npu tensors over the same memory (through torch/eager), and on meta and
// fake tensors, whose sizes may be symbols (through torch_npu, under whose fake mode each of its ATen operators is
// fake). Compiled graphs contain its ATen operators instead of it, and its gradient is that of its ATen operators. So
// its kernel may read the sizes of tensors (sym_sizes), but never their values.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/library.h>

#include "torch/npu/operators.h"

namespace npugraph::npu_ops {

using npu::Operator;

class Definitions {
 public:
  explicit Definitions(const char* name_space);

  // `kernel` is a function of the types that torch::Library expects for the schema. `definition` says what it computes
  // and, if that is not obvious, names the source.
  template <typename Kernel>
  void composed(const char* name, Kernel&& kernel, const char* definition) {
    cpu_.impl(name, std::forward<Kernel>(kernel));
    add(name, {.definition = definition, .has_kernel = true, .has_meta = true, .is_composed = true});
  }
  // The same for an operator that writes arguments without saying so in its schema, or that writes its own tensors. It
  // is never recorded as one call, so that every tracer sees what its parts write.
  template <typename Kernel>
  void composite(const char* name, Kernel* kernel, const char* definition) {
    schemas_.impl(name, torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, kernel));
    add(name, {.definition = definition, .has_kernel = true, .has_meta = true, .is_composite = true});
  }
  // Like composed, for an operator that reads values of its arguments, or whose results have sizes that depend on them.
  // Compiled graphs call it whole, and `meta` gives sizes, strides and types of its results.
  template <typename Kernel, typename Meta>
  void computed(const char* name, Kernel&& kernel, Meta&& meta, const char* definition) {
    cpu_.impl(name, std::forward<Kernel>(kernel));
    meta_.impl(name, std::forward<Meta>(meta));
    add(name, {.definition = definition, .has_kernel = true, .has_meta = true});
  }
  // Computed in calls that pass one of the arguments `whole_with`, composed in all others.
  template <typename Kernel, typename Meta>
  void composed_without(std::vector<std::string> whole_with, const char* name, Kernel&& kernel, Meta&& meta,
                        const char* definition) {
    cpu_.impl(name, std::forward<Kernel>(kernel));
    meta_.impl(name, std::forward<Meta>(meta));
    add(name, {.definition = definition,
               .has_kernel = true,
               .has_meta = true,
               .is_composed = true,
               .whole_with = std::move(whole_with)});
  }
  // An operator on properties that only npu tensors have. Its gradient is that of its ATen operators;
  // compiled graphs call it whole.
  template <typename Kernel, typename Meta>
  void on_npu(const char* name, Kernel* kernel, Meta* meta, const char* definition) {
    npu_.impl(name, kernel);
    meta_.impl(name, meta);
    add(name, {.definition = definition, .has_kernel = true, .has_meta = true, .is_on_npu_alone = true});
  }
  // The same for an operator whose result is no tensor: it has no meta kernel, and graphs break there.
  template <typename Kernel>
  void on_npu(const char* name, Kernel* kernel, const char* definition) {
    npu_.impl(name, kernel);
    add(name, {.definition = definition, .has_kernel = true, .is_on_npu_alone = true});
  }
  // An operator that creates tensors, on npu or meta as its argument `device` says.
  template <typename Kernel>
  void factory(const char* name, Kernel* kernel, const char* definition) {
    select_.impl(name, kernel);
    add(name, {.definition = definition, .has_kernel = true, .has_meta = true, .is_on_npu_alone = true});
  }
  // An operator without tensors that marks a place in a graph.
  template <typename Kernel>
  void mark(const char* name, Kernel* kernel, const char* definition) {
    schemas_.impl(name, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, kernel));
    add(name, {.definition = definition, .has_kernel = true, .has_meta = true});
  }
  // An operator of which only the sizes, strides and types of the results are known. Calls that need values
  // raise NotImplementedError.
  template <typename Meta>
  void shaped(const char* name, Meta&& meta) {
    meta_.impl(name, std::forward<Meta>(meta));
    add(name, {.has_meta = true});
  }

  // Must be called once, after the last of the above: defines the second forms (graph_forms.h), and declares the operators
  // (torch/npu/operators.h).
  void complete();

 private:
  const std::vector<const char*>& schemas() const;
  void add(const char* name, Operator facts);

  std::string name_space_;
  std::vector<Operator> rows_;
  torch::Library schemas_, cpu_, npu_, select_, meta_, autograd_, inplace_;
};

}  // namespace npugraph::npu_ops
