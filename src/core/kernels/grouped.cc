// SPDX-License-Identifier: Apache-2.0
// Products of rows in groups, with a matrix for each group.
#include <algorithm>
#include <atomic>
#include <memory>

#include "kernels/elements.h"
#include "kernels/kernel_table.h"
#include "kernels/kernel_task.h"
#include "kernels/linear.h"

namespace npugraph::kernels {
namespace {

constexpr int64_t kPieceColumns = 64, kPieceRows = 128;  // of y, which one piece of the product computes

// f32 copies of pieces of the operands.
struct Piece {
  std::unique_ptr<float[]> x, w, y;

  explicit Piece(int64_t k)
      : x(new (std::nothrow) float[static_cast<size_t>(kPieceRows * k)]),
        w(new (std::nothrow) float[static_cast<size_t>(k * kPieceColumns)]),
        y(new (std::nothrow) float[static_cast<size_t>(kPieceRows * kPieceColumns)]) {}
  bool has_memory() const { return x != nullptr && w != nullptr && y != nullptr; }
};

// [first, end) in a dimension.
struct Range {
  int64_t first, end;
  int64_t size() const { return end - first; }
};

// Operands: x [m, k], w [groups, k, n], ends [groups], y [m, n]. Group g has the rows of x from the end of the one
// before it to ends[g]; its rows of y are those of x times w[g]. Rows behind the last group are 0.
class GroupedProduct {
 public:
  struct State {};

  explicit GroupedProduct(const ng_definition& task) {
    check_operands(task, 3);
    const ng_operand &x = task.operands[0], &w = task.operands[1], &ends = task.operands[2], &y = task.operands[3];
    type_ = dtype_of(x);
    end_type_ = dtype_of(ends);
    if (type_ != DType::kF32 && type_ != DType::kBF16 && type_ != DType::kF16) refuse(task, "x is no f32, bf16 or f16");
    if (w.dtype != x.dtype || y.dtype != x.dtype) refuse(task, "w and y are of the type of x");
    if (end_type_ != DType::kI64 && end_type_ != DType::kI32) refuse(task, "ends are neither i32 nor i64");
    if (x.rank != 2 || w.rank != 3 || ends.rank != 1 || y.rank != 2) refuse(task, "x is [m, k], w [groups, k, n]");
  }

  bool bind(const ng_call& call, State&) const {
    const ng_buffer &x = call.buffers[0], &w = call.buffers[1], &ends = call.buffers[2], &y = call.buffers[3];
    return x.sizes[1] == w.sizes[1] && ends.sizes[0] == w.sizes[0] && y.sizes[0] == x.sizes[0] &&
           y.sizes[1] == w.sizes[2];
  }

  ng_status run(const State&, ng_call& call) const {
    const int64_t columns = call.buffers[3].sizes[1];
    std::atomic<bool> is_done = true;
    for_ranges(call, (columns + kPieceColumns - 1) / kPieceColumns, 1, [&](int64_t first, int64_t end) {
      const Piece piece(call.buffers[0].sizes[1]);
      if (!piece.has_memory()) is_done = false;
      for (int64_t i = first; piece.has_memory() && i < end; ++i)
        make_columns(call, {i * kPieceColumns, std::min((i + 1) * kPieceColumns, columns)}, piece);
    });
    return is_done ? NG_OK : NG_ERROR;
  }

  // The rows of group g, which begins at `first`.
  Range rows_of(const ng_call& call, int64_t first, int64_t g) const {
    const RowOf ends = row_at(call.buffers[2], 0, 0, size_of(end_type_));
    const int64_t end = end_type_ == DType::kI64 ? ends.load<int64_t>(g) : ends.load<int32_t>(g);
    return {first, std::clamp(end, first, call.buffers[0].sizes[0])};
  }

  DType type() const { return type_; }

 private:
  void make_columns(const ng_call& call, Range columns, const Piece& piece) const {
    with_type(type_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      Range rows{0, 0};
      for (int64_t g = 0; g < call.buffers[1].sizes[0]; ++g) {
        rows = rows_of(call, rows.end, g);
        if (rows.size() > 0) make_group<T>(call, g, rows, columns, piece);
      }
      clear<T>(call.buffers[3], {rows.end, call.buffers[3].sizes[0]}, columns);
    });
  }

