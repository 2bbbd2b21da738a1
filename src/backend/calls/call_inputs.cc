// SPDX-License-Identifier: Apache-2.0
#include "backend/calls/call_inputs.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "backend/bridge/convert.h"
#include "backend/bridge/dispatch.h"
#include "base/error.h"
#include "base/words.h"

namespace npugraph::calls {

namespace {

constexpr int64_t kSymbolic = -1;
constexpr size_t kInputsAhead = 12;  // distance in inputs between prefetching and comparing
constexpr size_t kMostDims = 5;  // dimensions that a TensorImpl stores inline, so that BoundInput::sizes stays valid
constexpr size_t kLineBytes = 64;

std::vector<int64_t> known_dims(const std::vector<program::Dim>& dims) {
  std::vector<int64_t> known;
  for (const program::Dim& dim : dims) known.push_back(dim.is_constant() ? dim.constant : kSymbolic);
  return known;
}

// Whether it is dense memory on the required device, in any state of autograd and autocast.
bool is_plain(const c10::TensorImpl& tensor, const InputSpec& spec) {
  constexpr c10::DispatchKeySet kHarmless =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
  return tensor.key_set() - kHarmless == spec.keys && (spec.device.is_cpu() || tensor.device() == spec.device);
}

bool sizes_fit(at::IntArrayRef given, const std::vector<int64_t>& wanted) {
  if (given.size() != wanted.size()) return false;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != wanted[i] && wanted[i] != kSymbolic) return false;
  }
  return true;
}

bool strides_fit(at::IntArrayRef given, const InputSpec& spec, at::IntArrayRef sizes) {
  if (std::ranges::count(sizes, 0) > 0) return true;  // nothing lies anywhere
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

// A written input must not share its pages with a lazy copy.
void* memory_of(c10::StorageImpl& storage, bool mutated) {
  return mutated ? storage.mutable_data() : const_cast<void*>(storage.data());
}

bool same_memory(const runtime::BoundInput& a, const runtime::BoundInput& b) {
  return a.data == b.data && a.object == b.object && a.capacity == b.capacity && a.storage_offset == b.storage_offset;
}

template <typename Given, typename Wanted>
[[noreturn]] void refuse(const InputSpec& spec, const char* what, const Given& given, const Wanted& wanted) {
  throw UserError(cat("input ", spec.source, " has ", what, " ", given, "; the graph was compiled for ", wanted));
}

}  // namespace

InputSpec::InputSpec(const program::Program& program, const program::Input& input, size_t index, bool freeze)
    : is_scalar(input.buffer == program::kNone), mutated(input.mutated), source(cat(index, " (", input.source, ")")) {
  if (is_scalar) {
    for (const program::Symbol& symbol : program.symbols) {
      if (symbol.input == static_cast<int32_t>(index) && symbol.dim == program::kNone) scalar_kind = symbol.kind;
    }
    return;
  }
  const program::Buffer& buffer = program.buffers.at(input.buffer);
  opaque = buffer.opaque;
  device = bridge::to_torch(buffer.device);
  keys = c10::DispatchKeySet(device.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::PrivateUse1);
  read =
      buffer.first_task != program::kNone || std::ranges::any_of(program.outputs, [&](const program::Output& output) {
        return output.kind == program::Output::Kind::kTensor && output.tensor.buffer == input.buffer;
      });
  frozen = freeze && read && !mutated && !opaque && buffer.cls == program::BufferClass::kParameter;
  dtype = c10::scalarTypeToTypeMeta(bridge::to_torch(input.dtype));
  item_bytes = size_of(input.dtype);
  sizes = known_dims(input.sizes);
  strides = known_dims(input.strides);
}

bool InputSpec::holds_float() const {
  return sizes.empty() && dtype == caffe2::TypeMeta::Make<double>() && device.is_cpu() && !mutated && !opaque;
}

void CallInputs::hold(std::span<PyObject* const> items, size_t wanted) {
  if (items.size() != wanted)
    throw UserError(cat("got ", counted(items.size(), "input"), "; the graph was compiled for ", wanted));
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
  if (bound_.size() != specs.size()) make_room(specs);
  for (size_t i = 0; i < specs.size(); ++i) {
    if (i + kInputsAhead < specs.size()) fetch(i + kInputsAhead);
    if (is_known(i)) continue;
    const runtime::BoundInput before = std::exchange(bound_[i], {});
    known_[i].tensor = nullptr;
    bind(i, specs[i]);
    if (!same_memory(before, bound_[i]) || !has_known_dims(i)) version_ = runtime::new_inputs_version();
    remember(i, specs[i]);
  }
}

