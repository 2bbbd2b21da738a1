// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/call_outputs.h"

#include <cstring>

#include "base/words.h"
#include "ge/api/run/api_error.h"
#include "ge/data_types.h"
#include "program/offsets.h"
#include "tensor/strided.h"

namespace npugraph::ge {

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
