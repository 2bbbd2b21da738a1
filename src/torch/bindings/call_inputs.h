// SPDX-License-Identifier: Apache-2.0
// Python arguments -> bound inputs of a Program, with the checks that keep a run inside the memory of its inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/python_headers.h>

#include "program/program.h"
#include "runtime/executable.h"

namespace npugraph::bindings {

// What one input must be. Immutable once made.
struct InputSpec {
  InputSpec(const program::Program& program, const program::Input& input, size_t index);

  bool is_scalar = false;
  std::optional<ScalarKind> scalar_kind;  // nothing when no symbol has the scalar's value
  bool opaque = false;
  bool mutated = false;
  caffe2::TypeMeta dtype;
  int64_t item_bytes = 0;
  std::vector<int64_t> sizes;  // -1 where symbolic
  std::vector<int64_t> strides;
  std::string source;
};

// The arguments of one call. Used under the GIL.
class CallInputs {
 public:
  CallInputs() = default;
  CallInputs(const CallInputs&) = delete;
  CallInputs& operator=(const CallInputs&) = delete;
  ~CallInputs() { clear(); }

  // Takes the items out of `list` and binds them. UserError that names the first input that does not fit.
  void take_out_of(PyObject* list, const std::vector<InputSpec>& specs);
  // Binds the arguments of a call. UserError as above.
  void take(std::span<PyObject* const> arguments, const std::vector<InputSpec>& specs);
  // Gives the references back; the bound inputs are meaningless from here.
  void clear();

  std::span<const runtime::BoundInput> bound() const { return bound_; }
  // Bytes that were copied to make the bound inputs.
  int64_t staged_bytes() const { return staged_bytes_; }
  PyObject* object(size_t index) const { return objects_[index]; }
  std::span<PyObject* const> objects() const { return objects_; }
  // The tensor whose memory is bound for a tensor input.
  const at::Tensor& memory(size_t index) const;

 private:
  struct Resolved {
    size_t index = 0;
    at::Tensor tensor;
  };
  void hold(std::span<PyObject* const> items, size_t wanted);
  void bind(const std::vector<InputSpec>& specs);
  void bind(size_t index, const InputSpec& spec);
  void bind_tensor(size_t index, const InputSpec& spec);
  void bind_memory(const c10::TensorImpl& tensor, const InputSpec& spec, runtime::BoundInput& bound);

  std::vector<PyObject*> objects_;  // owned
  std::vector<runtime::BoundInput> bound_;
  std::vector<Resolved> resolved_;  // in place of lazily conjugated or negated inputs
  int64_t staged_bytes_ = 0;
};

}  // namespace npugraph::bindings
