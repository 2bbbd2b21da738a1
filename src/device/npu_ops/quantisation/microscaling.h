// SPDX-License-Identifier: Apache-2.0
// Blocks of values that share a power of two as their scale, and float4 (OCP Microscaling Formats specification, v1.0).
#pragma once

#include <optional>

#include "device/npu_ops/quantisation/quantisation.h"

namespace npugraph::npu_ops {

constexpr int64_t kMxBlock = 32;      // values with one scale
constexpr int64_t kFloat4Code = 296;  // of float4_e2m1 as a type

// Packs values as float4_e2m1, rounded half to even and saturated, two to a byte along the last dimension, the first in
// the lower bits; and unpacks them to float32. The last dimension of `exact` must have an even size.
Tensor pack_float4(const char* op, const Tensor& exact);
Tensor unpack_float4(const Tensor& bytes);

// The type of elements of blocks: float8_e4m3fn, float8_e5m2, or float4_e2m1 (code 296) in bytes.
struct ElementType {
  at::ScalarType storage = at::kByte;  // kByte for float4
  double largest = 6;
  int64_t top_exponent = 2;  // of the largest value
};
ElementType element_type(const char* op, const char* name, int64_t code);

// How to round and to choose scales. check_options raises an error for options that the host does not support.
struct MxOptions {
  c10::string_view round_mode = "rint";
  // 0: 2^(floor(log2 max) - top_exponent), as in the OCP specification; 1: the least power of two that is at least
  // max / largest (Mishra et al., 2025, arXiv:2506.08027), so that nothing saturates.
  int64_t scale_alg = 0;
  int64_t block_size = 32;
  double dst_type_max = 0, max_low_bound = 0;
};
void check_options(const char* op, const MxOptions& given);

// The scale, float8_e8m0fnu, of blocks whose largest absolute value is `largest`, in float32; NaN if
// `largest` is not finite.
Tensor shared_scale(const Tensor& largest, const ElementType& type, int64_t scale_alg);
// `exact`, already divided by its scales, rounded to `type`.
Tensor rounded_elements(const char* op, const Tensor& exact, const ElementType& type);

// `x` padded with zeros at the end of `axis`, which is not negative, up to `size`.
Tensor zero_padded(const Tensor& x, int64_t axis, const c10::SymInt& size);

struct Blocks {
  Tensor values;
  Tensor scale;  // bytes of float8_e8m0fnu: two in the last dimension for each pair of blocks of 32 along `axis`
};
// Quantises `exact` in blocks of 32 along `axis`. The last block may be shorter.
Blocks to_blocks(const char* op, const Tensor& exact, int64_t axis, const ElementType& type, int64_t scale_alg = 0);

// For each of `rows` rows, the number of its block of `size` rows. Each group of rows begins new blocks: those of group
// g, which begins at row s, begin at (s / (size * together) + g) * together. `ends` are the cumulative ends of groups.
Tensor block_of_rows(const Tensor& ends, const c10::SymInt& rows, int64_t size, int64_t together);
// The largest element per column of `sizes` [rows, columns] in each of `count` blocks of rows, given the block of each
// row. No element is negative.
Tensor largest_of_rows(const Tensor& sizes, const Tensor& block, const c10::SymInt& count);
// Quantises `exact` [rows, columns] in blocks of 32 rows. Each group begins a new pair of blocks, so there are scales
// for rows / 64 + groups pairs.
Blocks to_grouped_blocks(const char* op, const Tensor& exact, const Tensor& ends, const ElementType& type,
                         int64_t scale_alg);

// Expands scales of blocks, float8_e8m0fnu or its bytes, or pairs of these as int16 or uint16, to one float32 for each
// of `size` values along `axis`.
Tensor scale_of_values(const Tensor& scale, int64_t axis, const c10::SymInt& size);
void check_block_sizes(const char* op, int64_t rows, int64_t columns);
// The largest |value| of each block of `rows` by `columns` values of the last two dimensions, [..., blocks, blocks].
Tensor largest_of_blocks(const Tensor& exact, int64_t rows, int64_t columns);
// Expands scales [..., a, b] of blocks of `rows` by `columns` values of `x` to one float for each value.
Tensor spread_blocks(const Tensor& scale, const Tensor& x, int64_t rows, int64_t columns);
// Whether the type of `scale`, given by `code` or else its own, is float8_e8m0fnu, or bytes or pairs of bytes of it.
bool is_block_scale(const Tensor& scale, std::optional<int64_t> code);

// `tensor` read as the type of `code`, by default its own: bytes as float8, float4 and hifloat8 converted to float32,
// int32 words of int4 as they are.
Tensor read_as(const char* op, const char* name, const Tensor& tensor, std::optional<int64_t> code);

// Number of values in an element of `tensor`: 8 of int4 in an int32, 2 of float4 in a byte, else 1.
int64_t values_in_element(const Tensor& tensor, std::optional<int64_t> code);

}  // namespace npugraph::npu_ops
