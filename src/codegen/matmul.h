// SPDX-License-Identifier: Apache-2.0
// Matrix products as tasks: C[.., m, n] = epilogue(sum over k of A[.., m, k] * B), sums in f32, sizes at run time.
//
// Buffers: A, B, the inputs of the epilogue, C. The elements of A, B, C and inputs are f32, bf16 or f16. Leading dimensions
// are a batch; B and the inputs may have fewer of them, or ones, which repeat. C and inputs are contiguous along n; nothing
// else is assumed of strides, but products are fast where A is contiguous along k and B along k or n. The order of a sum
// depends on sizes and strides alone.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "abi/task.h"
#include "target/target.h"
#include "tensor/dtype.h"

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace npugraph::codegen {

struct EpilogueInput {
  DType dtype = DType::kF32;
  bool along_columns = true;  // or one element for all columns of a row
};

// What happens to an element of the product before it is stored, written for vectors of f32 of any length.
struct Epilogue {
  std::string name;  // equal names are equal epilogues; empty: none
  std::vector<EpilogueInput> inputs;
  std::function<llvm::Value*(llvm::IRBuilderBase&, llvm::Value* sum, std::span<llvm::Value* const> inputs)> emit;
};

struct MatmulSpec {
  DType a = DType::kF32;
  DType b = DType::kF32;
  DType c = DType::kF32;
  bool b_is_nk = true;  // the last two dimensions of B: [n, k], as in nn.Linear, or [k, n]
  Epilogue epilogue;
};

// UserError where the spec cannot be generated.
ng_task make_matmul(const MatmulSpec& spec, const target::Target& target);

}  // namespace npugraph::codegen
