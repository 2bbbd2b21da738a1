// SPDX-License-Identifier: Apache-2.0
// The operators of Ascend's namespaces "npu" and "atb". Their schemas are all in schemas_*.inc; a family of operators gives
// some of them kernels, each written once, as ATen operators:
//
//   void define_norms(Definitions& npu) {
//     npu.composed("npu_rms_norm", &rms_norm, "y = x / sqrt(mean(x^2) + epsilon) * gamma; rstd in float32");
//   }
//
// What is composed runs on cpu tensors, on npu tensors over the same memory (through torch/device), and on meta and fake
// tensors, where its sizes may be symbols (through torch_npu, under whose fake mode each of its operators is fake); compiled graphs see its
// ATen operators in its place; and its gradient is that of its ATen operators. So it asks tensors for their sizes (sym_sizes),
// and never for their values.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/library.h>

namespace npugraph::npu_ops {

// What is known of one operator, for documentation and for compiled graphs.
struct Operator {
  std::string name;  // "npu::npu_rms_norm", "npu::npu_slice.out"
  std::string definition;
  bool has_kernel = false;
  bool has_meta = false;
  bool is_composed = false;
  bool is_composite = false;
  bool is_on_npu_alone = false;         // calls on tensors of cpu fail
  std::vector<std::string> whole_with;  // arguments with which a call of a composed operator is computed
};

class Definitions {
 public:
  explicit Definitions(const char* name_space);

  // `kernel` is a function of the types that torch::Library expects for the schema; `definition` says what it computes and,
  // where that is not obvious, by which source.
  template <typename Kernel>
  void composed(const char* name, Kernel&& kernel, const char* definition) {
    cpu_.impl(name, std::forward<Kernel>(kernel));
    add(name, {.definition = definition, .has_kernel = true, .has_meta = true, .is_composed = true});
  }
  // The same for an operator that writes arguments of which its schema does not say so, or tensors of its own: it is never
  // recorded as one call, so that all who trace it see what its parts write.
  template <typename Kernel>
  void composite(const char* name, Kernel* kernel, const char* definition) {
    schemas_.impl(name, torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, kernel));
    add(name, {.definition = definition, .has_kernel = true, .has_meta = true, .is_composite = true});
  }
  // The same as composed for an operator that reads values of its arguments, or whose results depend on them: compiled graphs
  // call it whole, and `meta` gives sizes, strides and types of its results.
  template <typename Kernel, typename Meta>
  void computed(const char* name, Kernel&& kernel, Meta&& meta, const char* definition) {
    cpu_.impl(name, std::forward<Kernel>(kernel));
    meta_.impl(name, std::forward<Meta>(meta));
    add(name, {.definition = definition, .has_kernel = true, .has_meta = true});
  }
  // Computed in calls that are given one of the arguments `whole_with`, composed in all others.
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
  // An operator of what only npu tensors have. Its gradient is that of its ATen operators; compiled graphs call it whole.
  template <typename Kernel, typename Meta>
  void on_npu(const char* name, Kernel* kernel, Meta* meta, const char* definition) {
    npu_.impl(name, kernel);
    meta_.impl(name, meta);
    add(name, {.definition = definition, .has_kernel = true, .has_meta = true, .is_on_npu_alone = true});
  }
  // The same for one whose result is no tensor: nothing can stand in for it, and graphs break there.
  template <typename Kernel>
  void on_npu(const char* name, Kernel* kernel, const char* definition) {
    npu_.impl(name, kernel);
    add(name, {.definition = definition, .has_kernel = true, .is_on_npu_alone = true});
  }
  // An operator that makes tensors, of npu or meta as its argument `device` says.
  template <typename Kernel>
  void factory(const char* name, Kernel* kernel, const char* definition) {
    select_.impl(name, kernel);
    add(name, {.definition = definition, .has_kernel = true, .has_meta = true, .is_on_npu_alone = true});
  }
  // An operator without tensors, which marks a place in a graph.
  template <typename Kernel>
  void mark(const char* name, Kernel* kernel, const char* definition) {
    schemas_.impl(name, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, kernel));
    add(name, {.definition = definition, .has_kernel = true, .has_meta = true});
  }
  // An operator of which only sizes, strides and types of the results are known. Calls with values raise NotImplementedError.
  template <typename Meta>
  void shaped(const char* name, Meta&& meta) {
    meta_.impl(name, std::forward<Meta>(meta));
    add(name, {.has_meta = true});
  }

  // To be called after the last of the above: gives the operators their second forms, and orders operators().
  void complete();

 private:
  const std::vector<const char*>& schemas() const;
  void add(const char* name, Operator facts);

  std::string name_space_;
  torch::Library schemas_, cpu_, npu_, select_, meta_, autograd_, inplace_;
};

// All operators, in order of their names. Empty before register_operators() (registration.h).
const std::vector<Operator>& operators();

}  // namespace npugraph::npu_ops
