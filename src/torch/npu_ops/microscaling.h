// SPDX-License-Identifier: Apache-2.0
// Blocks of values that share a power of two as their scale, and float4 (OCP Microscaling Formats specification, v1.0).
#pragma once

#include <optional>

#include "torch/npu_ops/quantisation.h"

namespace npugraph::npu_ops {

// float4_e2m1 values, two to a byte along the last dimension, the first in the lower bits: rounded half to even and saturated,
// and back to float32. `size` of the last dimension is even.
Tensor pack_float4(const char* op, const Tensor& exact);
Tensor unpack_float4(const Tensor& bytes);

// What elements of blocks are rounded to: float8_e4m3fn, float8_e5m2, or float4_e2m1 (code 296) in bytes.
struct ElementType {
  at::ScalarType storage = at::kByte;  // kByte for float4
  int64_t top_exponent = 2;            // of the largest value
};
ElementType element_type(const char* op, const char* name, int64_t code);

// `x` with zeros at the end of `axis`, which is not negative, up to `size`.
Tensor zero_padded(const Tensor& x, int64_t axis, const c10::SymInt& size);

struct Blocks {
  Tensor values;
  Tensor scale;  // float8_e8m0fnu: `axis` has one per two blocks of 32, and a last dimension has the two
};
// `exact` in blocks of 32 along `axis`, the last one as long as it is.
Blocks to_blocks(const char* op, const Tensor& exact, int64_t axis, const ElementType& type);

// Scales of blocks, float8_e8m0fnu or its bytes, as one float32 for each of `size` values along `axis` of the values.
Tensor scale_of_values(const Tensor& scale, int64_t axis, const c10::SymInt& size);
// Scales [..., a, b] of blocks of `rows` by `columns` values of `x` as one float for each value.
Tensor spread_blocks(const Tensor& scale, const Tensor& x, int64_t rows, int64_t columns);
bool is_block_scale(const Tensor& scale, std::optional<int64_t> code);

// `tensor` as its code says: bytes of float8 as such, of float4 in float32; int32 words of int4 as they are.
// `code` may be None: the tensor's own type.
Tensor read_as(const char* op, const char* name, const Tensor& tensor, std::optional<int64_t> code);

// How many values an element of `tensor` holds: 8 of int4 in an int32, 2 of float4 in a byte, else 1.
int64_t values_in_element(const Tensor& tensor, std::optional<int64_t> code);

}  // namespace npugraph::npu_ops
