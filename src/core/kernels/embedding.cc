// SPDX-License-Identifier: Apache-2.0
// The gradient of a table of rows from the gradients of the rows that were looked up.
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/elements.h"
#include "kernels/kernel_table.h"
#include "kernels/kernel_task.h"

namespace npugraph::kernels {
namespace {

constexpr int64_t kTableGrainBytes = 256 << 10;  // of the table, per thread

template <typename T>
void add_row(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t count) {
  const auto* x = reinterpret_cast<const T*>(from);
  auto* y = reinterpret_cast<T*>(to);
  if (from_stride == 1 && to_stride == 1) {
    for (int64_t i = 0; i < count; ++i) y[i] += x[i];
  } else {
    for (int64_t i = 0; i < count; ++i) y[i * to_stride] += x[i * from_stride];
  }
}

// Operands: grad [.., d], indices [..], y [rows, d]. Each thread has rows of its own, so that it adds in the order of
// the indices.
class EmbeddingBackward {
 public:
  struct State {
    int64_t padding = -1;
  };

  explicit EmbeddingBackward(const ng_definition& task) : padding_(Arguments(task).scalar_or(2, Scalar::of_int(-1))) {
    check_operands(task, 2);
    const ng_operand &grad = task.operands[0], &indices = task.operands[1], &y = task.operands[2];
    type_ = dtype_of(y);
    index_type_ = dtype_of(indices);
    if (dtype_of(grad) != type_ || (type_ != DType::kF32 && type_ != DType::kF64))
      refuse(task, "grad and y are not both f32 or both f64");
    if (index_type_ != DType::kI64 && index_type_ != DType::kI32) refuse(task, "indices are neither i32 nor i64");
    if (y.rank != 2 || grad.rank != indices.rank + 1) refuse(task, "y is not [rows, d] or grad not [.., d]");
  }

  bool bind(const ng_call& call, State& state) const {
    const ng_buffer &grad = call.buffers[0], &indices = call.buffers[1], &y = call.buffers[2];
    state.padding = padding_.value(call).as_int();
    return grad.sizes[grad.rank - 1] == y.sizes[1] &&
           std::equal(indices.sizes, indices.sizes + indices.rank, grad.sizes);
  }

  ng_status run(const State& state, ng_call& call) const {
    const ng_buffer& y = call.buffers[2];
    if (elements(y) == 0) return NG_OK;
    const int64_t grain = std::max<int64_t>(kTableGrainBytes / (y.sizes[1] * size_of(type_)), 1);
    for_ranges(call, y.sizes[0], grain, [&](int64_t first, int64_t end) { make_rows(state, call, first, end); });
    return NG_OK;
  }

  int64_t index_at(const ng_buffer& indices, int64_t i) const {
    const char* at = element_at(indices, i, size_of(index_type_));
    if (index_type_ == DType::kI32) return *reinterpret_cast<const int32_t*>(at);
    return *reinterpret_cast<const int64_t*>(at);
  }
  DType type() const { return type_; }

 private:
  void make_rows(const State& state, const ng_call& call, int64_t first, int64_t end) const {
    const ng_buffer &grad = call.buffers[0], &indices = call.buffers[1], &y = call.buffers[2];
    const int64_t bytes = size_of(type_), width = y.sizes[1], count = elements(indices);
    const auto add = type_ == DType::kF32 ? add_row<float> : add_row<double>;
    clear(y, first, end);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = index_at(indices, i);
      if (row < first || row >= end || row == state.padding) continue;
      add(element_at(grad, i * width, bytes), grad.strides[grad.rank - 1], element_at(y, row * width, bytes),
          y.strides[1], width);
    }
  }

  void clear(const ng_buffer& y, int64_t first, int64_t end) const {
    const int64_t bytes = size_of(type_), width = y.sizes[1];
    const bool is_dense = y.strides[1] == 1 && y.strides[0] == width;
    const int64_t piece = is_dense ? (end - first) * width : 1;  // of adjacent elements
    for (int64_t e = first * width; e < end * width; e += piece)
      std::memset(element_at(y, e, bytes), 0, static_cast<size_t>(piece * bytes));
  }

  const Argument padding_;
  DType type_;
  DType index_type_;
};

ng_task make_embedding_backward(const ng_definition& task) {
  return make_task(std::make_unique<EmbeddingBackward>(task));
}

// For each element of y, one look at all indices.
template <typename T>
void sum_each(const EmbeddingBackward& kernel, int64_t padding, const ng_call& call) {
  const ng_buffer &grad = call.buffers[0], &indices = call.buffers[1], &y = call.buffers[2];
  for (int64_t e = 0; e < elements(y); ++e) {
    T sum = 0;
    for (int64_t i = 0; i < elements(indices); ++i) {
      const int64_t row = kernel.index_at(indices, i), width = y.sizes[1];
      if (row == e / width && row != padding)
        sum += *reinterpret_cast<const T*>(element_at(grad, i * width + e % width, sizeof(T)));
    }
    *reinterpret_cast<T*>(element_at(y, e, sizeof(T))) = sum;
  }
}

ng_status reference_embedding_backward(const ng_definition& task, ng_call* call) {
  const EmbeddingBackward kernel(task);
  EmbeddingBackward::State state;
  if (!kernel.bind(*call, state)) return NG_ERROR;
  (kernel.type() == DType::kF32 ? sum_each<float> : sum_each<double>)(kernel, state.padding, *call);
  return NG_OK;
}

constexpr Kernel kEmbeddingRows[] = {
    {"kernel.embedding_dense_backward", "(grad, indices, padding_idx: scalar) -> y[indices[i]] += grad[i], from zeros",
     made_by<make_embedding_backward>, reference_embedding_backward},
};

}  // namespace

std::span<const Kernel> embedding_kernels() { return kEmbeddingRows; }

}  // namespace npugraph::kernels