void CallInputs::make_room(const std::vector<InputSpec>& specs) {
  bound_.resize(specs.size());
  known_.resize(specs.size());
  size_t dims = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    known_[i].first_dim = static_cast<uint32_t>(dims);
    known_[i].mutated = specs[i].mutated;
    known_[i].read = specs[i].read;
    known_[i].frozen = specs[i].frozen;
    known_[i].rank = static_cast<uint8_t>(specs[i].sizes.size());
    dims += 2 * specs[i].sizes.size();
  }
  dims_.resize(dims, kSymbolic);
}

// Prefetches what is_known() reads.
void CallInputs::fetch(size_t index) const {
  const auto all_of = [](const void* object, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(static_cast<const char*>(object) + at);
  };
  const Known& known = known_[index];
  __builtin_prefetch(objects_[index]);
  all_of(known.tensor, sizeof(c10::TensorImpl));
  all_of(known.storage, sizeof(c10::StorageImpl));
}

// Whether everything that binding reads of an input is as it was when the input was bound.
bool CallInputs::is_known(size_t index) const {
  const Known& known = known_[index];
  PyObject* object = objects_[index];
  if (known.tensor == nullptr || Py_TYPE(object) != known.type) return false;
  c10::TensorImpl& tensor = *THPVariable_Unpack(object).unsafeGetTensorImpl();
  if (&tensor == known.tensor && known.frozen) {
    return known.storage->data() == known.memory && known.storage->nbytes() == known.storage_bytes;
  }
  if (&tensor != known.tensor || tensor.key_set().raw_repr() != known.keys || tensor.dtype() != known.dtype)
    return false;
  c10::StorageImpl* storage = tensor.unsafe_storage().unsafeGetStorageImpl();
  const at::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  const int64_t* dims = dims_.data() + known.first_dim;
  if (storage != known.storage || tensor.storage_offset() != known.storage_offset || sizes.size() != known.rank ||
      !std::equal(sizes.begin(), sizes.end(), dims) || !std::equal(strides.begin(), strides.end(), dims + known.rank))
    return false;
  return !known.read ||
         (memory_of(*storage, known.mutated) == known.memory && storage->nbytes() == known.storage_bytes);
}

// Whether a bound input has the sizes and strides that remember() noted last.
bool CallInputs::has_known_dims(size_t index) const {
  const runtime::BoundInput& bound = bound_[index];
  const size_t rank = known_[index].rank;
  const int64_t* dims = dims_.data() + known_[index].first_dim;
  if (rank == 0 || bound.sizes == nullptr) return true;  // an opaque input has none
  return std::equal(dims, dims + rank, bound.sizes) && std::equal(dims + rank, dims + 2 * rank, bound.strides);
}

void CallInputs::remember(size_t index, const InputSpec& spec) {
  PyObject* object = objects_[index];
  if (spec.is_scalar || spec.opaque || spec.sizes.size() > kMostDims || !THPVariable_Check(object)) return;
  c10::TensorImpl& tensor = *THPVariable_Unpack(object).unsafeGetTensorImpl();
  if (!is_plain(tensor, spec)) return;
  const at::Tensor& memory = spec.frozen ? frozen_memory(index, THPVariable_Unpack(object)) : at::Tensor();
  c10::StorageImpl* storage =
      (spec.frozen ? *memory.unsafeGetTensorImpl() : tensor).unsafe_storage().unsafeGetStorageImpl();
  Known& known = known_[index];
  known.type = Py_TYPE(object);
  known.tensor = &tensor;
  known.storage = storage;
  known.memory = spec.read ? memory_of(*storage, spec.mutated) : nullptr;
  known.storage_bytes = storage->nbytes();
  known.storage_offset = tensor.storage_offset();
  known.keys = tensor.key_set().raw_repr();
  known.dtype = tensor.dtype();
  std::ranges::copy(tensor.sizes(), dims_.begin() + known.first_dim);
  std::ranges::copy(tensor.strides(), dims_.begin() + known.first_dim + known.rank);
}

