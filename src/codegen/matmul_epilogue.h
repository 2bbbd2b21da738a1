// SPDX-License-Identifier: Apache-2.0
// The end of a matrix product: from sums in f32 to the elements of C.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "codegen/matmul.h"

namespace npugraph::codegen {

// The sums of `rows` rows and `columns` columns of C, acc_stride elements apart, to C. `pointers` has the first element of
// each row's place in the inputs and C, `strides` the bytes from row to row, in the order of the buffers.
using EpilogueFunction = void(const float* acc, int64_t acc_stride, int64_t rows, int64_t columns,
                              char* const* pointers, const int64_t* strides);

llvm::FunctionType* epilogue_type(llvm::LLVMContext& context);
void emit_epilogue(llvm::Function* function, const Epilogue& epilogue, DType c, int lanes);

}  // namespace npugraph::codegen
