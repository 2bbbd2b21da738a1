// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/call_tensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/words.h"
#include "ge/api/run/api_error.h"
#include "ge/data_types.h"
#include "program/offsets.h"
#include "tensor/shape.h"

namespace npugraph::ge {

using program::kNone;

namespace {

std::optional<DType> dtype_of(const ::ge::Tensor& tensor) {
  const DataTypeRow* row = find_type_by_number(tensor.GetTensorDesc().GetDataType());
  return row == nullptr ? std::nullopt : row->dtype;
}

std::string text_of(const ::ge::Tensor& tensor) {
  const ::ge::TensorDesc& desc = tensor.GetTensorDesc();
  const DataTypeRow* row = find_type_by_number(desc.GetDataType());
  const std::string type = row == nullptr ? cat("type ", desc.GetDataType()) : std::string(row->name);
  return program::shape_text(type, desc.GetShape().GetDims());
}

template <typename T>
T first_element(const ::ge::Tensor& tensor) {
  T value;
  std::memcpy(&value, tensor.GetData(), sizeof(T));
  return value;
}

// The value of an input that is a number of the graph; nullopt if the tensor does not hold one of this kind.
std::optional<Scalar> number_of(const ::ge::Tensor& tensor, ScalarKind kind) {
  const std::optional<DType> dtype = dtype_of(tensor);
  if (!dtype || tensor.GetTensorDesc().GetShape().GetShapeSize() != 1 || tensor.GetData() == nullptr) return {};
  if (static_cast<int64_t>(tensor.GetSize()) < size_of(*dtype)) return {};
  if (kind == ScalarKind::kFloat) {
    if (*dtype == DType::kF32) return Scalar::of_float(first_element<float>(tensor));
    if (*dtype == DType::kF64) return Scalar::of_float(first_element<double>(tensor));
    return {};
  }
  if (*dtype == DType::kBool) return Scalar::of_bool(first_element<uint8_t>(tensor) != 0);
  if (*dtype == DType::kI32) return Scalar::of_int(first_element<int32_t>(tensor));
  if (*dtype == DType::kI64) return Scalar::of_int(first_element<int64_t>(tensor));
  return {};
}

}  // namespace

CallInputs::CallInputs(const program::Program& program, std::vector<::ge::Tensor> tensors)
    : program_(program), tensors_(std::move(tensors)), symbols_(program) {
  if (tensors_.size() != program.inputs.size())
    throw ApiError(::ge::PARAM_INVALID,
                   cat("the graph has ", counted(program.inputs.size(), "input"), ", got ", tensors_.size()));
  bound_.resize(tensors_.size());
  for (const ::ge::Tensor& tensor : tensors_) sizes_.push_back(tensor.GetTensorDesc().GetShape().GetDims());
  find_symbols();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const program::Input& input = program.inputs[i];
    if (input.buffer == kNone) continue;
    check_rank(i);
    if (values(input.sizes) != sizes_[i] || std::ranges::any_of(sizes_[i], [](int64_t size) { return size < 0; }))
      fail_shape(i);
    bound_[i].data = const_cast<uint8_t*>(tensors_[i].GetData());  // written only where the graph writes its input
    bound_[i].sizes = sizes_[i].data();
    bound_[i].capacity = static_cast<int64_t>(tensors_[i].GetSize());
  }
}

void CallInputs::take_data(BlockHost& host) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const program::Input& input = program_.inputs[i];
    if (input.buffer == kNone) continue;
    if (bound_[i].capacity < bytes_of(i))
      throw ApiError(::ge::PARAM_INVALID, cat(name(i), " is ", text_of(tensors_[i]), ", which needs ", bytes_of(i),
                                              " bytes of data, got ", bound_[i].capacity));
    std::vector<int64_t> strides = values(input.strides);
    if (is_row_major(sizes_[i], strides)) continue;
    check_apart(i);
    bound_[i].capacity = strided_bytes(sizes_[i], strides, input.dtype);
    void* object = host.allocate(bound_[i].capacity, &bound_[i].data);
    laid_.push_back({i, std::move(strides), std::unique_ptr<void, Release>(object)});
  }
}

