// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/call_outputs.h"

#include <cstddef>
#include <cstring>

#include "base/words.h"
#include "ge/api/run/api_error.h"
#include "ge/data_types.h"
#include "program/offsets.h"

namespace npugraph::ge {

using program::Output;

namespace {

void copy_dense(const std::byte* from, std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t item,
                std::byte*& to) {
  if (sizes.empty()) {
    std::memcpy(to, from, item);
    to += item;
    return;
  }
  for (int64_t i = 0; i < sizes[0]; ++i)
    copy_dense(from + i * strides[0] * item, sizes.subspan(1), strides.subspan(1), item, to);
}

}  // namespace

bool CallOutputs::Strided::is_dense() const {
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != stride) return false;
    stride *= sizes[d];
  }
  return true;
}

int64_t CallOutputs::Strided::bytes() const {
  int64_t bytes = size_of(dtype);
  for (const int64_t size : sizes) bytes *= size;
  return bytes;
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

// Lets the run write the tensor where it can.
void CallOutputs::place(size_t i, const Output& output, const CallInputs& inputs) {
  uint8_t* data = tensors_[i].GetData();
  const int64_t bytes = layouts_[i].bytes();
  const bool aligned = reinterpret_cast<uintptr_t>(data) % program::kArenaAlignment == 0;
  const bool is_made = output.kind == Output::Kind::kTensor && output.input == program::kNone;
  if (!aligned || !is_made || !layouts_[i].is_dense() || inputs.overlaps(data, bytes)) return;
  memory_[i] = {BlockHost::object_of_caller(), data, bytes};
}

void CallOutputs::finish(std::span<const runtime::BoundOutput> results, const CallInputs& inputs) {
  for (size_t i = 0; i < results.size(); ++i) {
    const runtime::BoundOutput& result = results[i];
    const bool is_input = result.kind == Output::Kind::kInput;
    const void* from = is_input ? inputs.bound()[result.input].data : result.data;
    auto* to = reinterpret_cast<std::byte*>(tensors_[i].GetData());
    if (from != to && layouts_[i].bytes() > 0) {
      const Strided& layout = layouts_[i];
      if (layout.is_dense()) {
        std::memmove(to, from, layout.bytes());
      } else {
        copy_dense(static_cast<const std::byte*>(from), layout.sizes, layout.strides, size_of(layout.dtype), to);
      }
    }
    if (result.object != nullptr) BlockHost::release_block(result.object);
  }
}

}  // namespace npugraph::ge
