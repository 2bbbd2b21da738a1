// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/words.h"
#include "kernels/elements.h"

namespace npugraph::kernels {
namespace {

constexpr int64_t kGrain = 32768;  // elements below which a second thread costs more than it brings

void store_scalar(Scalar value, DType dtype, char* to) {
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T element = value.kind == ScalarKind::kFloat ? convert<T>(value.f) : convert<T>(value.i);
    std::memcpy(to, &element, sizeof(T));
  });
}

// The address, in a window that broadcasts to the result, of the element at `index` of the result.
char* broadcast_element_at(const ng_buffer& window, const std::vector<int64_t>& index, int64_t element_bytes) {
  int64_t offset = 0;
  const size_t missing = index.size() - window.rank;
  for (int d = 0; d < window.rank; ++d) {
    if (window.sizes[d] != 1) offset += index[d + missing] * window.strides[d];
  }
  return static_cast<char*>(window.data) + offset * element_bytes;
}

bool next_index(std::vector<int64_t>& index, const int64_t* sizes) {
  for (size_t d = index.size(); d-- > 0;) {
    if (++index[d] < sizes[d]) return true;
    index[d] = 0;
  }
  return false;
}

}  // namespace

Pointwise::Pointwise(const ng_definition& task, PointwiseOp op) : op_(std::move(op)) {
  const Arguments arguments(task);
  size_t tensors = 0;
  for (size_t i = 0; i < op_.inputs.size(); ++i) {
    const Argument input = arguments[i];
    if (!input.present() || task.num_attributes != op_.inputs.size()) {
      refuse(task, cat("takes ", counted(op_.inputs.size(), "input")));
    }
    const DType given = input.is_tensor() ? dtype_of(task.operands[input.operand]) : op_.inputs[i];
    if (given != op_.inputs[i])
      refuse(task, cat("input ", i, " is ", name_of(given), ", not ", name_of(op_.inputs[i])));
    if (input.is_scalar && input.constant.kind == ScalarKind::kFloat && is_integral(op_.inputs[i])) {
      refuse(task, cat("input ", i, " is a float, not ", name_of(op_.inputs[i])));
    }
    tensors += input.is_tensor();
    inputs_.push_back(input);
  }
  check_operands(task, tensors);
  result_ = static_cast<int32_t>(tensors);
  const DType result = dtype_of(task.operands[result_]);
  if (result != op_.result) refuse(task, cat("the result is ", name_of(result), ", not ", name_of(op_.result)));
}

void Pointwise::convert_scalars(const ng_call& call, State& state) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].is_scalar) store_scalar(inputs_[i].value(call), op_.inputs[i], state.scalars[i].data());
  }
}

bool Pointwise::bind(const ng_call& call, State& state) const {
  convert_scalars(call, state);
  const ng_buffer& result = call.buffers[result_];
  if (!state.loop.reset(result)) return false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].is_scalar) {
      state.loop.add_scalar();
    } else if (!state.loop.add(call.buffers[inputs_[i].operand], size_of(op_.inputs[i]))) {
      return false;
    }
  }
  if (!state.loop.add(result, size_of(op_.result))) return false;
  state.loop.collapse(static_cast<int>(inputs_.size()));
  return true;
}

ng_status Pointwise::run(const State& state, ng_call& call) const {
  std::array<char*, kMaxWindows> data{};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    // The const_cast is safe: inputs are only read. `data` has the pointer type that the result needs.
    data[i] = inputs_[i].is_scalar ? const_cast<char*>(state.scalars[i].data())
                                   : static_cast<char*>(call.buffers[inputs_[i].operand].data);
  }
  data[inputs_.size()] = static_cast<char*>(call.buffers[result_].data);
  for_ranges(call, state.loop.count(), kGrain,
             [&](int64_t first, int64_t last) { state.loop.run(data, first, last, op_.row); });
  return NG_OK;
}

ng_status Pointwise::run_reference(const ng_call& call) const {
  State state;
  convert_scalars(call, state);
  const ng_buffer& result = call.buffers[result_];
  std::vector<int64_t> index(result.rank, 0);
  for (int d = 0; d < result.rank; ++d) {
    if (result.sizes[d] == 0) return NG_OK;
  }
  do {
    std::array<const char*, kMaxWindows> elements{};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      elements[i] = inputs_[i].is_scalar
                        ? state.scalars[i].data()
                        : broadcast_element_at(call.buffers[inputs_[i].operand], index, size_of(op_.inputs[i]));
    }
    op_.element(elements, broadcast_element_at(result, index, size_of(op_.result)));
  } while (next_index(index, result.sizes));
  return NG_OK;
}

}  // namespace npugraph::kernels
