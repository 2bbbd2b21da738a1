// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/generated_product.h"

#include <array>

#include "codegen/matmul/matmul.h"
#include "torch/npu/eager_task.h"
#include "torch/npu/in_memory.h"

namespace npugraph::npu {
namespace {

// The task for products of any sizes. Never destroyed, because threads may still run it when the process ends.
const EagerTask& task_of(DType type) {
  const auto make = [](DType dtype) {
    const codegen::MatmulSpec spec{.a = dtype, .b = dtype, .c = dtype, .epilogue = std::nullopt};
    return new EagerTask(codegen::make_matmul(spec, target::host_target()));
  };
  static const auto* f32 = make(DType::kF32);
  static const auto* bf16 = make(DType::kBF16);
  if (type != DType::kF16) return type == DType::kF32 ? *f32 : *bf16;
  static const auto* f16 = make(DType::kF16);
  return *f16;
}

bool fits(const at::Tensor& x1, const at::Tensor& x2) {
  if (x1.scalar_type() != x2.scalar_type() || x1.numel() == 0 || x2.numel() == 0) return false;
  const bool is_batch = x1.dim() == 3 && x2.dim() == 3 && x1.size(0) == x2.size(0);
  return (is_batch || (x1.dim() > 0 && x2.dim() == 2)) && x1.size(-1) == x2.size(-2);
}

}  // namespace

std::optional<at::Tensor> generated_product(const at::Tensor& x1, const at::Tensor& x2) {
  if (!has_memory(x1) || !has_memory(x2) || wants_gradient({&x1, &x2}) || !fits(x1, x2)) return std::nullopt;
  const auto dtype = generated_dtype(x1.scalar_type());
  if (!dtype) return std::nullopt;
  const bool is_batch = x2.dim() == 3;
  std::vector<int64_t> sizes = x1.sizes().vec();
  sizes.back() = x2.size(-1);
  const at::Tensor out = at::empty(sizes, x1.options());
  const at::Tensor rows = is_batch ? x1 : x1.reshape({-1, x1.size(-1)});
  const at::Tensor sums = is_batch ? out : out.view({-1, x2.size(-1)});
  const at::Tensor columns = x2.mT();
  const auto number = static_cast<int32_t>(*dtype);
  std::array<ng_buffer, 3> buffers{buffer_of(rows, number), buffer_of(columns, number), buffer_of(sums, number)};
  if (task_of(*dtype).run(buffers)) return std::nullopt;
  return out;
}

std::optional<at::Tensor> faster_product(const at::Tensor& x1, const at::Tensor& x2, int64_t dims) {
  constexpr int64_t kSmall = 8192;  // multiplications
  if (!has_memory(x1) || !has_memory(x2) || x1.dim() != dims || x2.dim() != dims) return std::nullopt;
  if (x1.element_size() != 2) return std::nullopt;
  return x1.numel() * x2.size(-1) < kSmall ? std::nullopt : generated_product(x1, x2);
}

}  // namespace npugraph::npu