// The run does not see the tensors of inputs that are copied, and thus not that they overlap.
void CallInputs::check_apart(size_t laid) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (i == laid || program_.inputs[i].buffer == kNone) continue;
    if (!program_.inputs[i].mutated && !program_.inputs[laid].mutated) continue;
    if (has_bytes_in(i, tensors_[laid].GetData(), bytes_of(laid)))
      throw ApiError(::ge::PARAM_INVALID,
                     cat(name(laid), " and ", name(i), " overlap, and the graph writes one of them"));
  }
}

void CallInputs::lay_out() {
  for (const Laid& laid : laid_) {
    const size_t i = laid.input;
    copy_from_row_major(tensors_[i].GetData(), sizes_[i], laid.strides, program_.inputs[i].dtype, bound_[i].data);
  }
}

void CallInputs::write_back() {
  for (const Laid& laid : laid_) {
    const size_t i = laid.input;
    if (!program_.inputs[i].mutated) continue;
    copy_to_row_major(bound_[i].data, sizes_[i], laid.strides, program_.inputs[i].dtype, tensors_[i].GetData());
  }
}

std::string CallInputs::name(size_t i) const { return program::input_name(program_, i); }

void CallInputs::fail_shape(size_t i) const {
  const program::Input& input = program_.inputs[i];
  throw ApiError(::ge::PARAM_INVALID,
                 cat(name(i), " is ", program::shape_text(program_, row_of(input.dtype).name, input.sizes),
                     symbols_.text(), ", got ", text_of(tensors_[i])));
}

void CallInputs::check_rank(size_t i) const {
  const program::Input& input = program_.inputs[i];
  if (dtype_of(tensors_[i]) != input.dtype || sizes_[i].size() != input.sizes.size()) fail_shape(i);
}

void CallInputs::find_symbols() {
  for (const program::Symbol& symbol : program_.symbols) {
    NG_CHECK(symbol.input != kNone, "symbol ", symbol.name, " of a model is no size of an input");
    if (symbol.dim != kNone) {
      check_rank(symbol.input);
      symbols_.set(symbol, Scalar::of_int(sizes_[symbol.input][symbol.dim]));
      continue;
    }
    const std::optional<Scalar> number = number_of(tensors_[symbol.input], symbol.kind);
    if (!number)
      throw ApiError(::ge::PARAM_INVALID,
                     cat(name(symbol.input), " is ", symbol.kind == ScalarKind::kFloat ? "a number" : "an integer",
                         ": a tensor with one element of data, got ", text_of(tensors_[symbol.input])));
    bound_[symbol.input].scalar =
        number->kind == ScalarKind::kFloat ? ng_scalar{.f = number->f} : ng_scalar{.i = number->i};
    symbols_.set(symbol, *number);
  }
}

int64_t CallInputs::bytes_of(size_t i) const { return dense_bytes(sizes_[i], program_.inputs[i].dtype); }

bool CallInputs::has_bytes_in(size_t i, const void* data, int64_t bytes) const {
  const auto* begin = static_cast<const uint8_t*>(data);
  const uint8_t* tensor = tensors_[i].GetData();
  return begin < tensor + bytes_of(i) && tensor < begin + bytes;
}

bool CallInputs::overlaps(const void* data, int64_t bytes) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (program_.inputs[i].buffer != kNone && has_bytes_in(i, data, bytes)) return true;
  }
  return false;
}

using program::Output;

namespace {

struct ReleaseObjects {
  std::span<const runtime::BoundOutput> results;
  ~ReleaseObjects() {
    for (const runtime::BoundOutput& result : results) {
      if (result.object != nullptr) BlockHost::release_block(result.object);
    }
  }
};

}  // namespace

bool CallOutputs::Strided::is_dense() const { return is_row_major(sizes, strides); }

int64_t CallOutputs::Strided::bytes() const { return dense_bytes(sizes, dtype); }

void CallOutputs::Strided::copy(const void* from, uint8_t* row_major) const {
  if (from == row_major && is_dense()) return;
  copy_to_row_major(from, sizes, strides, dtype, row_major);
}

CallOutputs::CallOutputs(const program::Program& program, const CallInputs& inputs,
                         std::span<const ::ge::Tensor> wanted, BlockHost& host) {
  if (!wanted.empty() && wanted.size() != program.outputs.size())
    throw ApiError(::ge::PARAM_INVALID, cat("the graph has ", counted(program.outputs.size(), "output"), ", got ",
                                            wanted.size(), "; none asks for memory of the engine"));
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    layouts_.push_back(layout_of(program, program.outputs[i], inputs));
    add(wanted.empty() ? nullptr : &wanted[i], layouts_.back(), host);
  }
  check_apart();
  memory_.resize(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) place(i, program.outputs[i], inputs);
}

