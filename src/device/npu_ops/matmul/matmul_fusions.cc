// SPDX-License-Identifier: Apache-2.0
// Products of matrices in floats, fused with operations before or after them, and their gradients.
#include <array>
#include <tuple>
#include <vector>

#include <ATen/ExpandUtils.h>

#include "device/npu_ops/families.h"
#include "device/npu_ops/matmul/quant_products.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

Tensor bmm(const Tensor& self, const Tensor& mat2, c10::SymIntArrayRef sizes) {
  const Tensor product = at::matmul(self, mat2);
  if (sizes.empty()) return product;
  if (c10::multiply_integers(sizes) == product.sym_numel()) return product.reshape_symint(sizes);
  TORCH_CHECK(at::is_expandable_to(sizes, product.sym_sizes()), "npu_bmmV2: output_sizes is ", sizes,
              ", which is neither a shape of the product's elements, which has ", product.sym_sizes(),
              ", nor one that it can be summed to");
  return at::sum_to(product, sizes);
}

Tensor bmm_first_backward(const Tensor& grad, const Tensor&, const Tensor& mat2, c10::SymIntArrayRef size) {
  return at::sum_to(at::matmul(grad, flipped(mat2)), size);
}

Tensor bmm_second_backward(const Tensor& grad, const Tensor& mat1, const Tensor&, c10::SymIntArrayRef size) {
  return at::sum_to(at::matmul(flipped(mat1), grad), size);
}

// The sum of those of `a` and `b` that are defined, in the shape of `like`; undefined if it is not wanted.
Tensor summed(bool wanted, const Tensor& a, const Tensor& b, const Tensor& like) {
  if (!wanted) return {};
  if (!a.defined() && !b.defined()) return at::zeros_like(like);
  const Tensor sum = a.defined() && b.defined() ? a + b : a.defined() ? a : b;
  return at::sum_to(sum, like.sym_sizes());
}

std::tuple<Tensor, Tensor, Tensor> matmul_double_backward(const OptionalTensor& grad_self,
                                                          const OptionalTensor& grad_other, const Tensor& grad_out,
                                                          const Tensor& input, const Tensor& other,
                                                          std::array<bool, 3> mask) {
  const Tensor first = grad_self.value_or(Tensor()), second = grad_other.value_or(Tensor());
  const auto product = [](const Tensor& a, const Tensor& b) {
    return a.defined() && b.defined() ? at::matmul(a, b) : Tensor();
  };
  const Tensor none;
  return {summed(mask[0], product(first, other), product(input, second), grad_out),
          summed(mask[1], second.defined() ? at::matmul(grad_out, flipped(second)) : none, none, input),
          summed(mask[2], first.defined() ? at::matmul(flipped(first), grad_out) : none, none, other)};
}

Tensor fused_matmul(const Tensor& x1, const Tensor& x2, const OptionalTensor& bias, const OptionalTensor& x3,
                    c10::string_view fused_op_type) {
  constexpr const char* kOp = "npu_fused_matmul";
  check_floating(kOp, "x1", x1);
  Tensor out = at::matmul(wide(x1), wide(x2));
  if (bias) out = out + wide(*bias);
  const bool takes_third = fused_op_type == "add" || fused_op_type == "mul";
  TORCH_CHECK(takes_third == x3.has_value(), kOp, ": x3 is ", x3 ? "given" : "None", " with fused_op_type \"",
              fused_op_type, "\", it belongs to \"add\" and \"mul\"");
  if (fused_op_type == "16cast32") return out;
  if (fused_op_type == "add")
    out = out + wide(*x3);
  else if (fused_op_type == "mul")
    out = out * wide(*x3);
  else if (fused_op_type == "relu")
    out = at::relu(out);
  else if (fused_op_type == "gelu_erf")
    out = at::gelu(out);
  else if (fused_op_type == "gelu_tanh")
    out = at::gelu(out, "tanh");
  else
    TORCH_CHECK(fused_op_type.empty(), kOp, ": fused_op_type is \"", fused_op_type,
                "\", allowed are \"\", \"16cast32\", \"add\", \"mul\", \"relu\", \"gelu_erf\" and \"gelu_tanh\"");
  return out.to(x1.scalar_type());
}

// Columns [begin, end) of the result, and the addend for them.
struct GatheredAddend {
  c10::SymInt begin, end;
  Tensor addend;
};

