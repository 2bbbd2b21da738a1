// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/quantisation/microscaling.h"

#include <vector>

#include "device/npu_ops/parts/parts.h"
#include "device/npu_ops/quantisation/quantisation.h"

namespace npugraph::npu_ops {
namespace {

constexpr int64_t kExponentBits = 255;  // of float32 and float8_e8m0fnu, which have the same bias
constexpr int64_t kMantissaBits = 23;   // of float32

// Values of float4_e2m1 are 0, 0.5, 1, 1.5, 2, 3, 4, 6: steps of 0.5 below 2, of 1 below 4, of 2 above. A multiple of a
// step is even if and only if its mantissa is, so that rounding multiples half to even rounds values half to even.
Tensor float4_codes(const Tensor& exact) {
  const Tensor size = exact.abs().clamp_max(6);
  const Tensor low = at::round(size * 2), middle = at::round(size) + 2, high = at::round(size / 2) + 4;
  const Tensor code = at::where(size < 2, low, at::where(size < 4, middle, high));
  return code.to(at::kByte) + at::signbit(exact).to(at::kByte) * 8;
}

std::vector<c10::SymInt> shape_with(const Tensor& x, int64_t axis, const c10::SymInt& size) {
  std::vector<c10::SymInt> out = x.sym_sizes().vec();
  out[axis] = size;
  return out;
}

}  // namespace

Tensor pack_float4(const char* op, const Tensor& exact) {
  const c10::SymInt size = exact.sym_size(-1);
  TORCH_CHECK(size % 2 == 0, op, ": the last dimension has ", size, " values of float4, which do not fill bytes");
  const Tensor pairs = float4_codes(exact).unflatten_symint(-1, {size / 2, 2});
  return pairs.select(-1, 0) + pairs.select(-1, 1) * 16;
}

Tensor unpack_float4(const Tensor& bytes) {
  const Tensor codes = at::stack({bytes.bitwise_and(15), bytes.bitwise_right_shift(4)}, -1).flatten(-2);
  const Tensor exponent = codes.bitwise_right_shift(1).bitwise_and(3).to(at::kFloat);
  const Tensor half = codes.bitwise_and(1).to(at::kFloat) / 2;
  const Tensor size = at::where(exponent == 0, half, (half + 1) * at::exp2(exponent - 1));
  return at::where(codes >= 8, -size, size);
}

ElementType element_type(const char* op, const char* name, int64_t code) {
  const at::ScalarType type = type_of_code(op, name, code, at::kByte);
  if (type == at::kFloat4_e2m1fn_x2) return {};
  if (type == at::kFloat8_e4m3fn) return {.storage = type, .largest = 448, .top_exponent = 8};
  TORCH_CHECK(type == at::kFloat8_e5m2, op, ": ", name, " is ", type,
              ", allowed are float8_e4m3fn, float8_e5m2 and float4_e2m1");
  return {.storage = type, .largest = 57344, .top_exponent = 15};
}

void check_options(const char* op, const MxOptions& given) {
  TORCH_CHECK(given.round_mode == "rint", op, ": round_mode is \"", given.round_mode, "\", allowed is \"rint\"");
  TORCH_CHECK(given.scale_alg == 0 || given.scale_alg == 1, op, ": scale_alg is ", given.scale_alg,
              ", allowed are 0 (as the OCP specification has it) and 1 (rounded up)");
  TORCH_CHECK(given.block_size == 32, op, ": block_size is ", given.block_size, ", allowed is 32");
  TORCH_CHECK(given.dst_type_max == 0 && given.max_low_bound == 0, op, ": dst_type_max is ", given.dst_type_max,
              " and max_low_bound ", given.max_low_bound, ", allowed are 0");
}

Tensor shared_scale(const Tensor& largest, const ElementType& type, int64_t scale_alg) {
  const auto exponent_of = [](const Tensor& x) {
    return x.view(at::kInt).bitwise_right_shift(kMantissaBits).bitwise_and(kExponentBits);
  };
  const Tensor exponent = exponent_of(largest);
  Tensor shared = (exponent - type.top_exponent).clamp_min(0);
  if (scale_alg == 1) {
    const Tensor wanted = largest / type.largest, below = exponent_of(wanted);
    const Tensor scale = below.to(at::kByte).view(at::kFloat8_e8m0fnu).to(at::kFloat);
    shared = (below + wanted.gt(scale)).clamp_max(kExponentBits - 1);
  }
  const Tensor byte = shared.masked_fill(exponent == kExponentBits, kExponentBits).to(at::kByte);
  return byte.view(at::kFloat8_e8m0fnu);
}

Tensor rounded_elements(const char* op, const Tensor& exact, const ElementType& type) {
  if (type.storage == at::kByte) return pack_float4(op, exact);
  return quantised(op, exact, quant_type(op, "dst_type", static_cast<int64_t>(type.storage)));
}

Tensor zero_padded(const Tensor& x, int64_t axis, const c10::SymInt& size) {
  const c10::SymInt missing = size - x.sym_size(axis);
  return at::cat({x, x.new_zeros_symint(shape_with(x, axis, missing))}, axis);
}

Blocks to_blocks(const char* op, const Tensor& exact, int64_t axis, const ElementType& type, int64_t scale_alg) {
  check_dims(op, "the input", exact, 1, 7);
  axis = at::maybe_wrap_dim(axis, exact.dim());
  const c10::SymInt size = exact.sym_size(axis), pairs = (size + 2 * kMxBlock - 1) / (2 * kMxBlock);
  const Tensor whole = zero_padded(exact.to(at::kFloat), axis, pairs * 2 * kMxBlock);
  const Tensor blocks = whole.unflatten_symint(axis, {pairs * 2, kMxBlock});
  const Tensor scale = shared_scale(at::amax(blocks.abs(), axis + 1, /*keepdim=*/true), type, scale_alg);
  const Tensor shrunk = (blocks / scale.to(at::kFloat)).flatten(axis, axis + 1).narrow_symint(axis, 0, size);
  const Tensor pair_scales = scale.squeeze(axis + 1).unflatten_symint(axis, {pairs, 2}).movedim(axis + 1, -1);
  return {rounded_elements(op, shrunk, type), pair_scales.contiguous().view(at::kByte)};
}

Tensor block_of_rows(const Tensor& ends, const c10::SymInt& rows, int64_t size, int64_t together) {
  const Tensor group = group_of_rows(ends, rows);
  const Tensor starts = at::cat({ends.new_zeros({1}), ends.narrow_symint(0, 0, ends.sym_size(0) - 1)}).to(at::kLong);
  const Tensor start = starts.index_select(0, group);
  const Tensor first = (at::floor_divide(start, size * together) + group) * together;
  return first + at::floor_divide(count_up(ends, rows) - start, size);
}

Tensor largest_of_rows(const Tensor& sizes, const Tensor& block, const c10::SymInt& count) {
  const Tensor none = sizes.new_zeros_symint({count, sizes.sym_size(1)});
  return none.scatter_reduce(0, block.unsqueeze(-1).expand_symint(sizes.sym_sizes()), sizes, "amax");
}

Blocks to_grouped_blocks(const char* op, const Tensor& exact, const Tensor& ends, const ElementType& type,
                         int64_t scale_alg) {
  check_dims(op, "x", exact, 2, 2);
  check_dims(op, "group_index", ends, 1, 1);
  const c10::SymInt rows = exact.sym_size(0), pairs = rows / (2 * kMxBlock) + ends.sym_size(0);
  const Tensor block = block_of_rows(ends, rows, kMxBlock, 2);
  const Tensor values = exact.to(at::kFloat);
  const Tensor scale = shared_scale(largest_of_rows(values.abs(), block, pairs * 2), type, scale_alg);
  const Tensor shrunk = values / scale.to(at::kFloat).index_select(0, block);
  const Tensor pair_scales = scale.unflatten_symint(0, {pairs, 2}).movedim(1, -1).contiguous();
  return {rounded_elements(op, shrunk, type), pair_scales.view(at::kByte)};
}

void check_block_sizes(const char* op, int64_t rows, int64_t columns) {
  TORCH_CHECK(rows > 0 && columns > 0, op, ": blocks are of ", rows, " by ", columns,
              " values, allowed are positive sizes");
}

Tensor largest_of_blocks(const Tensor& exact, int64_t rows, int64_t columns) {
  const c10::SymInt height = (exact.sym_size(-2) + rows - 1) / rows,
                    width = (exact.sym_size(-1) + columns - 1) / columns;
  const Tensor wider = zero_padded(exact.abs(), exact.dim() - 1, width * columns);
  const Tensor whole = zero_padded(wider, exact.dim() - 2, height * rows);
  return whole.unflatten_symint(-1, {width, columns}).unflatten_symint(-3, {height, rows}).amax({-3, -1});
}

Tensor spread_blocks(const Tensor& scale, const Tensor& x, int64_t rows, int64_t columns) {
  const Tensor by_row = wide(scale).repeat_interleave_symint(rows, -2).narrow_symint(-2, 0, x.sym_size(-2));
  return by_row.repeat_interleave_symint(columns, -1).narrow_symint(-1, 0, x.sym_size(-1));
}

bool is_block_scale(const Tensor& scale, std::optional<int64_t> code) {
  const auto type = type_of_code("a product", "the type of a scale", code, scale.scalar_type());
  return type == at::kFloat8_e8m0fnu || type == at::kByte || type == at::kShort || type == at::kUInt16;
}

Tensor scale_of_values(const Tensor& given, int64_t axis, const c10::SymInt& size) {
  const bool in_pairs = given.element_size() == 2;
  const Tensor scale = in_pairs ? given.contiguous().unsqueeze(-1).view(at::kByte) : given;
  axis = at::maybe_wrap_dim(axis, scale.dim() - 1);
  const Tensor blocks = scale.view(at::kFloat8_e8m0fnu).to(at::kFloat).movedim(-1, axis + 1).flatten(axis, axis + 1);
  return blocks.repeat_interleave_symint(kMxBlock, axis).narrow_symint(axis, 0, size);
}

int64_t values_in_element(const Tensor& tensor, std::optional<int64_t> code) {
  if (tensor.scalar_type() == at::kInt) return 8;
  return tensor.scalar_type() == at::kFloat4_e2m1fn_x2 || code == kFloat4Code ? 2 : 1;
}

Tensor read_as(const char* op, const char* name, const Tensor& tensor, std::optional<int64_t> code) {
  if (tensor.scalar_type() == at::kInt) return tensor;
  if (values_in_element(tensor, code) == 2) return unpack_float4(tensor.view(at::kByte));
  if (!code) return tensor;
  if (code == kHifloat8Code) {
    TORCH_CHECK(tensor.element_size() == 1, op, ": ", name, " says hifloat8, and the tensor is ", tensor.scalar_type());
    return from_hifloat8(tensor);
  }
  const at::ScalarType type = type_of_code(op, name, code, tensor.scalar_type());
  TORCH_CHECK(static_cast<int64_t>(c10::elementSize(type)) == tensor.element_size(), op, ": ", name, " says ", type,
              ", and the tensor is ", tensor.scalar_type());
  return tensor.view(type);
}

}  // namespace npugraph::npu_ops
