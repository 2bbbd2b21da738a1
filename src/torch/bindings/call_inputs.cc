// SPDX-License-Identifier: Apache-2.0
#include "torch/bindings/call_inputs.h"

#include <algorithm>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "base/error.h"
#include "torch/bridge/convert.h"
#include "torch/bridge/dispatch.h"

namespace npugraph::bindings {

namespace {

constexpr int64_t kSymbolic = -1;

std::vector<int64_t> known_dims(const std::vector<program::Dim>& dims) {
  std::vector<int64_t> known;
  for (const program::Dim& dim : dims) known.push_back(dim.is_constant() ? dim.constant : kSymbolic);
  return known;
}

// Dense memory of the CPU, whatever the state of autograd and autocast.
bool is_plain(const c10::TensorImpl& tensor) {
  constexpr c10::DispatchKeySet kHarmless =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
  return tensor.key_set() - kHarmless == c10::DispatchKeySet(c10::DispatchKey::CPU);
}

bool sizes_fit(at::IntArrayRef given, const std::vector<int64_t>& wanted) {
  if (given.size() != wanted.size()) return false;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != wanted[i] && wanted[i] != kSymbolic) return false;
  }
  return true;
}

bool strides_fit(at::IntArrayRef given, const InputSpec& spec, at::IntArrayRef sizes) {
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != spec.strides[i] && spec.strides[i] != kSymbolic && sizes[i] > 1) return false;
  }
  return true;
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (const int64_t dim : dims) {
    if (text.size() > 1) text += ", ";
    text += dim == kSymbolic ? "*" : std::to_string(dim);
  }
  return text + "]";
}

template <typename Given, typename Wanted>
[[noreturn]] void refuse(const InputSpec& spec, const char* what, const Given& given, const Wanted& wanted) {
  throw UserError(cat("input ", spec.source, " has ", what, " ", given, "; the graph was compiled for ", wanted));
}

}  // namespace

InputSpec::InputSpec(const program::Program& program, const program::Input& input, size_t index)
    : is_scalar(input.buffer == program::kNone), mutated(input.mutated), source(cat(index, " (", input.source, ")")) {
  if (is_scalar) {
    for (const program::Symbol& symbol : program.symbols) {
      if (symbol.input == static_cast<int32_t>(index) && symbol.dim == program::kNone) scalar_kind = symbol.kind;
    }
    return;
  }
  opaque = program.buffers.at(input.buffer).opaque;
  dtype = c10::scalarTypeToTypeMeta(bridge::to_torch(input.dtype));
  item_bytes = size_of(input.dtype);
  sizes = known_dims(input.sizes);
  strides = known_dims(input.strides);
}

void CallInputs::hold(std::span<PyObject* const> items, size_t wanted) {
  if (items.size() != wanted)
    throw UserError(cat("got ", items.size(), " inputs; the graph was compiled for ", wanted));
  objects_.assign(items.begin(), items.end());
  for (PyObject* object : objects_) Py_INCREF(object);
}

void CallInputs::take_out_of(PyObject* list, const std::vector<InputSpec>& specs) {
  hold({PySequence_Fast_ITEMS(list), static_cast<size_t>(PyList_GET_SIZE(list))}, specs.size());
  if (PyList_SetSlice(list, 0, PY_SSIZE_T_MAX, nullptr) != 0) throw python_error();
  bind(specs);
}

void CallInputs::take(std::span<PyObject* const> arguments, const std::vector<InputSpec>& specs) {
  hold(arguments, specs.size());
  bind(specs);
}

void CallInputs::bind(const std::vector<InputSpec>& specs) {
  bound_.resize(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) bind(i, specs[i]);
}

void CallInputs::clear() {
  resolved_.clear();
  staged_bytes_ = 0;
  for (PyObject* object : objects_) Py_DECREF(object);
  objects_.clear();
}

const at::Tensor& CallInputs::memory(size_t index) const {
  const auto resolved = std::find_if(resolved_.begin(), resolved_.end(),
                                     [&](const Resolved& candidate) { return candidate.index == index; });
  return resolved != resolved_.end() ? resolved->tensor : THPVariable_Unpack(objects_[index]);
}

void CallInputs::bind(size_t index, const InputSpec& spec) {
  PyObject* object = objects_[index];
  runtime::BoundInput& bound = bound_[index];
  if (!spec.is_scalar) {
    bind_tensor(index, spec);
  } else if (spec.scalar_kind == ScalarKind::kFloat) {
    bound.scalar.f = PyFloat_AsDouble(object);
    if (bound.scalar.f == -1.0 && PyErr_Occurred() != nullptr) throw python_error();
  } else if (spec.scalar_kind) {
    bound.scalar.i = PyLong_AsLongLong(object);
    if (bound.scalar.i == -1 && PyErr_Occurred() != nullptr) throw python_error();
  }
}

void CallInputs::bind_tensor(size_t index, const InputSpec& spec) {
  PyObject* object = objects_[index];
  runtime::BoundInput& bound = bound_[index];
  if (!THPVariable_Check(object)) refuse(spec, "type", Py_TYPE(object)->tp_name, "a tensor");
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (spec.opaque) {
    bound.object = tensor.unsafeGetTensorImpl();
    return;
  }
  if (is_plain(*tensor.unsafeGetTensorImpl())) [[likely]] {
    bind_memory(*tensor.unsafeGetTensorImpl(), spec, bound);
    return;
  }
  if (!tensor.device().is_cpu()) refuse(spec, "device", tensor.device(), "cpu");
  if (tensor.layout() != at::kStrided) refuse(spec, "layout", tensor.layout(), at::kStrided);
  if (spec.mutated || (!tensor.is_conj() && !tensor.is_neg())) refuse(spec, "form", tensor.toString(), "plain memory");
  const bridge::BelowAutograd below;
  resolved_.push_back({index, tensor.resolve_conj().resolve_neg()});
  const at::Tensor& own = resolved_.back().tensor;
  staged_bytes_ += static_cast<int64_t>(own.nbytes());
  bind_memory(*own.unsafeGetTensorImpl(), spec, bound);
}

void CallInputs::bind_memory(const c10::TensorImpl& tensor, const InputSpec& spec, runtime::BoundInput& bound) {
  if (tensor.dtype() != spec.dtype) refuse(spec, "dtype", tensor.dtype(), spec.dtype);
  const at::IntArrayRef sizes = tensor.sizes();
  if (!sizes_fit(sizes, spec.sizes)) refuse(spec, "sizes", sizes, dims_text(spec.sizes));
  if (!strides_fit(tensor.strides(), spec, sizes)) refuse(spec, "strides", tensor.strides(), dims_text(spec.strides));
  // A written input must not share its pages with a lazy copy.
  c10::StorageImpl& storage = *tensor.unsafe_storage().unsafeGetStorageImpl();
  void* base = spec.mutated ? storage.mutable_data() : const_cast<void*>(storage.data());
  const int64_t offset = spec.item_bytes * tensor.storage_offset();
  bound.data = base == nullptr ? nullptr : static_cast<std::byte*>(base) + offset;
  bound.sizes = sizes.data();
  bound.storage_offset = tensor.storage_offset();
  // What has no elements may lie behind the end of its storage.
  bound.capacity = std::max<int64_t>(static_cast<int64_t>(storage.nbytes()) - offset, 0);
}

}  // namespace npugraph::bindings
