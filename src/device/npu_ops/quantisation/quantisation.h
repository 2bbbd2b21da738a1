// SPDX-License-Identifier: Apache-2.0
// Shared by operators of quantisation: types of quantised values, rounding to them, int4 values in
// int32 words, and scales.
#pragma once

#include <optional>
#include <utility>

#include <ATen/ATen.h>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// HiFloat8, numbers of eight bits whose precision tapers off ("Ascend HiFloat8 Format for Deep Learning", 2024,
// arXiv:2409.16626). torch has no type for it: its bits are bytes.
constexpr int64_t kHifloat8Code = 290;  // torch_npu.hifloat8
constexpr double kLargestHifloat8 = 32768;

// `exact`, rounded half away from zero; infinity from 1.25 * 2^15 on.
at::Tensor to_hifloat8(const at::Tensor& exact);
// In float32. `bytes` are of any type of one byte.
at::Tensor from_hifloat8(const at::Tensor& bytes);

// A type that values are rounded to. torch has no type for int4: eight values are packed into an int32, the first
// one in its lowest bits.
struct QuantType {
  at::ScalarType storage = at::kChar;
  double low = -128, high = 127;  // of values, not of words
  bool is_int4 = false;
  bool is_hifloat8 = false;  // in bytes
  bool is_floating() const { return is_hifloat8 || at::isFloatingType(storage); }
};

// int8, uint8, int32, int4 (codes 16, which is quint4x2, and 285), float8_e4m3fn, float8_e5m2 or hifloat8;
// int8 where `code` is None.
QuantType quant_type(const char* op, const char* name, std::optional<int64_t> code);

// `exact`, rounded half to even and saturated; int4 packed along the last dimension. hifloat8 as by to_hifloat8.
Tensor quantised(const char* op, const Tensor& exact, const QuantType& type);

// The same for exact / scale + offset, or for exact * scale + offset without `divide`; `offset` may be undefined.
Tensor statically_quantised(const char* op, const Tensor& exact, const Tensor& scale, const Tensor& offset, bool divide,
                            const QuantType& type);

// Packs `values` in [-8, 7], eight along the last dimension into an int32, and unpacks them to int8.
Tensor pack_int4(const char* op, const Tensor& values);
Tensor unpack_int4(const Tensor& words);
// `tensor`, or the int4 values of its words if it is int32.
inline Tensor with_int4_unpacked(const Tensor& tensor) {
  return tensor.scalar_type() == at::kInt ? unpack_int4(tensor) : tensor;
}

struct Quantised {
  Tensor values;
  Tensor scale;  // float32: exact = values * scale
};
// Quantises so that the largest absolute value over `dim` becomes `top`; 0 stands for the largest value of the type.
// `scale` does not have `dim`; zeros stay zeros.
Quantised dynamically_quantised(const char* op, const Tensor& exact, int64_t dim, const QuantType& type,
                                double top = 0);

// For each of `rows` rows, the number of its group, int64; `ends` are the cumulative ends of groups. Rows after the
// last end count to the last group.
Tensor group_of_rows(const Tensor& ends, const c10::SymInt& rows);
// For each of `rows` rows, the row of `table` [groups, ...] for its group. A 1-D `table` has no dimension of groups
// and is returned as it is.
Tensor rows_by_group(const Tensor& table, const Tensor& ends, const c10::SymInt& rows);

}  // namespace npugraph::npu_ops