GatheredAddend gathered_addend(const char* op, const Tensor& input, const Tensor& x, const Tensor& weight_b,
                               const Tensor& indices, const OptionalTensor& weight_a, int64_t layer_idx, double scale,
                               int64_t y_offset, int64_t y_slice_size) {
  check_dims(op, "weight_b", weight_b, 4, 4);
  check_type(op, "indices", indices, {at::kInt, at::kLong});
  const Tensor places = indices.to(at::kLong), chosen = places.clamp_min(0);
  Tensor rows = wide(x).unsqueeze(-1);
  if (weight_a) rows = at::matmul(wide(weight_a->select(1, layer_idx).index_select(0, chosen)), rows);
  const Tensor out = at::matmul(wide(weight_b.select(1, layer_idx).index_select(0, chosen)), rows).squeeze(-1);
  const c10::SymInt size = y_slice_size < 0 ? input.sym_size(1) - y_offset : c10::SymInt(y_slice_size);
  TORCH_CHECK(out.sym_size(-1) == size, op, ": weight_b gives ", out.sym_size(-1), " columns, and y_slice_size says ",
              size);
  return {y_offset, y_offset + size, out.masked_fill((places < 0).unsqueeze(-1), 0) * scale};
}

Tensor& batch_gather_matmul_(Tensor& input, const Tensor& x, const Tensor& weight_b, const Tensor& indices,
                             const OptionalTensor& weight_a, int64_t layer_idx, double scale, int64_t y_offset,
                             int64_t y_slice_size) {
  const GatheredAddend in = gathered_addend("npu_batch_gather_matmul_", input, x, weight_b, indices, weight_a,
                                            layer_idx, scale, y_offset, y_slice_size);
  input.slice_symint(1, in.begin, in.end).add_(in.addend);
  return input;
}

Tensor batch_gather_matmul(const Tensor& input, const Tensor& x, const Tensor& weight_b, const Tensor& indices,
                           const OptionalTensor& weight_a, int64_t layer_idx, double scale, int64_t y_offset,
                           int64_t y_slice_size) {
  const GatheredAddend in = gathered_addend("npu_batch_gather_matmul", input, x, weight_b, indices, weight_a, layer_idx,
                                            scale, y_offset, y_slice_size);
  const Tensor sum = wide(input).slice_symint(1, in.begin, in.end) + in.addend;
  return at::slice_scatter_symint(input, sum.to(input.scalar_type()), 1, in.begin, in.end);
}

Tensor activated_by_name(const char* op, c10::string_view activation, const Tensor& x) {
  if (activation == "relu") return at::relu(x);
  if (activation == "gelu") return at::gelu(x);
  if (activation == "fastgelu") return sigmoid_gelu(x);
  if (activation == "silu") return at::silu(x);
  const auto halves = x.chunk(2, -1);  // gated units: Shazeer, 2020, arXiv:2002.05202
  if (activation == "geglu") return at::gelu(halves[0]) * halves[1];
  if (activation == "swiglu") return at::silu(halves[0]) * halves[1];
  TORCH_CHECK(activation == "reglu", op, ": activation is \"", activation,
              "\", allowed are relu, gelu, fastgelu, silu, geglu, swiglu and reglu");
  return at::relu(halves[0]) * halves[1];
}

// The number of rows of each expert, from counts, `tokens`, or from cumulative ends, `index`. Without both, one
// expert takes all rows.
std::vector<c10::SymInt> expert_counts(const char* op, const Tensor& rows, at::OptionalIntArrayRef tokens,
                                       at::OptionalIntArrayRef index) {
  TORCH_CHECK(!tokens || !index, op, ": expert_tokens and expert_tokens_index are given, allowed is one of them");
  std::vector<c10::SymInt> out;
  if (!tokens && !index) return {rows.sym_size(0)};
  int64_t begin = 0;
  for (const int64_t value : tokens ? *tokens : *index) {
    out.push_back(tokens ? value : value - begin);
    begin = value;
  }
  return out;
}

struct Expert {
  Tensor weight1, weight2;
  OptionalTensor bias1, bias2, scale, offset, deq_scale1, deq_scale2, antiquant_scale1, antiquant_scale2,
      antiquant_offset1, antiquant_offset2;
};

