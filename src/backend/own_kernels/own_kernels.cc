// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels/own_kernels.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include <ATen/Operators.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argmin.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>

#include "backend/own_kernels/eager_task.h"
#include "backend/own_kernels/generated_product.h"
#include "codegen/kernel/kernel.h"
#include "loop/builder.h"
#include "target/target.h"

namespace npugraph::own {
namespace {

// argmax and argmin of rows by generated code. ATen compares one element at a time, which takes most of the time of
// choosing the next token from logits. With fewer elements, ATen is as fast.
constexpr int64_t kFewElements = 4096;

// x [rows, n] -> places [rows]
loop::Kernel kernel_for(loop::Combine combine, DType dtype) {
  loop::Builder b(combine == loop::Combine::kMax ? "argmax" : "argmin");
  const Expr rows = b.scalar("rows"), n = b.scalar("n");
  const loop::BufferId x = b.in("x", dtype), places = b.out("places", DType::kI64);
  b.parallel_for(rows, 1, [&](const Expr& row) {
    loop::Builder::Extreme found;
    b.vector_for(n, [&](const Expr& i) {
      found = b.reduce_with_index(combine, loop::cast(b.load(x, row * n + i), DType::kF32));
    });
    b.store(places, row, found.index);
  });
  return b.finish();
}

// The task for rows of any number and length. Never destroyed, because threads may still run it when the process ends.
template <loop::Combine combine, DType dtype>
const EagerTask& task() {
  static const auto* made = new EagerTask(codegen::make_kernel_task(kernel_for(combine, dtype), target::host_target()));
  return *made;
}
template <loop::Combine combine>
const EagerTask& task_of(DType dtype) {
  if (dtype == DType::kF32) return task<combine, DType::kF32>();
  return dtype == DType::kBF16 ? task<combine, DType::kBF16>() : task<combine, DType::kF16>();
}

bool has_rows(const at::Tensor& self, std::optional<int64_t> dim) {
  const bool is_last = dim ? *dim == -1 || *dim == self.dim() - 1 : self.dim() == 1;
  return is_last && self.dim() > 0 && self.is_contiguous() && self.numel() >= kFewElements;
}

// The place of the first greatest (kMax) or least (kMin) element, or of the first NaN, of each row of a CPU tensor:
// [rows...] in int64, with `keepdim` [rows..., 1]. Nothing if the rows are not along its last dimension and contiguous,
// if there are few elements, or if generated code does not compare elements of their type.
std::optional<at::Tensor> place_of_extreme(loop::Combine extreme, const at::Tensor& self, std::optional<int64_t> dim,
                                           bool keepdim) {
  const auto dtype = generated_dtype(self.scalar_type());
  if (!dtype || !has_rows(self, dim)) return std::nullopt;
  const bool wants_max = extreme == loop::Combine::kMax;
  const EagerTask& task = wants_max ? task_of<loop::Combine::kMax>(*dtype) : task_of<loop::Combine::kMin>(*dtype);
  const int64_t n = self.size(-1);
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes.back() = 1;
  const at::Tensor places = at::empty(sizes, self.options().dtype(at::kLong));
  std::array<ng_buffer, 2> buffers{buffer_of(self, 0), buffer_of(places, 0)};
  const std::array<ng_scalar, 2> scalars{ng_scalar{.i = self.numel() / n}, ng_scalar{.i = n}};
  if (task.run(buffers, scalars)) return std::nullopt;
  return keepdim ? places : places.squeeze(-1);
}

// Whether the operands are valid. ATen reports errors about others.
bool are_products(const at::Tensor& x1, const at::Tensor& x2) {
  return x1.dim() == 2 && x2.dim() == 2 && x1.size(1) == x2.size(0) && x1.scalar_type() == at::kChar &&
         x2.scalar_type() == at::kChar;
}

// Whether at::_int_mm adds in 32 bits. Without AVX-512 VNNI, or if oneDNN may not use it, it adds pairs of products in
// 16 bits, where they saturate.
bool has_exact_int8_dot() {
  static const bool is_limited =
      std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr || std::getenv("DNNL_MAX_CPU_ISA") != nullptr;
#if defined(__x86_64__)
  return !is_limited && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

// The matrix without overlap, where the distance of rows of a single row is not less than its columns. at::_int_mm
// takes that distance for the one of a matrix with several rows, and then computes nothing.
at::Tensor readable(const at::Tensor& x) {
  const at::Tensor apart = without_overlap(x);
  const int64_t columns = apart.size(1);
  const bool is_row = apart.size(0) == 1 && apart.stride(1) == 1 && apart.stride(0) < columns;
  return is_row ? apart.as_strided({1, columns}, {columns, 1}) : apart;
}

}  // namespace

at::Tensor without_overlap(const at::Tensor& x) {
  const bool by_rows = x.sym_stride(1) == 1 && x.sym_stride(0) >= x.sym_size(1);
  const bool by_columns = x.sym_stride(0) == 1 && x.sym_stride(1) >= x.sym_size(0);
  return by_rows || by_columns ? x : x.contiguous();
}

at::Tensor int8_product_in_double(const at::Tensor& x1, const at::Tensor& x2) {
  return at::matmul(x1.to(at::kDouble), x2.to(at::kDouble)).to(at::kInt);
}

at::Tensor int8_product(const at::Tensor& x1, const at::Tensor& x2) {
  if (!are_products(x1, x2)) return at::_int_mm(x1, x2);
  if (!has_exact_int8_dot()) return int8_product_in_double(x1, x2);
  return at::_int_mm(readable(x1), readable(x2));
}

namespace {

// int8_product(), as at::_int_mm_out.
at::Tensor& int8_product_out(at::Tensor& out, const at::Tensor& x1, const at::Tensor& x2) {
  const bool fits =
      are_products(x1, x2) && out.scalar_type() == at::kInt && out.sizes().equals({x1.size(0), x2.size(1)});
  if (!fits) return at::_int_mm_out(out, x1, x2);
  if (!has_exact_int8_dot()) return out.copy_(int8_product_in_double(x1, x2));
  return at::_int_mm_out(out, readable(x1), readable(x2));
}

using torch::jit::Stack;

void int_mm(Stack& stack) {
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(int8_product(self, mat2));
}

void int_mm_out(Stack& stack) {
  at::Tensor out = torch::jit::pop(stack).toTensor();
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(int8_product_out(out, self, mat2));
}

template <at::Tensor (*kernel_of_aten)(const at::Tensor&, const at::Tensor&), int64_t dims>
void product(Stack& stack) {
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), self = torch::jit::pop(stack).toTensor();
  std::optional<at::Tensor> product = faster_product(self, mat2, dims);
  if (!product) product = kernel_of_aten(self, mat2);
  stack.emplace_back(*std::move(product));
}

template <at::Tensor (*kernel)(const at::Tensor&, const at::Tensor&)>
void product_as_compiled(Stack& stack) {
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(kernel(self, mat2));
}

void addmm(Stack& stack) {
  const at::Scalar alpha = torch::jit::pop(stack).toScalar(), beta = torch::jit::pop(stack).toScalar();
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), mat1 = torch::jit::pop(stack).toTensor();
  const at::Tensor self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(addmm_as_compiled(self, mat1, mat2, beta, alpha));
}

template <at::Tensor& (*kernel)(const at::Tensor&, const at::Tensor&, at::Tensor&)>
void product_out_as_compiled(Stack& stack) {
  at::Tensor out = torch::jit::pop(stack).toTensor();
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(kernel(self, mat2, out));
}

void addmm_out(Stack& stack) {
  at::Tensor out = torch::jit::pop(stack).toTensor();
  const at::Scalar alpha = torch::jit::pop(stack).toScalar(), beta = torch::jit::pop(stack).toScalar();
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), mat1 = torch::jit::pop(stack).toTensor();
  const at::Tensor self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(addmm_out_as_compiled(self, mat1, mat2, beta, alpha, out));
}

