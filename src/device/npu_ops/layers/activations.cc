// SPDX-License-Identifier: Apache-2.0
// Activations and gated units, computed in float32.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

struct Halves {
  Tensor first, second;
};

Halves halves_of(const char* op, const Tensor& x, int64_t dim) {
  check_floating(op, "input", x);
  check_dims(op, "input", x, 1, 8);
  TORCH_CHECK(x.sym_size(dim) % 2 == 0, op, ": dimension ", dim, " of input has size ", x.sym_size(dim),
              ", which has no two halves");
  const auto halves = wide(x).chunk(2, dim);
  return {halves[0], halves[1]};
}

Tensor swiglu(const Tensor& input, int64_t dim) {
  const Halves x = halves_of("npu_swiglu", input, dim);
  return (at::silu(x.first) * x.second).to(input.scalar_type());
}

Tensor swiglu_backward(const Tensor& grad_output, const Tensor& input, int64_t dim) {
  const Halves x = halves_of("npu_swiglu_backward", input, dim);
  const Tensor grad = wide(grad_output);
  const Tensor first = at::silu_backward(grad * x.second, x.first);
  return at::cat({first, grad * at::silu(x.first)}, dim).to(input.scalar_type());
}

Tensor clipped_swiglu(const Tensor& x, const OptionalTensor& group_index, int64_t dim, double alpha, double limit,
                      double bias, bool interleaved) {
  const char* op = "npu_clipped_swiglu";
  dim = at::maybe_wrap_dim(dim, x.dim());
  Halves parts = halves_of(op, x, dim);
  if (interleaved) {
    const auto pairs = wide(x).unflatten(dim, {-1, 2}).unbind(dim + 1);
    parts = {pairs[0], pairs[1]};
  }
  const Tensor gate = parts.first.clamp_max(limit);
  const Tensor y = gate * at::sigmoid(gate * alpha) * (parts.second.clamp(-limit, limit) + bias);
  if (!group_index || !group_index->defined()) return y.to(x.scalar_type());
  TORCH_CHECK(dim > 0, op, ": dim is 0, which with group_index has no rows before it");
  const Tensor row = at::arange(y.flatten(0, dim - 1).sym_size(0), group_index->options());
  c10::SymDimVector shape(y.sym_sizes().begin(), y.sym_sizes().begin() + dim);
  shape.resize(static_cast<size_t>(y.dim()), 1);
  return at::where((row < group_index->sum()).reshape_symint(shape), y, 0.0).to(x.scalar_type());
}

Tensor silu(const Tensor& input) {
  check_floating("npu_silu", "input", input);
  return at::silu(input);
}

Tensor& silu_(Tensor& input) {
  check_floating("npu_silu_", "input", input);
  return at::silu_(input);
}

Tensor silu_backward(const Tensor& grad_output, const Tensor& x0, const Tensor& /*x1*/) {
  check_same_shape("npu_silu_backward", "grad_output", grad_output, "x0", x0);
  return at::silu_backward(grad_output, x0);
}

constexpr double kFastGelu = 1.702;

Tensor fast_gelu(const Tensor& input) {
  check_floating("npu_fast_gelu", "input", input);
  const Tensor x = wide(input);
  return (x * at::sigmoid(x * kFastGelu)).to(input.scalar_type());
}

Tensor fast_gelu_backward(const Tensor& grad, const Tensor& input) {
  check_same_shape("npu_fast_gelu_backward", "grad", grad, "input", input);
  const Tensor x = wide(input);
  const Tensor gate = at::sigmoid(x * kFastGelu);
  return (wide(grad) * (gate + kFastGelu * x * gate * (1 - gate))).to(input.scalar_type());
}

c10::string_view approximation(const char* op, c10::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh", op, ": approximate is '", approximate,
              "', allowed are 'none' and 'tanh'");
  return approximate;
}

c10::string_view approximation(const char* op, int64_t approximate) {
  TORCH_CHECK(approximate == 0 || approximate == 1, op, ": approximate is ", approximate,
              ", allowed are 0 (none) and 1 (tanh)");
  return approximate == 0 ? "none" : "tanh";
}

