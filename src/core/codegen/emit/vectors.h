// SPDX-License-Identifier: Apache-2.0
// Values of kernels in LLVM IR. A value is a scalar, or a vector with one element for each lane; `lanes` is 0 in scalar
// code. In registers f32 and f64 are floats, kBool is i1, integers are integers, and smaller floats are the bits that
// they have in memory. A kBool in memory is a byte, 0 or 1.
#pragma once

#include <vector>

#include <llvm/IR/IRBuilder.h>

#include "target/target.h"

namespace npugraph::codegen {

using Ir = llvm::IRBuilderBase;

llvm::Type* register_type(llvm::LLVMContext& context, DType dtype);
llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype);
// `type` for each lane.
llvm::Type* in_lanes(llvm::Type* type, int lanes);

bool is_vector(const llvm::Value* value);
int lanes_of(const llvm::Value* value);  // 0 for a scalar

// A constant of the type: integers wrap, f32 rounds. Small floats support only zero.
llvm::Constant* number(llvm::LLVMContext& context, DType dtype, double value);

// The scalar in every lane. Returns `value` itself if it is a vector or `lanes` is 0.
llvm::Value* splat(Ir& b, llvm::Value* value, int lanes);
// 0, 1, ... as i64.
llvm::Constant* lane_numbers(Ir& b, int lanes);
// Mask of the lanes whose number is below `count`, an i64 of at least 0.
llvm::Value* first_lanes(Ir& b, llvm::Value* count, int lanes);
// Whether any lane of an i1 vector (or the scalar itself) is true.
llvm::Value* any_lane(Ir& b, llvm::Value* condition);
// mask and condition, either of which may be null, meaning "all".
llvm::Value* both(Ir& b, llvm::Value* mask, llvm::Value* condition, int lanes);
// `count` lanes from `first` on.
llvm::Value* lanes_between(Ir& b, llvm::Value* value, int first, int count);
// Sums of groups of `group` adjacent lanes in `group` vectors. Lane i of the result is the sum of group i, counted from
// the first vector on.
llvm::Value* sum_groups(Ir& b, std::vector<llvm::Value*> vectors, int group);
// The lanes in reverse order.
llvm::Value* reversed(Ir& b, llvm::Value* value);
// Applies a scalar function to each lane, or to the scalar.
llvm::Value* for_each_lane(Ir& b, llvm::ArrayRef<llvm::Value*> args, llvm::Type* result,
                           llvm::function_ref<llvm::Value*(llvm::ArrayRef<llvm::Value*>)> scalar);

// Elements of `base` that the lanes of an access refer to: all of them element `index` (kUniform), those from `index`
// on upwards or downwards, or any (kAnywhere). `index` is an i64, or a vector of i64 for kAnywhere.
struct Place {
  enum class Kind : uint8_t { kUniform, kUp, kDown, kAnywhere };
  Kind kind = Kind::kUniform;
  llvm::Value* base = nullptr;
  llvm::Value* index = nullptr;
};

// Loads an element per lane; a uniform place gives a scalar unless it is masked by lane. Lanes where the mask (may be
// null) is false are not touched and give `otherwise` (null: arbitrary values).
llvm::Value* emit_load(Ir& b, DType dtype, const Place& place, int lanes, llvm::Value* mask, llvm::Value* otherwise);

// `streaming` bypasses the caches; the place goes upwards, has no mask and is aligned to whole vectors.
void emit_store(Ir& b, DType dtype, llvm::Value* value, const Place& place, int lanes, llvm::Value* mask,
                bool streaming);

}  // namespace npugraph::codegen
