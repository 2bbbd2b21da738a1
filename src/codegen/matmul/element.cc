// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/element.h"

#include <llvm/IR/IntrinsicsX86.h>

namespace npugraph::codegen {

using llvm::Align;
using llvm::FixedVectorType;
using llvm::Value;

Value* load_as_f32(llvm::IRBuilderBase& b, Value* pointer, DType dtype, int lanes) {
  auto* floats = FixedVectorType::get(b.getFloatTy(), lanes);
  if (dtype == DType::kF32) return b.CreateAlignedLoad(floats, pointer, Align(4));
  if (dtype == DType::kF16)
    return b.CreateFPExt(b.CreateAlignedLoad(FixedVectorType::get(b.getHalfTy(), lanes), pointer, Align(2)), floats);
  if (dtype == DType::kI8)
    return b.CreateSIToFP(b.CreateAlignedLoad(FixedVectorType::get(b.getInt8Ty(), lanes), pointer, Align(1)), floats);
  Value* bits = b.CreateAlignedLoad(FixedVectorType::get(b.getInt16Ty(), lanes), pointer, Align(2));
  bits = b.CreateZExt(bits, FixedVectorType::get(b.getInt32Ty(), lanes));
  return b.CreateBitCast(b.CreateShl(bits, 16), floats);
}

void store_f32_as(llvm::IRBuilderBase& b, Value* value, Value* pointer, DType dtype) {
  const auto lanes = llvm::cast<FixedVectorType>(value->getType())->getNumElements();
  if (dtype == DType::kF16) value = b.CreateFPTrunc(value, FixedVectorType::get(b.getHalfTy(), lanes));
  if (dtype == DType::kBF16) {
    Value* bits = b.CreateBitCast(value, FixedVectorType::get(b.getInt32Ty(), lanes));
    const auto all = [&](uint32_t x) { return b.CreateVectorSplat(lanes, b.getInt32(x)); };
    Value* odd = b.CreateAnd(b.CreateLShr(bits, 16), all(1));
    Value* rounded = b.CreateAdd(bits, b.CreateAdd(odd, all(0x7fff)));
    Value* nan = b.CreateOr(bits, all(0x400000));
    bits = b.CreateSelect(b.CreateFCmpUNO(value, value), nan, rounded);
    value = b.CreateTrunc(b.CreateLShr(bits, 16), FixedVectorType::get(b.getInt16Ty(), lanes));
  }
  b.CreateAlignedStore(value, pointer, Align(size_of(dtype)));
}

Value* multiply_add(llvm::IRBuilderBase& b, Value* x, Value* y, Value* sum, bool fma) {
  if (!fma) return b.CreateFAdd(sum, b.CreateFMul(x, y));
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()}, {x, y, sum});
}

Value* dot_bf16_pairs(llvm::IRBuilderBase& b, Value* x, Value* y, Value* sum) {
  auto* pairs = FixedVectorType::get(b.getBFloatTy(), 32);
  return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                           {sum, b.CreateBitCast(x, pairs), b.CreateBitCast(y, pairs)});
}

Value* dot_i8_quads(llvm::IRBuilderBase& b, Value* x, Value* y, Value* sum) {
  const bool whole = llvm::cast<FixedVectorType>(sum->getType())->getNumElements() == 16;
  return b.CreateIntrinsic(whole ? llvm::Intrinsic::x86_avx512_vpdpbusd_512 : llvm::Intrinsic::x86_avx512_vpdpbusd_256,
                           {}, {sum, b.CreateBitCast(x, sum->getType()), b.CreateBitCast(y, sum->getType())});
}

}  // namespace npugraph::codegen