Tensor expert_product(const char* op, const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                      const OptionalTensor& deq_scale, const OptionalTensor& antiquant_scale,
                      const OptionalTensor& antiquant_offset) {
  const Tensor plain = read_weight_as(op, "a weight", weight, std::nullopt, x.sym_size(-1));
  if (x.scalar_type() == at::kChar) return finished(op, int8_product(x, plain), {bias, deq_scale, {}, {}}, at::kFloat);
  const Tensor exact =
      antiquant_scale ? dequantised_weight(op, plain, *antiquant_scale, antiquant_offset) : wide(plain);
  const Tensor out = at::matmul(wide(x), exact);
  return bias ? out + wide(*bias) : out;
}

Tensor of_expert(const char* op, const Tensor& rows, const Expert& in, c10::string_view activation) {
  Tensor hidden = activated_by_name(
      op, activation,
      expert_product(op, rows, in.weight1, in.bias1, in.deq_scale1, in.antiquant_scale1, in.antiquant_offset1));
  if (rows.scalar_type() == at::kChar) {
    TORCH_CHECK(in.scale, op, ": x is of type Char, and scale is not given");
    hidden = hidden * wide(*in.scale);
    hidden = quantised(op, in.offset ? hidden + wide(*in.offset) : hidden, QuantType{});
  }
  return expert_product(op, hidden, in.weight2, in.bias2, in.deq_scale2, in.antiquant_scale2, in.antiquant_offset2);
}

Tensor ffn(const Tensor& x, const Tensor& weight1, const Tensor& weight2, c10::string_view activation,
           at::OptionalIntArrayRef expert_tokens, at::OptionalIntArrayRef expert_tokens_index,
           const OptionalTensor& bias1, const OptionalTensor& bias2, const OptionalTensor& scale,
           const OptionalTensor& offset, const OptionalTensor& deq_scale1, const OptionalTensor& deq_scale2,
           const OptionalTensor& antiquant_scale1, const OptionalTensor& antiquant_scale2,
           const OptionalTensor& antiquant_offset1, const OptionalTensor& antiquant_offset2, std::optional<int64_t>,
           std::optional<at::ScalarType> output_dtype) {
  constexpr const char* kOp = "npu_ffn";
  check_type(kOp, "x", x, {at::kChar, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble});
  const bool has_experts = weight1.dim() == 3;
  const Tensor rows = x.flatten(0, -2);
  const auto counts = expert_counts(kOp, rows, expert_tokens, expert_tokens_index);
  const auto of = [&](const OptionalTensor& all, size_t expert) {
    return all && has_experts ? OptionalTensor(all->select(0, static_cast<int64_t>(expert))) : all;
  };
  const auto parts = rows.split_with_sizes_symint(counts);
  std::vector<Tensor> out;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Expert expert{*of(weight1, i),
                        *of(weight2, i),
                        of(bias1, i),
                        of(bias2, i),
                        of(scale, i),
                        of(offset, i),
                        of(deq_scale1, i),
                        of(deq_scale2, i),
                        of(antiquant_scale1, i),
                        of(antiquant_scale2, i),
                        of(antiquant_offset1, i),
                        of(antiquant_offset2, i)};
    out.push_back(of_expert(kOp, parts[i], expert, activation));
  }
  std::vector<c10::SymInt> shape = x.sym_sizes().vec();
  shape.back() = out[0].sym_size(-1);
  const at::ScalarType type = output_dtype.value_or(x.scalar_type() == at::kChar ? at::kHalf : x.scalar_type());
  return at::cat(out).view_symint(shape).to(type);
}

}  // namespace

