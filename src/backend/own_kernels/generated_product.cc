// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels/generated_product.h"

#include <algorithm>
#include <array>

#include <ATen/DimVector.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include "backend/own_kernels/eager_task.h"
#include "codegen/matmul/matmul.h"
#include "loop/builder.h"

namespace npugraph::own {
namespace {

using codegen::MatmulSpec;

MatmulSpec spec_of_product(DType type) {
  return {.a = type, .b = type, .c = type, .b_is_nk = false, .epilogue = std::nullopt};
}

// C is dense, as are the rows of the bias, which are `bias_stride` elements apart.
MatmulSpec spec_of_product_and_bias(DType type) {
  loop::Builder b("add_bias");
  const Expr m = b.scalar("m"), n = b.scalar("n"), bias_stride = b.scalar("bias_stride");
  const auto sums = b.in("sums", DType::kF32), bias = b.in("bias", type), c = b.out("c", type);
  b.parallel_for(m, 1, [&](const Expr& row) {
    b.vector_for(n, [&](const Expr& column) {
      const loop::Value of_bias = loop::cast(b.load(bias, row * bias_stride + column), DType::kF32);
      b.store(c, row * n + column, loop::cast(b.load(sums, row * n + column) + of_bias, type));
    });
  });
  return {.a = type, .b = type, .c = type, .b_is_nk = false, .epilogue = b.finish()};
}

// The task for products of any sizes. Never destroyed, because threads may still run it when the process ends.
template <MatmulSpec (*spec_of)(DType)>
const EagerTask& product_task(DType type) {
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
  return has_memory(x1) && has_memory(x2) && !wants_gradient({&x1, &x2}) && fits(x1, x2) &&
         generated_dtype(x1.scalar_type());
}

// For x1 and x2 that can_generate, and a contiguous `out` of their type and of the sizes of the product. Returns false
// if generated code does not compute it.
bool multiply(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& out) {
  const DType dtype = *generated_dtype(x1.scalar_type());
  const auto number = static_cast<int32_t>(dtype);
  const auto run = [&](const at::Tensor& rows, const at::Tensor& sums) {
    std::array buffers{buffer_of(rows, number), buffer_of(x2, number), buffer_of(sums, number)};
    return !product_task<spec_of_product>(dtype).run(buffers);
  };
  if (x1.dim() == 2 || x2.dim() == 3) return run(x1, out);
  return run(x1.reshape({-1, x1.size(-1)}), out.view({-1, x2.size(-1)}));
}

// The same of matrices. `bias` may be `out` itself, and has no other memory of it.
bool multiply_and_add(const at::Tensor& bias, const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& out) {
  const int64_t m = x1.size(0), n = x2.size(1);
  if (!has_memory(bias) || wants_gradient({&bias}) || bias.scalar_type() != x1.scalar_type() ||
      !at::is_expandable_to(bias.sizes(), {m, n}))
    return false;
  at::Tensor rows = bias.expand({m, n});
  if (rows.stride(1) != 1) rows = rows.contiguous();
  const DType dtype = *generated_dtype(x1.scalar_type());
  const auto number = static_cast<int32_t>(dtype);
  std::array buffers{buffer_of(x1, number), buffer_of(x2, number), buffer_of(rows, number), buffer_of(out, number)};
  const std::array<ng_scalar, 3> scalars{ng_scalar{.i = m}, ng_scalar{.i = n}, ng_scalar{.i = rows.stride(0)}};
  return !product_task<spec_of_product_and_bias>(dtype).run(buffers, scalars);
}

at::DimVector sizes_of_product(const at::Tensor& x1, const at::Tensor& x2) {
  at::DimVector sizes(x1.sizes());
  sizes.back() = x2.size(-1);
  return sizes;
}

at::Tensor empty_product(const at::Tensor& x1, const at::Tensor& x2) {
  return at::detail::empty_cpu(sizes_of_product(x1, x2), x1.scalar_type());
}

}  // namespace

std::optional<at::Tensor> generated_product(const at::Tensor& x1, const at::Tensor& x2) {
  if (!can_generate(x1, x2)) return std::nullopt;
  const at::Tensor out = empty_product(x1, x2);
  return multiply(x1, x2, out) ? std::optional(out) : std::nullopt;
}

std::optional<at::Tensor> faster_product(const at::Tensor& x1, const at::Tensor& x2, int64_t dims) {
  constexpr int64_t kSmall = 8192;  // multiplications
  if (!has_memory(x1) || !has_memory(x2) || x1.dim() != dims || x2.dim() != dims) return std::nullopt;
  if (x1.element_size() != 2) return std::nullopt;
  return x1.numel() * x2.size(-1) < kSmall ? std::nullopt : generated_product(x1, x2);
}

namespace {

bool can_generate_mm(const at::Tensor& self, const at::Tensor& mat2) {
  return self.dim() == 2 && can_generate(self, mat2);
}

bool can_generate_addmm(const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                        const at::Scalar& alpha) {
  return beta.equal(1) && alpha.equal(1) && can_generate_mm(mat1, mat2);
}

// Stores the product of x1 and x2, which `multiply` computes, in `out`. Returns false if there is none, or ATen has to
// refuse `out`. `apart`: `out` must keep its elements until all are computed.
template <typename Multiply>
bool store(const at::Tensor& x1, const at::Tensor& x2, at::Tensor& out, bool apart, const Multiply& multiply) {
  if (!has_memory(out) || out.is_alias_of(x1) || out.is_alias_of(x2) || out.scalar_type() != x1.scalar_type())
    return false;
  at::native::resize_output(out, sizes_of_product(x1, x2));
  if (!apart && out.is_contiguous()) return multiply(out);
  const at::Tensor dense = empty_product(x1, x2);
  if (!multiply(dense)) return false;
  out.copy_(dense);
  return true;
}

bool store_product(const at::Tensor& x1, const at::Tensor& x2, at::Tensor& out) {
  return store(x1, x2, out, false, [&](const at::Tensor& c) { return multiply(x1, x2, c); });
}

}  // namespace

at::Tensor mm_as_compiled(const at::Tensor& self, const at::Tensor& mat2) {
  const auto product = self.dim() == 2 ? generated_product(self, mat2) : std::nullopt;
  return product ? *product : at::mm(self, mat2);
}

at::Tensor bmm_as_compiled(const at::Tensor& self, const at::Tensor& mat2) {
  const auto product = mat2.dim() == 3 ? generated_product(self, mat2) : std::nullopt;
  return product ? *product : at::bmm(self, mat2);
}

at::Tensor addmm_as_compiled(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                             const at::Scalar& beta, const at::Scalar& alpha) {
  if (can_generate_addmm(mat1, mat2, beta, alpha)) {
    const at::Tensor out = empty_product(mat1, mat2);
    if (multiply_and_add(self, mat1, mat2, out)) return out;
  }
  return at::addmm(self, mat1, mat2, beta, alpha);
}

at::Tensor& mm_out_as_compiled(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  return can_generate_mm(self, mat2) && store_product(self, mat2, out) ? out : at::mm_out(out, self, mat2);
}

at::Tensor& bmm_out_as_compiled(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  return mat2.dim() == 3 && can_generate(self, mat2) && store_product(self, mat2, out) ? out
                                                                                       : at::bmm_out(out, self, mat2);
}

at::Tensor& addmm_out_as_compiled(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                  const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  const auto multiply = [&](const at::Tensor& c) { return multiply_and_add(self, mat1, mat2, c); };
  const bool apart = out.is_alias_of(self) && !out.is_same(self);
  if (can_generate_addmm(mat1, mat2, beta, alpha) && store(mat1, mat2, out, apart, multiply)) return out;
  return at::addmm_out(out, self, mat1, mat2, beta, alpha);
}

}  // namespace npugraph::own