CallOutputs::~CallOutputs() {
  for (const runtime::ResultMemory& memory : memory_) {
    if (memory.object != nullptr) BlockHost::release_block(memory.object);
  }
}

CallOutputs::Strided CallOutputs::layout_of(const program::Program& program, const Output& output,
                                            const CallInputs& inputs) {
  if (output.kind == Output::Kind::kInput) {
    const program::Input& input = program.inputs[output.input];
    return {input.dtype, inputs.values(input.sizes), inputs.values(input.strides)};
  }
  NG_CHECK(output.kind == Output::Kind::kTensor, "an output of a model is no tensor");
  return {output.tensor.dtype, inputs.values(output.tensor.sizes), inputs.values(output.tensor.strides)};
}

void CallOutputs::add(const ::ge::Tensor* wanted, const Strided& layout, BlockHost& host) {
  const auto type = static_cast<::ge::DataType>(row_of(layout.dtype).number);
  const ::ge::TensorDesc desc(::ge::Shape(layout.sizes), ::ge::FORMAT_ND, type);
  ::ge::Tensor tensor;
  if (wanted != nullptr && wanted->GetData() != nullptr) {
    if (static_cast<int64_t>(wanted->GetSize()) < layout.bytes())
      throw ApiError(::ge::PARAM_INVALID, cat("output ", tensors_.size(), " has ", layout.bytes(),
                                              " bytes, its tensor has ", wanted->GetSize()));
    tensor = *wanted;
  } else {
    void* data = nullptr;
    void* object = host.allocate(layout.bytes(), &data);
    tensor.SetData(static_cast<uint8_t*>(data), static_cast<size_t>(layout.bytes()),
                   [object](uint8_t*) { BlockHost::release_block(object); });
  }
  tensor.SetTensorDesc(desc);
  tensors_.push_back(std::move(tensor));
}

void CallOutputs::check_apart() const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const uint8_t* a = tensors_[i].GetData();
      const uint8_t* b = tensors_[j].GetData();
      if (a < b + layouts_[j].bytes() && b < a + layouts_[i].bytes())
        throw ApiError(::ge::PARAM_INVALID, cat("outputs ", j, " and ", i, " have tensors that overlap"));
    }
  }
}

bool CallOutputs::lies_in(size_t i, const CallInputs& inputs) const {
  return inputs.overlaps(tensors_[i].GetData(), layouts_[i].bytes());
}

// Lets the run write the tensor where it can.
void CallOutputs::place(size_t i, const Output& output, const CallInputs& inputs) {
  uint8_t* data = tensors_[i].GetData();
  const bool is_aligned = reinterpret_cast<uintptr_t>(data) % program::kArenaAlignment == 0;
  const bool is_made = output.kind == Output::Kind::kTensor && output.input == program::kNone;
  if (!is_aligned || !is_made || !layouts_[i].is_dense() || lies_in(i, inputs)) return;
  memory_[i] = {BlockHost::object_of_caller(), data, layouts_[i].bytes()};
}

void CallOutputs::finish(const program::Program& program, std::span<const runtime::BoundOutput> results,
                         const CallInputs& inputs) {
  const ReleaseObjects releases{results};
  std::vector<std::vector<uint8_t>> kept(results.size());  // of results that cannot be copied to their tensors yet
  const auto source = [&](size_t i) -> const void* {
    const Output& output = program.outputs[i];
    return output.kind == Output::Kind::kInput ? inputs.bound()[output.input].data : results[i].data;
  };
  for (size_t i = 0; i < results.size(); ++i) {
    uint8_t* to = tensors_[i].GetData();
    if (program.outputs[i].input == program::kNone) continue;
    if (!lies_in(i, inputs)) {
      layouts_[i].copy(source(i), to);
    } else if (source(i) != to || !layouts_[i].is_dense()) {
      kept[i].resize(layouts_[i].bytes());
      layouts_[i].copy(source(i), kept[i].data());
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    uint8_t* to = tensors_[i].GetData();
    if (program.outputs[i].input == program::kNone) {
      layouts_[i].copy(source(i), to);
    } else if (!kept[i].empty()) {
      std::memcpy(to, kept[i].data(), kept[i].size());
    }
  }
}

}  // namespace npugraph::ge
