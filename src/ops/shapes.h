// SPDX-License-Identifier: Apache-2.0
// Shape and dtype rules of the table: the types of fresh results, with eager's strides. A rule returns nothing when symbols,
// torch's default dtype or an argument that it does not know leave the answer open. Internal to ops/.
#pragma once

#include "ops/row.h"

namespace npugraph::ops::shapes {

// Elementwise.
Types unary(const Call& call);           // the type of the first argument
Types unary_float(const Call& call);     // the same, for floating point only
Types absolute(const Call& call);        // complex becomes real
Types predicate(const Call& call);       // bool
Types promote(const Call& call);         // tensors and numbers are promoted together
Types promote_float(const Call& call);   // the same, for floating point only
Types divide_mode(const Call& call);     // rounding_mode none divides in floating point
Types compare(const Call& call);         // broadcast to bool
Types select_by_mask(const Call& call);  // where
Types masked_fill(const Call& call);
Types convert(const Call& call);  // prims.convert_element_type

// Reductions: dense row-major results.
Types sum(const Call& call);  // integers become i64, unless dtype says otherwise
Types mean(const Call& call);
Types mean_like(const Call& call);       // floating point only
Types mean_like_pair(const Call& call);  // two such results
Types reduce_same(const Call& call);     // the type of the argument
Types reduce_with_index(const Call& call);
Types reduce_index(const Call& call);
Types reduce_bool(const Call& call);
Types softmax(const Call& call);

// Products and look-ups.
Types mm(const Call& call);
Types addmm(const Call& call);
Types bmm(const Call& call);
Types baddbmm(const Call& call);
Types mv(const Call& call);
Types dot(const Call& call);
Types embedding(const Call& call);
Types gather(const Call& call);
Types gguf_linear(const Call& call);

// Copies and fresh tensors.
Types clone(const Call& call);
Types to_copy(const Call& call);
Types like_self(const Call& call);             // known for row-major tensors
Types like_self_contiguous(const Call& call);  // always row-major
Types cat(const Call& call);
Types stack(const Call& call);
Types arange(const Call& call);
Types create(const Call& call);  // full, zeros, ones, empty
Types create_scalar(const Call& call);
Types create_strided(const Call& call);
Types create_new(const Call& call);   // new_*
Types create_like(const Call& call);  // *_like

// A dense row-major tensor as the only result.
Types contiguous(DType dtype, std::vector<Expr> sizes, Device device);

}  // namespace npugraph::ops::shapes
