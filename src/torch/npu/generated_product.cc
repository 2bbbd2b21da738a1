// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/generated_product.h"

#include <algorithm>
#include <array>

#include <ATen/ExpandUtils.h>

#include "codegen/matmul/matmul.h"
#include "loop/builder.h"
#include "torch/npu/eager_task.h"
#include "torch/npu/in_memory.h"

namespace npugraph::npu {
namespace {

using codegen::MatmulSpec;

MatmulSpec product(DType type) { return {.a = type, .b = type, .c = type, .epilogue = std::nullopt}; }

// C is dense, as are the rows of the bias, which are `bias_stride` elements apart.
MatmulSpec product_and_bias(DType type) {
  loop::Builder b("add_bias");
  const Expr m = b.scalar("m"), n = b.scalar("n"), bias_stride = b.scalar("bias_stride");
  const auto sums = b.in("sums", DType::kF32), bias = b.in("bias", type), c = b.out("c", type);
  b.parallel_for(m, 1, [&](const Expr& row) {
    b.vector_for(n, [&](const Expr& column) {
      const loop::Value of_bias = loop::cast(b.load(bias, row * bias_stride + column), DType::kF32);
      b.store(c, row * n + column, loop::cast(b.load(sums, row * n + column) + of_bias, type));
    });
  });
  return {.a = type, .b = type, .c = type, .epilogue = b.finish()};
}

// The task for products of any sizes. Never destroyed, because threads may still run it when the process ends.
template <MatmulSpec (*spec_of)(DType)>
const EagerTask& task_of(DType type) {
  const auto make = [](DType dtype) {
    return new EagerTask(codegen::make_matmul(spec_of(dtype), target::host_target()));
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

bool can_generate(const at::Tensor& x1, const at::Tensor& x2) {
  return has_memory(x1) && has_memory(x2) && !wants_gradient({&x1, &x2}) && fits(x1, x2);
}

}  // namespace

std::optional<at::Tensor> generated_product(const at::Tensor& x1, const at::Tensor& x2) {
  if (!can_generate(x1, x2)) return std::nullopt;
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
  if (task_of<product>(*dtype).run(buffers)) return std::nullopt;
  return out;
}

std::optional<at::Tensor> generated_product_and_bias(const at::Tensor& bias, const at::Tensor& x1,
                                                     const at::Tensor& x2) {
  if (!can_generate(x1, x2) || x1.dim() != 2 || !has_memory(bias) || wants_gradient({&bias})) return std::nullopt;
  const int64_t m = x1.size(0), n = x2.size(1);
  const auto dtype = generated_dtype(x1.scalar_type());
  if (!dtype || bias.scalar_type() != x1.scalar_type() || !at::is_expandable_to(bias.sizes(), {m, n}))
    return std::nullopt;
  const at::Tensor out = at::empty({m, n}, x1.options());
  at::Tensor rows = bias.expand({m, n});
  if (rows.stride(1) != 1) rows = rows.contiguous();
  const at::Tensor columns = x2.mT();
  const auto number = static_cast<int32_t>(*dtype);
  std::array<ng_buffer, 4> buffers{buffer_of(x1, number), buffer_of(columns, number), buffer_of(rows, number),
                                   buffer_of(out, number)};
  const std::array<ng_scalar, 3> scalars{ng_scalar{.i = m}, ng_scalar{.i = n}, ng_scalar{.i = rows.stride(0)}};
  if (task_of<product_and_bias>(*dtype).run(buffers, scalars)) return std::nullopt;
  return out;
}

std::optional<at::Tensor> faster_product(const at::Tensor& x1, const at::Tensor& x2, int64_t dims) {
  constexpr int64_t kSmall = 8192;  // multiplications
  if (!has_memory(x1) || !has_memory(x2) || x1.dim() != dims || x2.dim() != dims) return std::nullopt;
  if (x1.element_size() != 2) return std::nullopt;
  return x1.numel() * x2.size(-1) < kSmall ? std::nullopt : generated_product(x1, x2);
}

namespace {

using Product = std::optional<at::Tensor>;

Product generated_mm(const at::Tensor& self, const at::Tensor& mat2) {
  return self.dim() == 2 ? generated_product(self, mat2) : std::nullopt;
}

Product generated_bmm(const at::Tensor& self, const at::Tensor& mat2) {
  return mat2.dim() == 3 ? generated_product(self, mat2) : std::nullopt;
}

Product generated_addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                        const at::Scalar& alpha) {
  const bool is_plain = beta.equal(1) && alpha.equal(1);
  return is_plain ? generated_product_and_bias(self, mat1, mat2) : std::nullopt;
}

// Whether `out` has memory that none of the factors has. ATen decides about others.
bool is_own(const at::Tensor& out, std::initializer_list<const at::Tensor*> factors) {
  return has_memory(out) &&
         std::ranges::none_of(factors, [&](const at::Tensor* factor) { return out.is_alias_of(*factor); });
}

// Returns false if there is no product, or ATen has to report or resize `out`.
bool store(const Product& product, at::Tensor& out) {
  if (!product || out.sizes() != product->sizes() || out.scalar_type() != product->scalar_type()) return false;
  out.copy_(*product);
  return true;
}

}  // namespace

at::Tensor mm_of_npu(const at::Tensor& self, const at::Tensor& mat2) {
  const Product product = generated_mm(self, mat2);
  return product ? *product : at::mm(self, mat2);
}

at::Tensor bmm_of_npu(const at::Tensor& self, const at::Tensor& mat2) {
  const Product product = generated_bmm(self, mat2);
  return product ? *product : at::bmm(self, mat2);
}

at::Tensor addmm_of_npu(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                        const at::Scalar& alpha) {
  const Product product = generated_addmm(self, mat1, mat2, beta, alpha);
  return product ? *product : at::addmm(self, mat1, mat2, beta, alpha);
}

at::Tensor& mm_out_of_npu(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  return is_own(out, {&self, &mat2}) && store(generated_mm(self, mat2), out) ? out : at::mm_out(out, self, mat2);
}

at::Tensor& bmm_out_of_npu(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  return is_own(out, {&self, &mat2}) && store(generated_bmm(self, mat2), out) ? out : at::bmm_out(out, self, mat2);
}

at::Tensor& addmm_out_of_npu(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                             const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  if (is_own(out, {&mat1, &mat2}) && store(generated_addmm(self, mat1, mat2, beta, alpha), out)) return out;
  return at::addmm_out(out, self, mat1, mat2, beta, alpha);
}

}  // namespace npugraph::npu
