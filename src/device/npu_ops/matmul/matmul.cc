// SPDX-License-Identifier: Apache-2.0
// Products of matrices, and conversions of types.
#include <tuple>

#include "backend/own_kernels/generated_product.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/matmul/quant_products.h"

namespace npugraph::npu_ops {
namespace {

using Perm = at::OptionalIntArrayRef;

constexpr int64_t kSame[] = {0, 1, 2};
constexpr int64_t kRows[] = {1, 0, 2};     // batches behind rows
constexpr int64_t kColumns[] = {0, 2, 1};  // a transposed matrix

Tensor permuted(const char* op, const char* name, const Tensor& x, Perm perm, at::IntArrayRef other) {
  if (!perm || perm->empty() || *perm == at::IntArrayRef(kSame)) return x;
  TORCH_CHECK(*perm == other, op, ": ", name, " is ", *perm, ", allowed are [0, 1, 2] and ", other);
  return x.permute(*perm);
}

// [b, m, n] to [m, b, n], or with a factor f to [f, m, b * n / f].
Tensor batches_inside(const char* op, const Tensor& product, Perm perm_y, OptionalInt factor) {
  TORCH_CHECK(!perm_y || perm_y->empty() || *perm_y == at::IntArrayRef(kRows), op, ": perm_y is ", *perm_y,
              ", allowed is [1, 0, 2]");
  const Tensor out = product.transpose(0, 1);
  const int64_t parts = factor.value_or(1);
  if (parts == 1) return out.contiguous();
  const c10::SymInt m = out.sym_size(0), batches = out.sym_size(1);
  TORCH_CHECK(parts > 0 && batches % parts == 0, op, ": batch_split_factor is ", parts, ", which does not divide ",
              batches, " batches");
  return out.reshape_symint({m, parts, batches / parts * out.sym_size(2)}).transpose(0, 1).contiguous();
}

Tensor transpose_batchmatmul(const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                             const OptionalTensor& scale, Perm perm_x1, Perm perm_x2, Perm perm_y,
                             OptionalInt batch_split_factor) {
  constexpr const char* kOp = "npu_transpose_batchmatmul";
  check_floating(kOp, "input", input);
  check_dims(kOp, "input", input, 3, 3);
  check_dims(kOp, "weight", weight, 3, 3);
  const Tensor x1 = permuted(kOp, "perm_x1", input, perm_x1, kRows);
  const Tensor x2 = permuted(kOp, "perm_x2", weight, perm_x2, kColumns);
  if (!bias && !scale) return batches_inside(kOp, own::bmm_as_compiled(x1, x2), perm_y, batch_split_factor);
  Tensor product = at::bmm(wide(x1), wide(x2));
  if (bias) product = product + wide(bias->dim() == 2 ? bias->unsqueeze(1) : *bias);
  if (!scale) return batches_inside(kOp, product, perm_y, batch_split_factor).to(input.scalar_type());
  TORCH_CHECK(batch_split_factor.value_or(1) == 1, kOp, ": batch_split_factor is ", *batch_split_factor,
              ", allowed with a scale is 1");
  const Tensor rows = batches_inside(kOp, product, perm_y, 1).flatten(1).unsqueeze(1);
  return finished(kOp, rows, {{}, scale, {}, {}}, at::kChar);
}

Tensor transpose_quant_batchmatmul(const Tensor& x1, const Tensor& x2, int64_t dtype, const OptionalTensor& bias,
                                   const OptionalTensor& x1_scale, const OptionalTensor& x2_scale, Perm group_sizes,
                                   Perm perm_x1, Perm perm_x2, Perm perm_y, OptionalInt batch_split_factor,
                                   OptionalInt x1_dtype, OptionalInt x2_dtype) {
  constexpr const char* kOp = "npu_transpose_quant_batchmatmul";
  check_dims(kOp, "x1", x1, 3, 3);
  check_dims(kOp, "x2", x2, 3, 3);
  TORCH_CHECK(x1_scale && x2_scale, kOp, ": x1_scale or x2_scale is None, allowed are tensors");
  const Perm perm_left = perm_x1 && !perm_x1->empty() ? perm_x1 : Perm(at::IntArrayRef(kRows));
  const Tensor left = permuted(kOp, "perm_x1", read_as(kOp, "x1", x1, x1_dtype), perm_left, kRows);
  const Tensor right = permuted(kOp, "perm_x2", read_as(kOp, "x2", x2, x2_dtype), perm_x2, kColumns);
  const bool has_blocks = is_block_scale(*x1_scale, std::nullopt);
  const bool turns_left = *perm_left == at::IntArrayRef(kRows), turns_right = perm_x2 == at::IntArrayRef(kColumns);
  const Tensor scale1 = has_blocks && turns_left ? x1_scale->transpose(0, 1) : *x1_scale;
  const Tensor scale2 = has_blocks && turns_right ? x2_scale->transpose(1, 2) : *x2_scale;
  Epilogue epilogue{.bias = bias};
  const QuantOperands operands{left, right, scale2, scale1, {}, {}, group_sizes_of(kOp, group_sizes)};
  const Tensor sums = scaled_product(kOp, operands, epilogue);
  const at::ScalarType type = output_type(kOp, dtype, at::kHalf);
  return batches_inside(kOp, finished(kOp, sums, epilogue, type), perm_y, batch_split_factor);
}

Tensor linear(const Tensor& input, const Tensor& weight, const OptionalTensor& bias) {
  const auto product = weight.dim() == 2 ? own::generated_product(input, weight.t()) : std::nullopt;
  if (!product) return at::linear(input, weight, bias);
  return bias && bias->defined() ? product->add_(*bias) : *product;
}

std::tuple<Tensor, Tensor> linear_backward(const Tensor& grad, const Tensor& input, const Tensor& weight) {
  const Tensor rows = grad.reshape_symint({-1, grad.sym_size(-1)});
  return {at::matmul(grad, weight), at::mm(rows.t(), input.reshape_symint({-1, input.sym_size(-1)}))};
}

// Always a new tensor, even if the type is the same: results share no memory with arguments.
Tensor cast(const Tensor& input, at::ScalarType dtype) { return at::_to_copy(input, input.options().dtype(dtype)); }

Tensor cast_by_code(const Tensor& input, int64_t dtype, OptionalInt input_dtype) {
  const at::ScalarType from = type_of_code("npu_dtype_cast", "input_dtype", input_dtype, input.scalar_type());
  // Only if the type differs: a view of another type has no gradient.
  const Tensor read = from == input.scalar_type() ? input : input.view(from);
  return cast(read, type_of_code("npu_dtype_cast", "dtype", dtype, from));
}

Tensor& cast_into(Tensor& input, const Tensor& src) { return input.copy_(src); }

Tensor cast_backward(const Tensor& grad, at::ScalarType dtype, OptionalInt, OptionalInt) { return cast(grad, dtype); }

}  // namespace

void define_matmul(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_transpose_batchmatmul(Tensor input, Tensor weight, *, Tensor? bias=None, Tensor? scale=None, "
                "int[]? perm_x1=None, int[]? perm_x2=None, int[]? perm_y=None, int? batch_split_factor=1) -> Tensor",
      .kernel = parts(&transpose_batchmatmul),
      .definition = "Batched matrix product with permuted operands and a result in which the batch comes after the "
                    "rows: y = (input @ weight + bias).transpose(0, 1). input is [B, M, K], or [M, B, K] with perm_x1 "
                    "[1, 0, 2]; weight is [B, K, N], or [B, N, K] with perm_x2 [0, 2, 1]; bias is [N] or [B, N]; "
                    "perm_y must be [1, 0, 2]. The result is [M, B, N] in the type of input, or with "
                    "batch_split_factor f [f, M, B * N / f]. With scale, one value or [B * N], it is round(y * "
                    "scale), saturated, in int8, [M, 1, B * N]; batch_split_factor must then be 1.",
  });
  library.add({
      .schema =
          "npu::npu_transpose_quant_batchmatmul(Tensor x1, Tensor x2, int dtype, *, Tensor? bias=None, Tensor? "
          "x1_scale=None, Tensor? x2_scale=None, int[]? group_sizes=None, int[]? perm_x1=None, int[]? perm_x2=None, "
          "int[]? perm_y=None, int? batch_split_factor=1, int? x1_dtype=None, int? x2_dtype=None) -> Tensor",
      .kernel = parts(&transpose_quant_batchmatmul),
      .definition = "npu_transpose_batchmatmul of int8 or float8 operands, scaled as by npu_quant_matmul with "
                    "x1_scale as its pertoken_scale and x2_scale as its scale, both of which must be given. x1 is [M, "
                    "B, K], or [B, M, K] with perm_x1 [0, 1, 2]. x1_scale is [M] or [B, M], and x2_scale one value, "
                    "[N] or [B, 1, N]; scales of MX blocks have the order of dimensions of their operand. x1_dtype, "
                    "x2_dtype and group_sizes are those of npu_quant_matmul. The result is in dtype.",
  });
  library.add({
      .schema = "npu::npu_linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
      .kernel = parts(&linear),
      .definition = "torch.nn.functional.linear: input @ weight.T + bias. input is [..., K], weight [N, K] and bias "
                    "[N]; the result is [..., N] in the type of input.",
  });
  library.add({
      .schema = "npu::npu_linear_backward(Tensor grad, Tensor input, Tensor weight) -> (Tensor, Tensor)",
      .kernel = parts(&linear_backward),
      .definition = "Gradient of npu_linear. grad is the gradient of its result, [..., N]. Results: the gradient of "
                    "input, grad @ weight, and the gradient of weight, [N, K], which is grad.T @ input with all "
                    "leading dimensions flattened to rows.",
  });
  library.add({
      .schema = "npu::_npu_dtype_cast(Tensor input, ScalarType dtype) -> Tensor",
      .kernel = parts(&cast),
      .definition = "Converts input to dtype, as torch.Tensor.to does, but always into a new tensor.",
  });
  library.add({
      .schema = "npu::npu_dtype_cast(Tensor input, int dtype, int? input_dtype=None) -> Tensor",
      .kernel = parts(&cast_by_code),
      .definition = "Converts input to dtype, always into a new tensor. dtype is a torch.dtype or the code of a type "
                    "of torch_npu. With input_dtype, the bytes of input are read as that type first.",
  });
  library.add({
      .schema = "npu::npu_dtype_cast_(Tensor(a!) input, Tensor src) -> Tensor(a!)",
      .kernel = parts(&cast_into),
      .definition = "Converts src to the type of input and writes it into input, in place.",
  });
  library.add({
      .schema = "npu::_npu_dtype_cast_backward(Tensor grad, ScalarType dtype) -> Tensor",
      .kernel = parts(&cast),
      .definition = "Gradient of _npu_dtype_cast: converts grad to dtype, always into a new tensor.",
  });
  library.add({
      .schema = "npu::npu_dtype_cast_backward(Tensor grad, ScalarType dtype, int? grad_dtype=None, int? "
                "input_dtype=None) -> Tensor",
      .kernel = parts(&cast_backward),
      .definition = "Gradient of npu_dtype_cast: converts grad to dtype, always into a new tensor. grad_dtype and "
                    "input_dtype are ignored.",
  });
}

}  // namespace npugraph::npu_ops
