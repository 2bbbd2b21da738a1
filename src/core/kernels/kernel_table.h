// SPDX-License-Identifier: Apache-2.0
// Precompiled kernels: the table of all of them, for lowering (names and signatures) and for the runtime (functions).
//
// The attributes of a kernel's task list its inputs in order, each a tensor (an operand that is read) or, where the
// signature says "scalar", a number. The other arguments follow; the last ones may be left out. The operands are the
// tensors in that order, then the results. Inputs broadcast against the result as in ATen: the operand's sizes are
// right-aligned and a size of 1 repeats.
//
//   name                        args                          dtypes
//   kernel.copy                 x                             any one size of element; y = x, any strides
//   kernel.cast                 x                             bool, integers, f16, bf16, f32, f64 -> any of them
//   kernel.fill                 value: scalar                 the same
//   kernel.arange               start, step: scalar           integers, f32, f64; y[i] = start + i * step, rank 1
//   kernel.unary_<op>           x                             neg abs relu sqrt rsqrt reciprocal square: f32;
//                                                             neg abs relu square: i64 too
//   kernel.unary_logical_not    x                             bool
//   kernel.binary_<op>          a, b: tensor or scalar        add sub mul maximum minimum: f32, i64; div: f32;
//                                                             mul div: one f32 and one i64, y f32
//   kernel.binary_<op>          a, b: tensor or scalar        eq ne lt le gt ge: f32, i64 -> bool;
//                                                             logical_and logical_or logical_xor: bool
//   kernel.where                condition, a, b               bool, then f32 or i64; a, b: tensor or scalar
//   kernel.linear_f32           x, w [, bias] [, relu: bool]  y[m, n] = x[m, k] . w[n, k]^T + bias[n], then relu
//   kernel.mm_f32               x, w [, bias] [, relu: bool]  y[m, n] = x[m, k] . w[k, n] + bias[n], then relu
//   kernel.embedding_dense_backward
//                               grad, indices                 f32, f64; indices i32, i64; y[v, d] = the sum of grad[i,
//                               d]
//                               [, padding_idx: scalar]       over all i with indices[i] = v, but 0 for v =
//                               padding_idx;
//                                                             indices outside of y count for nothing
//   kernel.sort                 x, dim: scalar [, descending: bool]
//                                                             any real; values and places (i64) of rows along dim,
//                                                             in the order of x where elements are equal
//   kernel.topk                 x, dim: scalar [, largest: bool] [, sorted: bool]
//                                                             the same; as many as the results have
//   kernel.cummax               x, dim: scalar                the same; the largest so far, of equal ones the last
//   kernel.searchsorted         sequence, values, order or nothing, right: bool
//                                                             any real; places i32 or i64, in rows of the sequence,
//                                                             of which there may be one for all values
//   kernel.histc                x, min, max: scalar           f32, f64; counts of elements in even bins
//   kernel.grouped_mm           x, w, ends                    f32, bf16, f16; y[m, n] = x[m, k] . w[g, k, n] for the
//                                                             rows before ends[g] (i32, i64), 0 behind the last
//   kernel.dump                 tensors, places, ...          any; no result: writes files at chosen runs (dump.cc)
#pragma once

#include <span>
#include <string_view>

#include "abi/task.h"

namespace npugraph::kernels {

struct Kernel {
  const char* name;       // "kernel.copy"
  const char* signature;  // "(x) -> y: y = x, any strides"
  ng_make make;           // refuses operands that do not fit
  // A slow and simple implementation for the tests, with the same call on the same operands.
  ng_status (*reference)(const ng_definition& task, ng_call* call);
};

std::span<const Kernel> table();
const Kernel* find(std::string_view name);  // null when there is none

// The parts of table().

std::span<const Kernel> pointwise_kernels();  // unary, binary, where
std::span<const Kernel> memory_kernels();     // copy, cast, fill, arange
std::span<const Kernel> matmul_kernels();     // linear_f32, mm_f32
std::span<const Kernel> embedding_kernels();  // embedding_dense_backward
std::span<const Kernel> order_kernels();      // sort, topk, cummax
std::span<const Kernel> search_kernels();     // searchsorted, histc
std::span<const Kernel> grouped_kernels();    // grouped_mm
std::span<const Kernel> dump_kernels();       // dump

}  // namespace npugraph::kernels