  template <typename T>
  static void make_group(const ng_call& call, int64_t g, Range rows, Range columns, const Piece& piece) {
    const ng_buffer &x = call.buffers[0], &w = call.buffers[1], &y = call.buffers[3];
    const int64_t k = x.sizes[1], n = columns.size();
    const T* matrix = at<T>(w) + g * w.strides[0] + columns.first * w.strides[2];
    pack(matrix, w.strides[1], w.strides[2], k, n, piece.w.get());
    for (int64_t row = rows.first; row < rows.end; row += kPieceRows) {
      const int64_t m = std::min(kPieceRows, rows.end - row);
      pack(at<T>(x) + row * x.strides[0], x.strides[0], x.strides[1], m, k, piece.x.get());
      const Product product{.m = m,
                            .n = n,
                            .k = k,
                            .x = piece.x.get(),
                            .x_m = k,
                            .x_k = 1,
                            .w = piece.w.get(),
                            .w_k = n,
                            .w_n = 1,
                            .bias = nullptr,
                            .bias_n = 0,
                            .y = piece.y.get(),
                            .y_m = n,
                            .y_n = 1,
                            .relu = false};
      product_functions().front().dense_n(product, 0, n);
      T* to = at<T>(y) + row * y.strides[0] + columns.first * y.strides[1];
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) to[i * y.strides[0] + j * y.strides[1]] = convert<T>(piece.y[i * n + j]);
      }
    }
  }

  template <typename T>
  static void pack(const T* from, int64_t row_stride, int64_t stride, int64_t rows, int64_t columns, float* to) {
    for (int64_t i = 0; i < rows; ++i, from += row_stride, to += columns) {
      if (stride == 1) {  // a loop of its own, of which the compiler makes vector code
        for (int64_t j = 0; j < columns; ++j) to[j] = convert<float>(from[j]);
      } else {
        for (int64_t j = 0; j < columns; ++j) to[j] = convert<float>(from[j * stride]);
      }
    }
  }

  template <typename T>
  static void clear(const ng_buffer& y, Range rows, Range columns) {
    for (int64_t i = rows.first; i < rows.end; ++i) {
      for (int64_t j = columns.first; j < columns.end; ++j) at<T>(y)[i * y.strides[0] + j * y.strides[1]] = T{};
    }
  }

  template <typename T>
  static T* at(const ng_buffer& buffer) {
    return static_cast<T*>(buffer.data);
  }

  DType type_, end_type_;
};

ng_task make_grouped_product(const ng_definition& task) { return make_task(std::make_unique<GroupedProduct>(task)); }

template <typename T>
void multiply_each(const GroupedProduct& kernel, const ng_call& call) {
  const ng_buffer &x = call.buffers[0], &w = call.buffers[1], &y = call.buffers[3];
  for (int64_t i = 0; i < elements(y); ++i) {
    const int64_t row = i / y.sizes[1], column = i % y.sizes[1];
    float sum = 0;
    Range rows{0, 0};
    for (int64_t g = 0; g < w.sizes[0]; ++g) {
      rows = kernel.rows_of(call, rows.end, g);
      if (row < rows.first || row >= rows.end) continue;
      for (int64_t k = 0; k < x.sizes[1]; ++k) {
        const int64_t in_w = (g * w.sizes[1] + k) * w.sizes[2] + column;
        sum += convert<float>(*reinterpret_cast<const T*>(element_at(x, row * x.sizes[1] + k, sizeof(T)))) *
               convert<float>(*reinterpret_cast<const T*>(element_at(w, in_w, sizeof(T))));
      }
    }
    *reinterpret_cast<T*>(element_at(y, i, sizeof(T))) = convert<T>(sum);
  }
}

ng_status reference_grouped_product(const ng_definition& task, ng_call* call) {
  const GroupedProduct kernel(task);
  GroupedProduct::State state;
  if (!kernel.bind(*call, state)) return NG_ERROR;
  with_type(kernel.type(), [&](auto tag) { multiply_each<typename decltype(tag)::type>(kernel, *call); });
  return NG_OK;
}

constexpr Kernel kGroupedRows[] = {
    {"kernel.grouped_mm", "(x, w, ends) -> y[m, n] = x[m, k] . w[g, k, n], where row m is in group g",
     made_by<make_grouped_product>, reference_grouped_product},
};

}  // namespace

std::span<const Kernel> grouped_kernels() { return kGroupedRows; }

}  // namespace npugraph::kernels