void define_matmul_fusions(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_bmmV2(Tensor self, Tensor mat2, SymInt[] output_sizes) -> Tensor",
      .kernel = parts(&bmm),
      .definition = "torch.matmul(self, mat2) in the shape output_sizes: reshaped if that has as many elements as the "
                    "product, else summed over the dimensions that output_sizes lacks or has as 1. An empty "
                    "output_sizes keeps the shape of the product.",
  });
  library.add({
      .schema = "npu::npu_bmm_v2_mat1_backward(Tensor grad, Tensor mat1, Tensor mat2, SymInt[] size) -> Tensor",
      .kernel = parts(&bmm_first_backward),
      .definition = "Gradient of mat1 in npu_bmmV2(mat1, mat2, []): grad @ mat2.transpose(-1, -2), summed over "
                    "broadcast dimensions to the shape size. mat1 is ignored.",
  });
  library.add({
      .schema = "npu::npu_bmm_v2_mat2_backward(Tensor grad, Tensor mat1, Tensor mat2, SymInt[] size) -> Tensor",
      .kernel = parts(&bmm_second_backward),
      .definition = "Gradient of mat2 in npu_bmmV2(mat1, mat2, []): mat1.transpose(-1, -2) @ grad, summed over "
                    "broadcast dimensions to the shape size. mat2 is ignored.",
  });
  library.add({
      .schema = "npu::matmul_double_backward(Tensor? grad_self, Tensor? grad_other, Tensor grad_out, Tensor input, "
                "Tensor other, bool[3] mask) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&matmul_double_backward),
      .definition = "Second derivative of torch.matmul(input, other), that is the gradient of its two gradients, "
                    "grad_out @ other.T and input.T @ grad_out. grad_self and grad_other are the gradients of these "
                    "two, where None counts as zero. Results: the gradients of grad_out, input and other, each None "
                    "where mask is False.",
  });
  library.add({
      .schema = "npu::npu_fused_matmul(Tensor x1, Tensor x2, *, Tensor? bias=None, Tensor? x3=None, str "
                "fused_op_type='') -> Tensor",
      .kernel = parts(&fused_matmul),
      .definition = "Matrix product with a fused epilogue: y = x1 @ x2 + bias in float32, followed by fused_op_type: "
                    "none if empty, add (y + x3), mul (y * x3), relu, gelu_erf or gelu_tanh. x3 must be given for add "
                    "and mul, and only for them. The result is in the type of x1, or in float32 for 16cast32, which "
                    "has no other effect.",
  });
  library.add({
      .schema = "npu::npu_batch_gather_matmul(Tensor input, Tensor x, Tensor weight_b, Tensor indices, Tensor? "
                "weight_a=None, int layer_idx=0, float scale=1e-3, int y_offset=0, int y_slice_size=-1) -> Tensor",
      .kernel = parts(&batch_gather_matmul),
      .definition = "Adds the output of a low-rank adapter (LoRA), chosen for each row, to input (Punica: Chen et "
                    "al., 2023). Row i of columns [y_offset, y_offset + y_slice_size) grows by scale * "
                    "weight_b[indices[i], layer_idx] @ weight_a[indices[i], layer_idx] @ x[i]; a negative index adds "
                    "nothing. input is [B, H], x [B, K], indices [B] in int32 or int64, weight_a [adapters, layers, "
                    "R, K] and weight_b [adapters, layers, y_slice_size, R]. Without weight_a, x is [B, R] and "
                    "multiplied by weight_b alone. A y_slice_size of -1 stands for all columns from y_offset on.",
  });
  library.add({
      .schema = "npu::npu_batch_gather_matmul_(Tensor(a!) input, Tensor x, Tensor weight_b, Tensor indices, Tensor? "
                "weight_a=None, int layer_idx=0, float scale=1e-3, int y_offset=0, int y_slice_size=-1) -> Tensor(a!)",
      .kernel = parts(&batch_gather_matmul_),
      .definition = "npu_batch_gather_matmul in place, in input.",
  });
  library.add({
      .schema = "npu::npu_ffn(Tensor x, Tensor weight1, Tensor weight2, str activation, *, int[]? expert_tokens=None, "
                "int[]? expert_tokens_index=None, Tensor? bias1=None, Tensor? bias2=None, Tensor? scale=None, Tensor? "
                "offset=None, Tensor? deq_scale1=None, Tensor? deq_scale2=None, Tensor? antiquant_scale1=None, Tensor? "
                "antiquant_scale2=None, Tensor? antiquant_offset1=None, Tensor? antiquant_offset2=None, int? "
                "inner_precise=None, ScalarType? output_dtype=None) -> Tensor",
      .kernel = parts(&ffn),
      .definition = "Feed-forward network of two linear layers, for one expert or several: activation(x @ weight1 + "
                    "bias1) @ weight2 + bias2. x is [..., K]. Weights are matrices, or have a first dimension of "
                    "experts, which take rows of x in turn: expert_tokens has their counts or expert_tokens_index "
                    "their cumulative ends, and without both one expert takes all. activation is relu, gelu, fastgelu "
                    "(x * sigmoid(1.702 * x)) or silu, or geglu, swiglu or reglu, in which the first half of the "
                    "columns gates the second. For int8 x, the sums of both products are scaled by deq_scale1 and "
                    "deq_scale2, and the activations become round(h * scale + offset) in int8. For floating x, "
                    "quantised weights are dequantised as (weight + antiquant_offset) * antiquant_scale. "
                    "inner_precise is ignored. The result is in output_dtype, by default in float16 for int8 x, else "
                    "in the type of x.",
  });
}

}  // namespace npugraph::npu_ops
