// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/matmul/grouped_products.h"

#include "backend/own_kernels/generated_product.h"
#include "device/npu_ops/framework/call_arguments.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

Tensor activated_by_number(const char* op, const Tensor& x, int64_t act_type) {
  switch (act_type) {
    case 0: return x;
    case 1: return at::relu(x);
    case 2: return at::gelu(x, "tanh");
    case 3: return at::gelu(x);
    case 4: return sigmoid_gelu(x);
    case 5: return at::silu(x);
    default: TORCH_CHECK(false, op, ": act_type is ", act_type, ", allowed are 0 to 5");
  }
}

// Products of floats, in their own type if no bias follows.
Tensor plain_product(const Tensor& x, const Tensor& weight, const OptionalTensor& bias) {
  if (bias) return at::matmul(wide(x), wide(weight)) + wide(*bias);
  const Tensor right = weight.to(x.scalar_type());
  const auto product = own::generated_product(x, right);
  return product ? *product : at::matmul(x, right);
}

Tensor quantised_product(const char* op, const GroupedProduct& in, const QuantOperands& operands, int64_t group) {
  const bool stacked = in.is_stacked();
  const bool is_whole = operands.x1.scalar_type() == at::kChar && operands.x2.scalar_type() == at::kChar;
  Epilogue epilogue{.bias = of_group(in.bias, group, stacked), .offset = of_group(in.offset, group, stacked)};
  // With int4 weights, the bias is a correction for the way in which the device splits int8 values, 8 * sum(weight *
  // scale), which exact products do not need.
  if (operands.x1.scalar_type() == at::kChar && in.weight_of(group).scalar_type() == at::kInt) epilogue.bias.reset();
  if (!in.scale) check_type(op, "x (without scale)", operands.x1, {at::kChar});
  if (!in.scale) return finished(op, int8_product(operands.x1, operands.x2), epilogue, at::kInt);
  const at::ScalarType type = in.act_type == 0 ? in.type : at::kFloat;
  const Tensor sums = scaled_product(op, operands, epilogue);
  TORCH_CHECK(is_whole || type != at::kInt, op, ": output_dtype is Int, allowed for int8 operands alone");
  return rounded_to(op, activated_by_number(op, finished(op, sums, epilogue, type), in.act_type), in.type);
}

}  // namespace

std::vector<Segment> segments_of(const char* op, at::IntArrayRef numbers, int64_t type, int64_t limit) {
  TORCH_CHECK(type >= 0 && type <= 2, op, ": group_list_type is ", type,
              ", allowed are 0 (cumulative), 1 (counts) and 2 (pairs of group and count)");
  const int64_t groups = static_cast<int64_t>(numbers.size()) / (type == 2 ? 2 : 1);
  std::vector<Segment> out;
  int64_t begin = 0;
  for (int64_t i = 0; i < groups; ++i) {
    const int64_t count = type == 2 ? numbers[2 * i + 1] : type == 1 ? numbers[i] : numbers[i] - begin;
    int64_t end = 0;
    const bool is_number = !__builtin_add_overflow(begin, count, &end);
    TORCH_CHECK(is_number && begin <= end && end <= limit, op, ": group_list ends group ", i, " at ", end,
                ", allowed are ", begin, " to ", limit);
    out.push_back({type == 2 ? numbers[2 * i] : i, begin, end});
    begin = end;
  }
  return out;
}

std::vector<Segment> segments_of(const char* op, const Tensor& group_list, int64_t type, int64_t limit) {
  check_dims(op, "group_list", group_list, type == 2 ? 2 : 1, type == 2 ? 2 : 1);
  return segments_of(op, values_of(group_list), type, limit);
}

OptionalTensor of_group(const TensorsOf& tensors, int64_t group, bool are_stacked) {
  if (!tensors || tensors->empty()) return std::nullopt;
  const bool one = tensors->size() == 1;
  const Tensor& found = one ? tensors->front() : tensors->at(group);
  if (found.numel() == 0) return std::nullopt;
  return one && are_stacked && found.dim() >= 2 ? found.select(0, group) : found;
}

Tensor without_fractals(const Tensor& weight) {
  return weight.dim() < 4 ? weight : weight.movedim(-4, -2).flatten(-4, -3).flatten(-2, -1);
}

std::vector<Tensor> without_fractals(at::TensorList weights) {
  std::vector<Tensor> out;
  for (const Tensor& weight : weights) out.push_back(without_fractals(weight));
  return out;
}

c10::SymInt GroupedProduct::groups() const {
  return is_stacked() ? weight[0].sym_size(0) : c10::SymInt(static_cast<int64_t>(weight.size()));
}

c10::SymInt GroupedProduct::columns(const char* op, const Tensor& x) const {
  const int64_t per_element = values_in_element(weight[0], weight_dtype);
  const c10::SymInt k = x.sym_size(-1) * values_in_element(x, x_dtype);
  const c10::SymInt rows = weight[0].sym_size(-2), columns = weight[0].sym_size(-1);
  if (rows == k) return columns * per_element;
  TORCH_CHECK(rows * per_element == k, op, ": weight has shape ", weight[0].sym_sizes(), ", and ", k,
              " is the size to sum over");
  return columns;
}

Tensor product_of_group(const char* op, const GroupedProduct& in, const Tensor& x, int64_t group,
                        const OptionalTensor& per_token_scale) {
  TORCH_CHECK(group >= 0 && group < in.groups(), op, ": group_list names group ", group, ", and there are ",
              in.groups(), " weights");
  const bool stacked = in.is_stacked();
  const Tensor left = with_int4_unpacked(read_as(op, "x", x, in.x_dtype));
  const Tensor right = read_weight_as(op, "weight", in.weight_of(group), in.weight_dtype, left.sym_size(-1));
  const auto antiquant_scale = of_group(in.antiquant_scale, group, stacked);
  const auto bias = of_group(in.bias, group, stacked);
  if (antiquant_scale) {
    const auto antiquant_offset = of_group(in.antiquant_offset, group, stacked);
    const Tensor exact = dequantised_weight(op, right, *antiquant_scale, antiquant_offset);
    return rounded_to(op, activated_by_number(op, plain_product(wide(left), exact, bias), in.act_type), in.type);
  }
  const bool is_plain = !in.scale && at::isFloatingType(left.scalar_type()) && left.element_size() > 1;
  if (is_plain && in.act_type == 0) return rounded_to(op, plain_product(left, right, bias), in.type);
  if (is_plain)
    return rounded_to(op, activated_by_number(op, plain_product(wide(left), wide(right), bias), in.act_type), in.type);
  const Tensor scale = of_group(in.scale, group, stacked).value_or(Tensor());
  return quantised_product(op, in, {left, right, scale, per_token_scale, in.scale_dtype, in.per_token_scale_dtype, {}},
                           group);
}

Tensor product_of_rows(const char* op, const GroupedProduct& in, const Tensor& x, const std::vector<Segment>& segments,
                       const OptionalTensor& per_token_scale) {
  Tensor out = at::zeros({x.size(0), in.columns(op, x).expect_int()}, x.options().dtype(in.type));
  for (const auto& [group, begin, end] : segments) {
    if (begin == end) continue;
    const auto tokens = per_token_scale ? OptionalTensor(per_token_scale->slice(0, begin, end)) : std::nullopt;
    out.slice(0, begin, end).copy_(product_of_group(op, in, x.slice(0, begin, end), group, tokens));
  }
  return out;
}

}  // namespace npugraph::npu_ops