Tensor gelu(const Tensor& input, c10::string_view approximate) {
  check_floating("npu_gelu", "input", input);
  return at::gelu(input, approximation("npu_gelu", approximate));
}

Tensor gelu_backward(const Tensor& grad_output, const Tensor& input, c10::string_view approximate) {
  check_same_shape("npu_gelu_backward", "grad_output", grad_output, "input", input);
  return at::gelu_backward(grad_output, input, approximation("npu_gelu_backward", approximate));
}

Tensor gelu_mul(const Tensor& input, c10::string_view approximate) {
  const Halves x = halves_of("npu_gelu_mul", input, -1);
  return (at::gelu(x.first, approximation("npu_gelu_mul", approximate)) * x.second).to(input.scalar_type());
}

std::tuple<Tensor, Tensor> geglu(const Tensor& input, int64_t dim, int64_t approximate, bool activate_left) {
  Halves x = halves_of("npu_geglu", input, dim);
  if (activate_left) std::swap(x.first, x.second);
  const Tensor activated = at::gelu(x.second, approximation("npu_geglu", approximate));
  return {(x.first * activated).to(input.scalar_type()), activated.to(input.scalar_type())};
}

Tensor geglu_grad(const Tensor& grad_output, const Tensor& input, const Tensor& gelu, int64_t dim, int64_t approximate,
                  bool activate_left) {
  const char* op = "npu_geglu_grad";
  Halves x = halves_of(op, input, dim);
  check_same_shape(op, "gelu", gelu, "grad_output", grad_output);
  if (activate_left) std::swap(x.first, x.second);
  const Tensor grad = wide(grad_output);
  Tensor linear = grad * wide(gelu);
  Tensor activated = at::gelu_backward(grad * x.first, x.second, approximation(op, approximate));
  if (activate_left) std::swap(linear, activated);
  return at::cat({linear, activated}, dim).to(input.scalar_type());
}

Tensor mish(const Tensor& input) {
  check_floating("npu_mish", "input", input);
  return at::mish(input);
}

Tensor mish_backward(const Tensor& grad, const Tensor& input) {
  check_same_shape("npu_mish_backward", "grad", grad, "input", input);
  return at::mish_backward(grad, input);
}

}  // namespace