void addmm_in_place(Stack& stack) {
  const at::Scalar alpha = torch::jit::pop(stack).toScalar(), beta = torch::jit::pop(stack).toScalar();
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), mat1 = torch::jit::pop(stack).toTensor();
  at::Tensor self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(addmm_out_as_compiled(self, mat1, mat2, beta, alpha, self));
}

template <typename T>
bool are_places(const at::Tensor& index, int64_t size) {
  const at::Tensor flat = index.contiguous();
  const T* first = flat.const_data_ptr<T>();
  return std::all_of(first, first + flat.numel(), [size](T place) { return -size <= place && place < size; });
}

// Whether `indices`, one for each of the first dimensions or a mask of several, name elements of `self`.
bool are_places_of(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices) {
  int64_t dim = 0;
  for (const std::optional<at::Tensor>& index : indices) {
    if (dim >= self.dim()) return true;  // too many indices, which ATen reports first
    const bool is_given = index && index->defined();
    if (is_given && index->scalar_type() == at::kLong && !are_places<int64_t>(*index, self.size(dim))) return false;
    if (is_given && index->scalar_type() == at::kInt && !are_places<int32_t>(*index, self.size(dim))) return false;
    const bool is_mask = is_given && (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte);
    dim += is_mask ? index->dim() : 1;
  }
  return true;
}

