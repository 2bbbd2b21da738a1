// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "kernels/kernel_table.h"
#include "kernels/kernel_task.h"

namespace npugraph::kernels {
namespace {

constexpr int64_t kGrainMultiplications = 1 << 18;  // per thread; below this a second thread costs more than it brings

// Operands: x, w [, bias], y.
class Linear {
 public:
  struct State {
    Product product{};
    bool gather_x = false;  // copy x to dense rows in the workspace
    bool gather_w = false;
  };

  Linear(const ng_definition& task, bool w_is_transposed) : transposed_(w_is_transposed) {
    const Arguments arguments(task);
    arguments.tensor(0);
    arguments.tensor(1);
    has_bias_ = arguments[2].is_tensor();
    const size_t after = arguments[2].is_scalar ? 2 : 3;
    relu_ = arguments.scalar_or(after, Scalar::of_bool(false)).constant.as_bool();
    check_operands(task, has_bias_ ? 3 : 2);
    for (uint32_t i = 0; i < task.num_operands; ++i) {
      const ng_operand& operand = task.operands[i];
      if (dtype_of(operand) != DType::kF32) refuse(task, cat("operand ", i, " is not f32"));
      if (operand.rank != (has_bias_ && i == 2 ? 1 : 2))
        refuse(task, cat("operand ", i, " has ", operand.rank, " dimensions"));
    }
  }

  bool bind(const ng_call& call, State& state) const {
    const ng_buffer& x = call.buffers[0];
    const ng_buffer& w = call.buffers[1];
    const ng_buffer& y = call.buffers[has_bias_ ? 3 : 2];
    const int k_of_w = transposed_ ? 1 : 0;
    const int n_of_w = 1 - k_of_w;
    Product& p = state.product;
    p = {};
    p.m = y.sizes[0];
    p.n = y.sizes[1];
    p.k = x.sizes[1];
    if (x.sizes[0] != p.m || w.sizes[k_of_w] != p.k || w.sizes[n_of_w] != p.n) return false;
    if (has_bias_ && call.buffers[2].sizes[0] != p.n) return false;
    p.x_m = x.strides[0];
    p.x_k = x.strides[1];
    p.w_k = w.strides[k_of_w];
    p.w_n = w.strides[n_of_w];
    p.bias_n = has_bias_ ? call.buffers[2].strides[0] : 0;
    p.y_m = y.strides[0];
    p.y_n = y.strides[1];
    p.relu = relu_;
    plan_gathers(state);
    return true;
  }

  ng_status run(const State& state, ng_call& call) const {
    Product p = state.product;
    p.x = static_cast<const float*>(call.buffers[0].data);
    p.w = static_cast<const float*>(call.buffers[1].data);
    p.bias = has_bias_ ? static_cast<const float*>(call.buffers[2].data) : nullptr;
    p.y = static_cast<float*>(call.buffers[has_bias_ ? 3 : 2].data);
    auto* space = static_cast<float*>(call.workspace);
    if (state.gather_w) {
      gather(p.w, p.n, p.w_n, p.k, p.w_k, space);
      p.w = space;
      space += p.n * p.k;
      p.w_n = p.k;
      p.w_k = 1;
    }
    if (state.gather_x) {
      gather(p.x, p.m, p.x_m, p.k, p.x_k, space);
      p.x = space;
      p.x_m = p.k;
      p.x_k = 1;
    }
    multiply(p, *call.host);
    return NG_OK;
  }

  int64_t workspace(const ng_call& call) const {
    State state;
    if (!bind(call, state)) return -1;
    const Product& p = state.product;
    const int64_t floats = (state.gather_w ? p.n * p.k : 0) + (state.gather_x ? p.m * p.k : 0);
    return floats * static_cast<int64_t>(sizeof(float));
  }

  ng_status run_reference(ng_call& call) const {
    State state;
    if (!bind(call, state)) return NG_ERROR;
    const Product& p = state.product;
    const auto* x = static_cast<const float*>(call.buffers[0].data);
    const auto* w = static_cast<const float*>(call.buffers[1].data);
    const auto* bias = has_bias_ ? static_cast<const float*>(call.buffers[2].data) : nullptr;
    auto* y = static_cast<float*>(call.buffers[has_bias_ ? 3 : 2].data);
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < p.k; ++l)
          sum += static_cast<double>(x[i * p.x_m + l * p.x_k]) * w[l * p.w_k + j * p.w_n];
        if (bias != nullptr) sum += bias[j * p.bias_n];
        y[i * p.y_m + j * p.y_n] = static_cast<float>(relu_ && 0 > sum ? 0 : sum);
      }
    }
    return NG_OK;
  }

 private:
  // The stride of a dimension of one element has no effect, so it can be taken as 1.
  static void plan_gathers(State& state) {
    Product& p = state.product;
    if (p.k <= 1) p.w_k = p.x_k = 1;
    if (p.n <= 1 && p.w_k != 1) p.w_n = 1;
    state.gather_w = p.w_n != 1 && p.w_k != 1;
    const bool by_columns = p.w_n == 1 && p.w_k != 1;
    state.gather_x = !by_columns && p.x_k != 1;
  }

  static void gather(const float* from, int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride,
                     float* to) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) *to++ = from[i * row_stride + j * column_stride];
    }
  }

  static void multiply(const Product& p, const ng_host& host) {
    const ProductFunctions& functions = product_functions().front();
    const ProductFunction columns = p.w_k == 1 ? functions.dense_k : functions.dense_n;
    const int64_t per_column = p.m * p.k;
    if (per_column * p.n < 2 * kGrainMultiplications) return columns(p, 0, p.n);
    struct Range {
      const Product& product;
      ProductFunction columns;
    } range{p, columns};
    host.parallel_for(
        &host, 0, p.n, std::max<int64_t>(kGrainMultiplications / std::max<int64_t>(per_column, 1), 1),
        [](void* arg, int64_t first, int64_t last) {
          const auto& r = *static_cast<Range*>(arg);
          r.columns(r.product, first, last);
        },
        &range);
  }

  bool transposed_;
  bool has_bias_ = false;
  bool relu_ = false;
};

template <bool transposed>
ng_task make_linear(const ng_definition& task) {
  ng_task made = make_task(std::make_unique<Linear>(task, transposed));
  made.workspace = [](void* context, const ng_call* call) {
    return static_cast<const Linear*>(context)->workspace(*call);
  };
  return made;
}

template <bool transposed>
ng_status linear_reference(const ng_definition& task, ng_call* call) {
  return Linear(task, transposed).run_reference(*call);
}

constexpr Kernel kMatmulRows[] = {
    {"kernel.linear_f32", "(x[m, k], w[n, k] [, bias[n]] [, relu: bool]) -> y[m, n] = x . w^T + bias",
     made_by<make_linear<true>>, linear_reference<true>},
    {"kernel.mm_f32", "(x[m, k], w[k, n] [, bias[n]] [, relu: bool]) -> y[m, n] = x . w + bias",
     made_by<make_linear<false>>, linear_reference<false>},
};

}  // namespace

std::span<const Kernel> matmul_kernels() { return kMatmulRows; }

}  // namespace npugraph::kernels
