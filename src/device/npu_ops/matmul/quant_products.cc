// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/matmul/quant_products.h"

#include <algorithm>
#include <vector>

#include "backend/own_kernels/eager_task.h"
#include "backend/own_kernels/own_kernels.h"

namespace npugraph::npu_ops {
namespace {

// Layout of a scale of npu_trans_quant_param in 64 bits: the float32 in the low half, without the low bits of its
// mantissa; a signed offset of 9 bits; and one bit that is always set.
constexpr int64_t kFloatBits = 0xffffffff;
constexpr int64_t kLowMantissa = 0x1fff;
constexpr int64_t kOffsetShift = 37;
constexpr int64_t kOffsetBits = 0x1ff;
constexpr int64_t kOffsetSign = 0x100;
constexpr int64_t kAlwaysSet = int64_t{1} << 46;

// An operand in float32, multiplied by its scale if that varies along the dimension to sum over.
struct Scaled {
  Tensor exact;
  bool done = false;  // whether `exact` includes the scale
};

Scaled scaled_left(const Tensor& x, const OptionalTensor& scale, std::optional<int64_t> scale_dtype,
                   const GroupSizes& sizes) {
  const Tensor exact = x.to(at::kFloat);
  if (!scale) return {exact, true};
  if (is_block_scale(*scale, scale_dtype)) return {exact * scale_of_values(*scale, -1, exact.sym_size(-1)), true};
  const c10::SymInt blocks = (exact.sym_size(-1) + sizes.k - 1) / sizes.k;
  const bool is_of_rows = scale->dim() < 2 || (scale->sym_size(-1) == 1 && blocks != 1) ||
                          scale->sym_sizes().equals(exact.sym_sizes().slice(0, exact.dim() - 1));
  if (sizes.k == 1 || is_of_rows) return {exact};
  return {exact * spread_blocks(*scale, exact, sizes.m, sizes.k), true};
}

Scaled scaled_right(const char* op, const Tensor& x, const Tensor& scale, std::optional<int64_t> scale_dtype,
                    const GroupSizes& sizes) {
  const Tensor exact = x.to(at::kFloat);
  if (is_block_scale(scale, scale_dtype)) return {exact * scale_of_values(scale, -2, exact.sym_size(-2)), true};
  if (scale.dim() < 2 || scale.sym_size(-2) == 1) return {exact};
  if (sizes.n > 1 || sizes.k > 1) {
    const c10::SymInt blocks = (exact.sym_size(-2) + sizes.k - 1) / sizes.k;
    TORCH_CHECK(scale.sym_size(-2) == blocks, op, ": scale has shape ", scale.sym_sizes(), ", and ", exact.sym_size(-2),
                " rows of the weight are ", blocks, " groups of ", sizes.k);
    const Tensor factor = decoded_scale(op, "scale", scale).factor;
    return {exact * spread_blocks(factor, exact, sizes.k, sizes.n), true};
  }
  return {dequantised_weight(op, exact, decoded_scale(op, "scale", scale).factor, {}), true};
}

// `bias` without leading dimensions of size 1 that `sums` does not have.
Tensor fitted(const Tensor& bias, const Tensor& sums) {
  Tensor out = bias;
  while (out.dim() > sums.dim() && out.sym_size(0) == 1) out = out.squeeze(0);
  return out;
}

}  // namespace

Tensor int8_product(const Tensor& x1, const Tensor& x2) {
  if (x2.dim() != 2 || x1.dim() < 2) return own::int8_product_in_double(x1, x2);
  std::vector<c10::SymInt> shape = x1.sym_sizes().vec();
  shape.back() = x2.sym_size(1);
  const Tensor rows = x1.flatten(0, -2);
  if (own::has_memory(x1)) return own::int8_product(rows, x2).view_symint(shape);
  // In graphs _int_mm is exact everywhere: as generated code, or as the kernel of backend/own_kernels/own_kernels.h.
  return at::_int_mm(own::without_overlap(rows), own::without_overlap(x2)).view_symint(shape);
}

Tensor read_weight_as(const char* op, const char* name, const Tensor& weight, std::optional<int64_t> code,
                      const c10::SymInt& k) {
  check_dims(op, name, weight, 2, 6);
  const bool by_columns = weight.sym_size(-2) != k;  // packed values fill words and bytes along k
  const Tensor rows = by_columns ? weight.transpose(-1, -2) : weight;
  const Tensor values = with_int4_unpacked(read_as(op, name, rows, code));
  const Tensor out = by_columns ? values.transpose(-1, -2) : values;
  TORCH_CHECK(out.sym_size(-2) == k, op, ": ", name, " has shape ", weight.sym_sizes(), ", and ", k,
              " is the size to sum over");
  return out;
}

Scale decoded_scale(const char* op, const char* name, const Tensor& scale) {
  check_type(op, name, scale, {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kLong, at::kUInt64});
  if (at::isFloatingType(scale.scalar_type())) return {wide(scale), {}};
  const Tensor bits = scale.view(at::kLong);
  const Tensor low = bits.bitwise_and(kFloatBits);  // to int32 as two's complement
  const Tensor offset = bits.bitwise_right_shift(kOffsetShift).bitwise_and(kOffsetBits);
  return {low.to(at::kInt).view(at::kFloat), offset.bitwise_xor(kOffsetSign).sub(kOffsetSign).to(at::kFloat)};
}

Tensor encoded_scale(const Tensor& scale, const OptionalTensor& offset, bool to_nearest) {
  Tensor bits = scale.contiguous().view(at::kInt).to(at::kLong).bitwise_and(kFloatBits);
  if (to_nearest) {
    const Tensor is_odd = bits.bitwise_right_shift(13).bitwise_and(1);
    bits = bits + is_odd + kLowMantissa / 2;  // half to even
  }
  bits = bits.bitwise_and(kFloatBits & ~kLowMantissa).bitwise_or(kAlwaysSet);
  if (!offset) return bits;
  const Tensor rounded = at::round(wide(*offset)).clamp(-kOffsetSign, kOffsetSign - 1).to(at::kLong);
  return bits.bitwise_or(rounded.bitwise_and(kOffsetBits).bitwise_left_shift(kOffsetShift));
}

Tensor dequantised_weight(const char* op, const Tensor& weight, const Tensor& scale, const OptionalTensor& offset) {
  const Tensor exact = weight.to(at::kFloat);
  const bool has_groups = scale.dim() >= 2 && scale.sym_size(-2) != 1;
  if (!has_groups) return (offset ? exact + wide(*offset) : exact) * wide(scale);
  const c10::SymInt k = weight.sym_size(-2), groups = scale.sym_size(-2);
  TORCH_CHECK(k % groups == 0, op, ": a scale has ", groups, " groups, which do not divide the ", k,
              " rows of the weight");
  const Tensor blocks = exact.unflatten_symint(-2, {groups, k / groups});
  const Tensor shifted = offset ? blocks + wide(*offset).unsqueeze(-2) : blocks;
  return (shifted * wide(scale).unsqueeze(-2)).flatten(-3, -2);
}

Tensor rounded_to(const char* op, const Tensor& exact, at::ScalarType type) {
  if (!at::isFloat8Type(type) || exact.scalar_type() == type) return exact.to(type);
  return quantised(op, exact, quant_type(op, "the type of the result", static_cast<int64_t>(type)));
}

Tensor finished(const char* op, const Tensor& sums, const Epilogue& epilogue, at::ScalarType type) {
  const auto& [bias, scale, pertoken_scale, offset] = epilogue;
  const bool is_integer_bias = bias && bias->scalar_type() == at::kInt;
  const Tensor biased = is_integer_bias ? sums + fitted(*bias, sums) : sums;
  TORCH_CHECK(
      type != at::kInt || !biased.is_floating_point(), op,
      ": results of type Int are the sums of int8 products without scales of groups, and these are sums of type ",
      biased.scalar_type());
  if (type == at::kInt) return biased;
  Tensor out = wide(biased);
  Scale decoded;
  if (scale) decoded = decoded_scale(op, "scale", *scale);
  if (scale) out = out * decoded.factor;
  if (pertoken_scale && pertoken_scale->dim() == out.dim())
    out = out * wide(*pertoken_scale);
  else if (pertoken_scale)
    out = out * wide(*pertoken_scale).unsqueeze(-1);
  if (bias && !is_integer_bias) out = out + wide(fitted(*bias, sums));
  if (type != at::kChar) return rounded_to(op, out, type);
  const Tensor shift = offset ? wide(*offset) : decoded.offset;
  return quantised(op, shift.defined() ? out + shift : out, QuantType{});
}

GroupSizes group_sizes_of(const char* op, at::OptionalIntArrayRef sizes) {
  if (!sizes || sizes->empty()) return {};
  TORCH_CHECK(sizes->size() == 3, op, ": group_sizes is ", *sizes, ", allowed are three sizes, along m, n and k");
  return {std::max<int64_t>((*sizes)[0], 1), std::max<int64_t>((*sizes)[1], 1), std::max<int64_t>((*sizes)[2], 1)};
}

Tensor scaled_product(const char* op, const QuantOperands& in, Epilogue& epilogue) {
  const bool is_int8 = in.x1.scalar_type() == at::kChar;
  const bool has_groups = in.scale.dim() >= 2 && in.scale.sym_size(-2) != 1;
  epilogue.scale = in.scale;
  epilogue.pertoken_scale = in.pertoken_scale;
  if (is_int8 && in.x2.scalar_type() == at::kChar && !has_groups) return int8_product(in.x1, in.x2);
  const Scaled left = scaled_left(in.x1, in.pertoken_scale, in.pertoken_scale_dtype, in.sizes);
  const Scaled right = scaled_right(op, in.x2, in.scale, in.scale_dtype, in.sizes);
  if (left.done) epilogue.pertoken_scale.reset();
  if (right.done) epilogue.scale.reset();
  return at::matmul(left.exact, right.exact);
}

Quantised quantised_operand(const char* op, const Tensor& x, const OperandQuant& how) {
  check_floating(op, "x", x);
  TORCH_CHECK(!how.x_offset, op, ": x_offset is given, allowed is None: values are quantised symmetrically");
  TORCH_CHECK(how.quant_mode == "pertoken" || how.quant_mode == "pertensor", op, ": quant_mode is \"", how.quant_mode,
              "\", allowed are \"pertoken\" and \"pertensor\"");
  TORCH_CHECK(how.quant_mode == "pertoken" || how.x_scale, op,
              ": quant_mode is \"pertensor\", and x_scale is not given");
  const Tensor exact = how.smooth_scale ? wide(x) * wide(*how.smooth_scale) : wide(x);
  if (!how.x_scale) return dynamically_quantised(op, exact, -1, QuantType{});
  const Tensor scale = wide(*how.x_scale).flatten();
  return {quantised(op, exact / scale.unsqueeze(-1), QuantType{}), scale};
}

at::ScalarType output_type(const char* op, std::optional<int64_t> code, at::ScalarType fallback) {
  const at::ScalarType type = type_of_code(op, "output_dtype", code, fallback);
  const bool allowed = type == at::kChar || type == at::kInt || type == at::kHalf || type == at::kBFloat16 ||
                       type == at::kFloat || type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2;
  TORCH_CHECK(allowed, op, ": output_dtype is ", type,
              ", allowed are int8, int32, float16, bfloat16, float32, float8_e4m3fn and float8_e5m2");
  return type;
}

}  // namespace npugraph::npu_ops