void define_activations(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_swiglu(Tensor input, int dim=-1) -> Tensor",
      .kernel = parts(&swiglu),
      .definition = "SwiGLU (Shazeer, 2020): splits input into two halves along dim and returns silu(first half) * "
                    "second half. The size of input along dim must be even. The result has the floating type of input "
                    "and half its size along dim.",
  });
  library.add({
      .schema = "npu::npu_swiglu_backward(Tensor grad_output, Tensor input, int dim=-1) -> Tensor",
      .kernel = parts(&swiglu_backward),
      .definition = "Gradient of npu_swiglu with respect to input, from the gradient grad_output of its result. The "
                    "result has the shape and type of input.",
  });
  library.add({
      .schema = "npu::npu_clipped_swiglu(Tensor x, *, Tensor? group_index=None, int dim=-1, float alpha=1.702, float "
                "limit=7.0, float bias=1.0, bool interleaved=True) -> Tensor",
      .kernel = parts(&clipped_swiglu),
      .definition = "SwiGLU with clipped halves (gpt-oss, OpenAI, 2025): y = a * sigmoid(alpha * a) * (b + bias) with "
                    "a = min(gate, limit) and b = clamp(linear, -limit, limit). gate and linear are the even and the "
                    "odd elements of x along dim if interleaved, else its first and its second half. The result has "
                    "the type of x and half its size along dim. With group_index, a tensor of counts, only the first "
                    "sum(group_index) rows of the result are computed, and the others are 0. Rows are all dimensions "
                    "before dim, which must not be the first one then.",
  });
  library.add({
      .schema = "npu::npu_silu(Tensor input) -> Tensor",
      .kernel = parts(&silu),
      .definition = "torch.nn.functional.silu: input * sigmoid(input). The result has the shape and the floating type "
                    "of input.",
  });
  library.add({
      .schema = "npu::npu_silu_(Tensor(a!) input) -> Tensor(a!)",
      .kernel = composite(&silu_),
      .definition = "npu_silu in place: overwrites input and returns it.",
  });
  library.add({
      .schema = "npu::npu_silu_backward(Tensor grad_output, Tensor x0, Tensor x1) -> Tensor",
      .kernel = parts(&silu_backward),
      .definition = "Gradient of npu_silu with respect to its input x0, from the gradient grad_output of its result. "
                    "x1, the result of npu_silu, is ignored. The result has the shape of x0.",
  });
  library.add({
      .schema = "npu::npu_fast_gelu(Tensor input) -> Tensor",
      .kernel = parts(&fast_gelu),
      .definition = "Approximation of GELU by a sigmoid (Hendrycks and Gimpel, 2016): input * sigmoid(1.702 * input). "
                    "The result has the shape and the floating type of input.",
  });
  library.add({
      .schema = "npu::fast_gelu(Tensor input) -> Tensor",
      .kernel = parts(&fast_gelu),
      .definition = "Another name of npu_fast_gelu.",
  });
  library.add({
      .schema = "npu::npu_fast_gelu_backward(Tensor grad, Tensor input) -> Tensor",
      .kernel = parts(&fast_gelu_backward),
      .definition = "Gradient of npu_fast_gelu with respect to input, from the gradient grad of its result. The result "
                    "has the shape and type of input.",
  });
  library.add({
      .schema = "npu::npu_gelu(Tensor input, *, str approximate='none') -> Tensor",
      .kernel = parts(&gelu),
      .definition = "torch.nn.functional.gelu (Hendrycks and Gimpel, 2016). approximate is 'none' for the exact "
                    "function or 'tanh' for its approximation. The result has the shape and the floating type of "
                    "input.",
  });
  library.add({
      .schema = "npu::npu_gelu_backward(Tensor grad_output, Tensor input, *, str approximate='none') -> Tensor",
      .kernel = parts(&gelu_backward),
      .definition = "Gradient of npu_gelu with respect to input, from the gradient grad_output of its result. "
                    "approximate is that of the forward call.",
  });
  library.add({
      .schema = "npu::npu_gelu_mul(Tensor input, *, str approximate='none') -> Tensor",
      .kernel = parts(&gelu_mul),
      .definition = "Gated GELU over the last dimension: splits input into two halves and returns gelu(first half) * "
                    "second half. approximate is 'none' for the exact GELU or 'tanh' for its approximation. The last "
                    "dimension of input must have an even size. The result has the floating type of input and half its "
                    "last dimension.",
  });
  library.add({
      .schema =
          "npu::npu_geglu(Tensor input, int dim=-1, int approximate=1, bool activate_left=False) -> (Tensor, Tensor)",
      .kernel = parts(&geglu),
      .definition = "GEGLU (Shazeer, 2020): splits input into two halves along dim and returns first half * "
                    "gelu(second half), or gelu(first half) * second half with activate_left. approximate is 0 for the "
                    "exact GELU or 1 for its tanh approximation. Results: the product and the GELU alone, both of the "
                    "floating type of input and half its size along dim.",
  });
  library.add({
      .schema = "npu::npu_geglu_grad(Tensor grad_output, Tensor input, Tensor gelu, int dim=-1, int approximate=1, "
                "bool activate_left=False) -> Tensor",
      .kernel = parts(&geglu_grad),
      .definition = "Gradient of npu_geglu with respect to input, from the gradient grad_output of its first result. "
                    "gelu is its second result, and dim, approximate and activate_left are those of the forward call. "
                    "The result has the shape and type of input.",
  });
  library.add({
      .schema = "npu::npu_mish(Tensor input) -> Tensor",
      .kernel = parts(&mish),
      .definition = "torch.nn.functional.mish (Misra, 2019): input * tanh(softplus(input)). The result has the shape "
                    "and the floating type of input.",
  });
  library.add({
      .schema = "npu::npu_mish_backward(Tensor grad, Tensor input) -> Tensor",
      .kernel = parts(&mish_backward),
      .definition = "Gradient of npu_mish with respect to input, from the gradient grad of its result.",
  });
}

}  // namespace npugraph::npu_ops
