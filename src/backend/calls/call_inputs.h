// SPDX-License-Identifier: Apache-2.0
// Python arguments -> bound inputs of a Program, with the checks that keep a run inside the memory of its inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/python_headers.h>

#include "program/program.h"
#include "runtime/call.h"

namespace npugraph::calls {

// The requirements for one input. Immutable once made.
struct InputSpec {
  // `frozen`: parameters are bound to the memory that they had first (option frozen_parameter).
  InputSpec(const program::Program& program, const program::Input& input, size_t index, bool frozen);

  bool is_scalar = false;
  std::optional<ScalarKind> scalar_kind;  // nullopt if no symbol has the scalar's value
  bool opaque = false;
  bool mutated = false;
  bool read = false;  // some task or output uses its memory
  bool frozen = false;
  c10::Device device{c10::kCPU};
  c10::DispatchKeySet keys;  // keys of dense memory on that device
  caffe2::TypeMeta dtype;
  int64_t item_bytes = 0;
  std::vector<int64_t> sizes;  // -1 where symbolic
  std::vector<int64_t> strides;
  std::string source;

  // Whether a Python float may be passed for it: Dynamo wraps floats of dynamic graphs in tensors without dimensions.
  bool holds_float() const;
};

// The arguments of successive calls. Inputs that have not changed since the previous call are not bound again. Used
// under the GIL.
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
  // Frees the memory of a tensor that nobody else has, and of which the call needs no element any more; if several
  // inputs lie in it, when all of them are done. The tensors stay, and are empty. Needs no GIL, but the caller must
  // hold it or run on behalf of the thread that released it.
  void free_memory(size_t index);
  // Drops the references to the arguments; bound() is invalid afterwards.
  void clear();

  runtime::BoundInputs bound() const { return {.all = bound_, .version = version_, .staged_bytes = staged_bytes_}; }
  PyObject* object(size_t index) const { return objects_[index]; }
  std::span<PyObject* const> objects() const { return objects_; }
  // The tensor whose memory is bound for a tensor input.
  const at::Tensor& memory(size_t index) const;

 private:
  struct Resolved {
    size_t index = 0;
    at::Tensor tensor;
  };
  // A tensor as it was bound: while it is the same, so is its BoundInput. Most memory that a call reads is not cached,
  // so this is one cache line, and holds the addresses of everything else that the comparison reads, to prefetch it.
  struct Known {
    const PyTypeObject* type = nullptr;
    // Only compared, as `storage` is unless `frozen`: both may be freed. Null: must be bound again.
    c10::TensorImpl* tensor = nullptr;
    c10::StorageImpl* storage = nullptr;
    const void* memory = nullptr;
    size_t storage_bytes = 0;
    int64_t storage_offset = 0;
    uint64_t keys = 0;
    uint32_t first_dim = 0;  // in dims_: sizes, then strides
    caffe2::TypeMeta dtype;
    uint8_t rank = 0;
    bool mutated : 1 = false;
    bool read : 1 = false;
    bool frozen : 1 = false;
  };
  static_assert(sizeof(Known) == 64);
  // A parameter that is bound to the memory that it had first.
  struct Frozen {
    size_t index = 0;
    c10::weak_intrusive_ptr<c10::TensorImpl> parameter;  // keeps its address from being reused
    at::Tensor memory;
  };
  c10::StorageImpl* storage_of_own(size_t index) const;
  const at::Tensor& frozen_memory(size_t index, const at::Tensor& parameter);
  void hold(std::span<PyObject* const> items, size_t wanted);
  void bind(const std::vector<InputSpec>& specs);
  void make_room(const std::vector<InputSpec>& specs);
  void fetch(size_t index) const;
  bool is_known(size_t index) const;
  bool has_known_dims(size_t index) const;
  void remember(size_t index, const InputSpec& spec);
  void bind(size_t index, const InputSpec& spec);
  void bind_tensor(size_t index, const InputSpec& spec);
  void bind_memory(const c10::TensorImpl& tensor, const InputSpec& spec, runtime::BoundInput& bound);

  std::vector<PyObject*> objects_;  // owned
  std::vector<runtime::BoundInput> bound_;
  std::vector<Known> known_;
  std::vector<int64_t> dims_;
  uint64_t version_ = 0;            // of bound_, unique in the process
  std::vector<Resolved> resolved_;  // tensors in place of lazily conjugated or negated inputs, and of numbers
  std::vector<Frozen> frozen_;
  std::vector<c10::StorageImpl*> done_;  // of the inputs of which the call needs no element any more
  int64_t staged_bytes_ = 0;
};

}  // namespace npugraph::calls
