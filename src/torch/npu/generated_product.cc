// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/matmul/generated_linear.h"

#include <array>

#include "codegen/matmul/matmul.h"
#include "torch/npu/eager_task.h"
#include "torch/npu_ops/parts/in_memory.h"

namespace npugraph::npu_ops {
namespace {

// The task for products of any sizes. Never destroyed, because threads may still run it when the process ends.
const npu::EagerTask& task_of(DType type) {
  const auto make = [](DType dtype) {
    const codegen::MatmulSpec spec{.a = dtype, .b = dtype, .c = dtype, .epilogue = std::nullopt};
    return new npu::EagerTask(codegen::make_matmul(spec, target::host_target()));
  };
  static const auto* f32 = make(DType::kF32);
  static const auto* bf16 = make(DType::kBF16);
  if (type != DType::kF16) return type == DType::kF32 ? *f32 : *bf16;
  static const auto* f16 = make(DType::kF16);
  return *f16;
}

bool wants_gradient(const Tensor& input, const Tensor& weight) {
  return at::GradMode::is_enabled() && (input.requires_grad() || weight.requires_grad());
}

}  // namespace

std::optional<Tensor> generated_linear(const Tensor& input, const Tensor& weight) {
  if (!has_memory(input) || !has_memory(weight) || wants_gradient(input, weight)) return std::nullopt;
  const auto dtype = npu::generated_dtype(input.scalar_type());
  const bool fits = weight.dim() == 2 && input.dim() > 0 && input.numel() > 0 && input.size(-1) == weight.size(1);
  if (!dtype || !fits || weight.scalar_type() != input.scalar_type()) return std::nullopt;
  const Tensor rows = input.reshape({-1, input.size(-1)});
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes.back() = weight.size(0);
  const Tensor out = at::empty(sizes, input.options());
  const Tensor sums = out.view({-1, weight.size(0)});
  if (out.numel() == 0) return std::nullopt;
  const auto number = static_cast<int32_t>(*dtype);
  std::array<ng_buffer, 3> buffers{npu::buffer_of(rows, number), npu::buffer_of(weight, number),
                                   npu::buffer_of(sums, number)};
  if (task_of(*dtype).run(buffers)) return std::nullopt;
  return out;
}

}  // namespace npugraph::npu_ops