// The storage of an object that is a tensor which nobody else has; else null.
c10::StorageImpl* CallInputs::storage_of_own(size_t index) const {
  PyObject* const object = objects_[index];
  if (Py_REFCNT(object) != 1 || !THPVariable_Check(object)) return nullptr;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (tensor.use_count() != 1 || !tensor.unsafeGetTensorImpl()->has_storage()) return nullptr;
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

void CallInputs::free_memory(size_t index) {
  c10::StorageImpl* const storage = storage_of_own(index);
  if (storage == nullptr) return;
  done_.push_back(storage);
  const auto own = std::ranges::count(done_, storage);
  if (c10::raw::intrusive_ptr::use_count(storage) != static_cast<size_t>(own)) return;
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, storage->device()));
  storage->set_nbytes(0);
}

void CallInputs::clear() {
  resolved_.clear();
  done_.clear();
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
  if (PyFloat_Check(object) && spec.holds_float()) {
    const bridge::BelowAutograd below;
    resolved_.push_back({index, at::scalar_tensor(PyFloat_AS_DOUBLE(object), at::kDouble)});
    return bind_memory(*resolved_.back().tensor.unsafeGetTensorImpl(), spec, bound);
  }
  if (!THPVariable_Check(object)) refuse(spec, "type", Py_TYPE(object)->tp_name, "a tensor");
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (spec.opaque) {
    bound.object = tensor.unsafeGetTensorImpl();
    return;
  }
  if (is_plain(*tensor.unsafeGetTensorImpl(), spec)) [[likely]] {
    bind_memory(*(spec.frozen ? frozen_memory(index, tensor) : tensor).unsafeGetTensorImpl(), spec, bound);
    return;
  }
  if (tensor.device() != spec.device) refuse(spec, "device", tensor.device(), spec.device);
  if (tensor.layout() != at::kStrided) refuse(spec, "layout", tensor.layout(), at::kStrided);
  if (spec.mutated || (!tensor.is_conj() && !tensor.is_neg())) refuse(spec, "form", tensor.toString(), "plain memory");
  const bridge::BelowAutograd below;
  resolved_.push_back({index, tensor.resolve_conj().resolve_neg()});
  const at::Tensor& own = resolved_.back().tensor;
  staged_bytes_ += static_cast<int64_t>(own.nbytes());
  bind_memory(*own.unsafeGetTensorImpl(), spec, bound);
}

const at::Tensor& CallInputs::frozen_memory(size_t index, const at::Tensor& parameter) {
  auto found = std::ranges::find(frozen_, index, &Frozen::index);
  c10::TensorImpl* const impl = parameter.unsafeGetTensorImpl();
  if (found != frozen_.end() && found->parameter._unsafe_get_target() == impl) return found->memory;
  at::Tensor memory(impl->shallow_copy_and_detach(c10::VariableVersion(0), false));
  Frozen made{index, c10::weak_intrusive_ptr<c10::TensorImpl>(parameter.getIntrusivePtr()), std::move(memory)};
  if (found == frozen_.end()) return frozen_.emplace_back(std::move(made)).memory;
  *found = std::move(made);
  return found->memory;
}

void CallInputs::bind_memory(const c10::TensorImpl& tensor, const InputSpec& spec, runtime::BoundInput& bound) {
  if (tensor.dtype() != spec.dtype) refuse(spec, "dtype", tensor.dtype(), spec.dtype);
  const at::IntArrayRef sizes = tensor.sizes();
  if (!sizes_fit(sizes, spec.sizes)) refuse(spec, "sizes", sizes, dims_text(spec.sizes));
  if (!strides_fit(tensor.strides(), spec, sizes)) refuse(spec, "strides", tensor.strides(), dims_text(spec.strides));
  bound.sizes = sizes.data();
  bound.strides = tensor.strides().data();
  bound.storage_offset = tensor.storage_offset();
  if (!spec.read) return;
  c10::StorageImpl& storage = *tensor.unsafe_storage().unsafeGetStorageImpl();
  bound.storage = &storage;
  void* base = memory_of(storage, spec.mutated);
  const int64_t offset = spec.item_bytes * tensor.storage_offset();
  bound.data = base == nullptr ? nullptr : static_cast<std::byte*>(base) + offset;
  // A tensor without elements may start behind the end of its storage.
  bound.capacity = std::max<int64_t>(static_cast<int64_t>(storage.nbytes()) - offset, 0);
}

}  // namespace npugraph::calls