// ATen may write some elements before it finds an index that is out of range. This kernel checks all indices first.
void index_put_(Stack& stack) {
  const bool accumulate = torch::jit::pop(stack).toBool();
  const at::Tensor values = torch::jit::pop(stack).toTensor();
  const auto indices = torch::jit::pop(stack).to<c10::List<std::optional<at::Tensor>>>();
  at::Tensor self = torch::jit::pop(stack).toTensor();
  if (!are_places_of(self, indices)) self.clone().index_put_(indices, values, accumulate);  // throws, with the index
  self.index_put_(indices, values, accumulate);
  stack.emplace_back(std::move(self));
}

template <loop::Combine extreme>
void place(Stack& stack) {
  const bool keepdim = torch::jit::pop(stack).toBool();
  const auto dim = torch::jit::pop(stack).toOptional<int64_t>();
  const at::Tensor self = torch::jit::pop(stack).toTensor();
  std::optional<at::Tensor> places = place_of_extreme(extreme, self, dim, keepdim);
  if (!places)
    places = extreme == loop::Combine::kMax ? at::argmax(self, dim, keepdim) : at::argmin(self, dim, keepdim);
  stack.emplace_back(*std::move(places));
}

}  // namespace

StackKernel own_kernel(const c10::OperatorName& name, bool as_compiled) {
  using Kernels = std::unordered_map<c10::OperatorName, StackKernel>;
  static const Kernels products_as_compiled{
      {{at::_ops::mm::name, ""}, &product_as_compiled<&mm_as_compiled>},
      {{at::_ops::bmm::name, ""}, &product_as_compiled<&bmm_as_compiled>},
      {{at::_ops::addmm::name, ""}, &addmm},
      {{at::_ops::mm::name, "out"}, &product_out_as_compiled<&mm_out_as_compiled>},
      {{at::_ops::bmm::name, "out"}, &product_out_as_compiled<&bmm_out_as_compiled>},
      {{at::_ops::addmm::name, "out"}, &addmm_out},
      {{at::_ops::addmm_::name, ""}, &addmm_in_place},
  };
  static const Kernels kernels{
      {{at::_ops::_int_mm::name, ""}, &int_mm},
      {{at::_ops::_int_mm::name, "out"}, &int_mm_out},
      {{at::_ops::mm::name, ""}, &product<&at::mm, 2>},
      {{at::_ops::bmm::name, ""}, &product<&at::bmm, 3>},
      {{at::_ops::index_put_::name, ""}, &index_put_},
      {{at::_ops::argmax::name, ""}, &place<loop::Combine::kMax>},
      {{at::_ops::argmin::name, ""}, &place<loop::Combine::kMin>},
  };
  if (const auto found = products_as_compiled.find(name); as_compiled && found != products_as_compiled.end())
    return found->second;
  const auto found = kernels.find(name);
  return found == kernels.end() ? nullptr : found->second;
}

}  // namespace npugraph::own
