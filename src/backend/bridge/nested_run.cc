// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/nested_run.h"

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include "backend/bridge/convert.h"
#include "backend/bridge/declared.h"
#include "backend/bridge/run_result.h"
#include "base/error.h"
#include "runtime/observation.h"

namespace npugraph::bridge {

using program::Output;
using program::Symbol;

NestedRun::NestedRun(std::shared_ptr<runtime::Executable> executable)
    : executable_(std::move(executable)),
      program_(runtime::Observation(*executable_).program()),
      inputs_(program().inputs.size()),
      outputs_(program().outputs.size()),
      copies_(program().inputs.size()) {}

NestedRun::~NestedRun() { drop_results(); }

void NestedRun::drop_results() {
  for (runtime::BoundOutput& output : outputs_) {
    if (output.object != nullptr) take_object(output);
  }
}

void NestedRun::clear() noexcept {
  drop_results();
  std::ranges::fill(copies_, at::Tensor());
}

// The value of `dim` for the inputs of the current run.
int64_t NestedRun::size_of(const program::Dim& dim) const {
  if (dim.is_constant()) return dim.constant;
  return evaluate(program().exprs[dim.expr],
                  [&](const std::string& name) {
                    const auto& symbols = program().symbols;
                    const auto symbol = std::ranges::find(symbols, name, &Symbol::name);
                    NG_CHECK(symbol != symbols.end() && symbol->input != program::kNone, "an input's size names ",
                             name);
                    const NestedValue& value = given_[symbol->input];
                    if (symbol->dim != program::kNone) return Scalar::of_int(value.sizes[symbol->dim]);
                    return symbol->kind == ScalarKind::kFloat ? Scalar::of_float(value.scalar.f)
                                                              : Scalar::of_int(value.scalar.i);
                  })
      .as_int();
}

runtime::BoundInput NestedRun::bound(size_t number, const NestedValue& value) {
  const program::Input& input = program().inputs[number];
  if (input.buffer == program::kNone) return {.scalar = value.scalar};
  std::vector<int64_t> sizes, strides;
  for (const program::Dim& size : input.sizes) sizes.push_back(size_of(size));
  for (const program::Dim& stride : input.strides) strides.push_back(size_of(stride));
  if (value.sizes != at::IntArrayRef(sizes)) {
    throw UserError(cat("value ", number, " of ", program().name, " has sizes ", value.sizes, "; it was traced for ",
                        at::IntArrayRef(sizes)));
  }
  bool lies_so = true;
  for (size_t i = 0; i < sizes.size(); ++i) lies_so &= sizes[i] <= 1 || value.strides[i] == strides[i];
  copies_[number] = at::Tensor();
  if (lies_so || value.data == nullptr) return {.data = value.data, .sizes = value.sizes.data()};
  const auto options = at::TensorOptions().dtype(to_torch(input.dtype));
  copies_[number] = at::empty_strided(sizes, strides, options);
  copies_[number].copy_(at::from_blob(value.data, value.sizes, value.strides, options));
  return {.data = copies_[number].mutable_data_ptr(), .sizes = value.sizes.data()};
}

void NestedRun::run(std::span<const NestedValue> inputs) {
  NG_CHECK(inputs.size() == inputs_.size(), program().name, " takes ", inputs_.size(), " inputs, got ", inputs.size());
  drop_results();
  given_ = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) inputs_[i] = bound(i, inputs[i]);
  const c10::impl::ForceDispatchKeyGuard as_outside(keys_);
  check_run(executable_->run({.all = inputs_}, outputs_, dims_), program());
}

namespace {

at::Scalar scalar_of(ng_scalar value, ScalarKind kind) {
  if (kind == ScalarKind::kFloat) return value.f;
  return kind == ScalarKind::kBool ? at::Scalar(value.i != 0) : at::Scalar(value.i);
}

}  // namespace

at::Scalar NestedRun::scalar(size_t number) const {
  return scalar_of(outputs_[number].scalar, outputs_[number].scalar_kind);
}

at::Scalar NestedRun::scalar_input(size_t number, ng_scalar value) const {
  const auto is_it = [&](const Symbol& symbol) {
    return symbol.input == static_cast<int32_t>(number) && symbol.dim == program::kNone;
  };
  const auto symbol = std::ranges::find_if(program().symbols, is_it);
  return scalar_of(value, symbol == program().symbols.end() ? ScalarKind::kInt : symbol->kind);
}

at::Tensor NestedRun::take(size_t number) {
  runtime::BoundOutput& output = outputs_[number];
  const int32_t input = program().outputs[number].input;
  if (output.object != nullptr && input == program::kNone) {
    const bool absent = is_absent(*static_cast<const c10::TensorImpl*>(output.object));
    NG_CHECK(!absent, "result ", number, " of ", program().name, " is undefined");
    return result_of(output);
  }
  // The result is an input, or a window of one.
  if (output.object != nullptr) take_object(output);
  NG_CHECK(output.kind == Output::Kind::kInput || output.kind == Output::Kind::kTensor, "result ", number, " of ",
           program().name, " is no tensor");
  const bool is_whole = output.kind == Output::Kind::kInput;
  const NestedValue& value = given_[input];
  const auto options = at::TensorOptions().dtype(to_torch(is_whole ? program().inputs[input].dtype : output.dtype));
  void* data = is_whole ? value.data : output.data;
  const at::IntArrayRef sizes = is_whole ? value.sizes : at::IntArrayRef(output.sizes.data(), output.sizes.size());
  const at::IntArrayRef strides =
      is_whole ? value.strides : at::IntArrayRef(output.strides.data(), output.strides.size());
  const at::Tensor made = at::empty_strided(sizes, strides, options);
  if (made.numel() != 0) made.copy_(at::from_blob(data, sizes, strides, options));
  return made;
}

}  // namespace npugraph::bridge
