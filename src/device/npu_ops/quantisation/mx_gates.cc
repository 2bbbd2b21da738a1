// SPDX-License-Identifier: Apache-2.0
// Gated units with results that are quantised in blocks.
#include <tuple>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/quantisation/microscaling.h"

namespace npugraph::npu_ops {
namespace {

using TwoAxes = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// silu(gate) * other. With a limit above 0, gate is clamped to at most the limit, and other to [-limit, limit].
struct Unit {
  Tensor gate, other;
  double limit = 0;
  bool left = true;  // the gate is the first half

  Tensor cut_gate() const { return limit > 0 ? gate.clamp_max(limit) : gate; }
  Tensor cut_other() const { return limit > 0 ? other.clamp(-limit, limit) : other; }
  Tensor result() const { return at::silu(cut_gate()) * cut_other(); }
  Tensor gradient(const Tensor& grad) const {
    Tensor of_gate = at::silu_backward(grad * cut_other(), cut_gate()), of_other = grad * at::silu(cut_gate());
    if (limit > 0) of_gate = of_gate * gate.le(limit);
    if (limit > 0) of_other = of_other * other.abs().le(limit);
    return left ? at::cat({of_gate, of_other}, -1) : at::cat({of_other, of_gate}, -1);
  }
};

Unit unit_of(const char* op, const Tensor& x, bool left, double limit = 0) {
  check_floating(op, "x", x);
  check_dims(op, "x", x, 1, 7);
  TORCH_CHECK(x.sym_size(-1) % 2 == 0, op, ": the last dimension of x has size ", x.sym_size(-1),
              ", which has no two halves");
  const auto halves = wide(x).chunk(2, -1);
  return {halves[left ? 0 : 1], halves[left ? 1 : 0], limit, left};
}

// Quantises `exact` in blocks along the last dimension, and again along the one before it. With `group_index`, the
// latter blocks begin anew with each group of rows.
TwoAxes blocks_of_two(const char* op, const Tensor& exact, const OptionalTensor& group_index, int64_t dst_type,
                      const MxOptions& options) {
  check_options(op, options);
  check_dims(op, "x", exact, 2, 7);
  const ElementType type = element_type(op, "dst_type", dst_type);
  const Blocks last = to_blocks(op, exact, -1, type, options.scale_alg);
  const Blocks before = group_index ? to_grouped_blocks(op, exact, *group_index, type, options.scale_alg)
                                    : to_blocks(op, exact, -2, type, options.scale_alg);
  return {last.values, last.scale, before.values, before.scale};
}

TwoAxes swiglu_mx_quant_with_dual_axis(const Tensor& x, const OptionalTensor& group_index, bool activate_left,
                                       c10::string_view round_mode, int64_t scale_alg, int64_t dst_type,
                                       double dst_type_max) {
  constexpr const char* kOp = "npu_swiglu_mx_quant_with_dual_axis";
  const Unit unit = unit_of(kOp, x, activate_left);
  return blocks_of_two(kOp, unit.result(), group_index, dst_type,
                       {.round_mode = round_mode, .scale_alg = scale_alg, .dst_type_max = dst_type_max});
}

TwoAxes swiglu_backward_mx_quant_with_dual_axis(const Tensor& x, const Tensor& y_grad,
                                                const OptionalTensor& group_index, bool activate_left,
                                                c10::string_view round_mode, int64_t scale_alg, int64_t dst_type,
                                                double dst_type_max) {
  constexpr const char* kOp = "_npu_swiglu_backward_mx_quant_with_dual_axis";
  const Unit unit = unit_of(kOp, x, activate_left);
  check_same_shape(kOp, "y_grad", y_grad, "a half of x", unit.gate);
  return blocks_of_two(kOp, unit.gradient(wide(y_grad)), group_index, dst_type,
                       {.round_mode = round_mode, .scale_alg = scale_alg, .dst_type_max = dst_type_max});
}

// `weight`, one value for each row of `rows`, shaped to broadcast with the values of the row.
Tensor weight_of_rows(const char* op, const Tensor& weight, const Tensor& rows) {
  std::vector<c10::SymInt> shape = rows.sym_sizes().vec();
  shape.back() = 1;
  const c10::SymInt count = c10::multiply_integers(shape);
  TORCH_CHECK(weight.sym_numel() == count, op, ": weight has ", weight.sym_numel(), " values, allowed is ", count,
              ", one for each row of x");
  return wide(weight).reshape_symint(shape);
}

std::tuple<Tensor, Tensor, Tensor> swiglu_group_quant(const Tensor& x, const OptionalTensor& weight,
                                                      const OptionalTensor&, const OptionalTensor& scale,
                                                      int64_t dst_type, int64_t quant_mode, int64_t block_size,
                                                      bool round_scale, double clamp_limit, double,
                                                      bool output_origin) {
  constexpr const char* kOp = "npu_swiglu_group_quant";
  check_choice(kOp, "quant_mode", quant_mode, {0});
  TORCH_CHECK(!scale, kOp, ": scale is a tensor, allowed is None: scales are those of the values");
  TORCH_CHECK(block_size >= 0, kOp, ": block_size is ", block_size, ", allowed are 0, which stands for 128, and more");
  const int64_t size = block_size == 0 ? 128 : block_size;
  const Tensor origin = unit_of(kOp, x, /*left=*/true, clamp_limit).result();
  const Tensor exact = weight ? origin * weight_of_rows(kOp, *weight, origin) : origin;
  const QuantType type = quant_type(kOp, "dst_type", dst_type);
  const Tensor rows = exact.to(at::kFloat).reshape_symint({-1, exact.sym_size(-1)});
  const Tensor largest = largest_of_blocks(rows, 1, size);
  const Tensor factor =
      round_scale ? shared_scale(largest, {.largest = type.high}, 1).to(at::kFloat) : largest / type.high;
  const Tensor divisor = factor.masked_fill(factor == 0, 1);
  const Tensor values = quantised(kOp, rows / spread_blocks(divisor, rows, 1, size), type);
  std::vector<c10::SymInt> of_scale = exact.sym_sizes().vec();
  of_scale.back() = factor.sym_size(-1);
  return {values.reshape_symint(exact.sym_sizes()), factor.reshape_symint(of_scale),
          output_origin ? origin.to(x.scalar_type()) : x.new_empty({0})};
}

std::tuple<Tensor, Tensor> swiglu_group_quant_backward(const Tensor& grad_y, const Tensor& x,
                                                       const OptionalTensor& weight, const OptionalTensor& y_origin,
                                                       const OptionalTensor&, double clamp_limit) {
  constexpr const char* kOp = "npu_swiglu_group_quant_backward";
  const Unit unit = unit_of(kOp, x, /*left=*/true, clamp_limit);
  check_same_shape(kOp, "grad_y", grad_y, "a half of x", unit.gate);
  const Tensor grad = wide(grad_y);
  if (!weight) return {unit.gradient(grad).to(x.scalar_type()), x.new_empty({0})};
  const Tensor grad_x = unit.gradient(grad * weight_of_rows(kOp, *weight, grad)).to(x.scalar_type());
  const Tensor origin = y_origin ? wide(*y_origin) : unit.result();
  return {grad_x, (grad * origin).sum(-1).reshape_symint(weight->sym_sizes()).to(weight->scalar_type())};
}

}  // namespace

void define_mx_gates(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_swiglu_mx_quant_with_dual_axis(Tensor x, *, Tensor? group_index=None, bool "
                "activate_left=True, str round_mode=\"rint\", int scale_alg=1, int dst_type=24, float dst_type_max=0) "
                "-> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&swiglu_mx_quant_with_dual_axis),
      .definition = "SwiGLU (Shazeer, 2020), followed by npu_dynamic_mx_quant_with_dual_axis: silu(a) * b, where a "
                    "and b are the first and the second half of the last dimension of x, or the second and the first "
                    "if activate_left is False. With group_index, the cumulative ends of groups of rows, the second "
                    "quantisation is that of npu_grouped_dynamic_mx_quant. dst_type_max must be 0. Results: values "
                    "and scales along the last dimension, and values and scales along the second to last.",
  });
  library.add({
      .schema = "npu::_npu_swiglu_backward_mx_quant_with_dual_axis(Tensor x, Tensor y_grad, *, Tensor? "
                "group_index=None, bool activate_left=True, str round_mode=\"rint\", int scale_alg=1, int dst_type=24, "
                "float dst_type_max=0) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&swiglu_backward_mx_quant_with_dual_axis),
      .definition = "Gradient of x of the SwiGLU of npu_swiglu_mx_quant_with_dual_axis, quantised as its result is. "
                    "y_grad is the gradient of silu(a) * b, of half the last dimension of x. Results: values and "
                    "scales along the last dimension, and values and scales along the second to last.",
  });
  library.add({
      .schema = "npu::npu_swiglu_group_quant(Tensor x, *, Tensor? weight=None, Tensor? group_index=None, Tensor? "
                "scale=None, int dst_type=291, int quant_mode=0, int block_size=0, bool round_scale=False, float "
                "clamp_limit=-1.0, float dst_type_max=15.0, bool output_origin=False) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&swiglu_group_quant),
      .definition = "SwiGLU, followed by dynamic quantisation in blocks of block_size values of each row (128 if it "
                    "is 0). y_origin = silu(a) * b, where a and b are the halves of the last dimension of x; a "
                    "clamp_limit above 0 clamps a to at most clamp_limit and b to [-clamp_limit, clamp_limit]. "
                    "y_origin * weight, with one weight per row, is quantised with scale = max(abs(block)) / largest "
                    "value of dst_type, rounded up to a power of two if round_scale is True (DeepSeek-AI, 2024, "
                    "arXiv:2412.19437). scale must be None and quant_mode 0. group_index is ignored, so that all rows "
                    "are quantised, and so is dst_type_max, which is for types that the host does not have. Results: "
                    "the values in dst_type, float8_e5m2 by default; their scales in float32, [..., ceil(size / "
                    "block_size)]; and y_origin in the type of x, or an empty tensor unless output_origin is True.",
  });
  library.add({
      .schema = "npu::npu_swiglu_group_quant_backward(Tensor grad_y, Tensor x, *, Tensor? weight=None, Tensor? "
                "y_origin=None, Tensor? group_index=None, float clamp_limit=0.0) -> (Tensor, Tensor)",
      .kernel = parts(&swiglu_group_quant_backward),
      .definition = "Gradient of y_origin * weight, the values that npu_swiglu_group_quant quantises. grad_y is the "
                    "gradient of these values. y_origin is computed from x where it is None; group_index is ignored. "
                    "Results: the gradient of x, in its type, and the gradient of weight, of its shape and type, or "
                    "an empty tensor where weight is None.",
  });
}

}  // namespace npugraph::npu_ops
