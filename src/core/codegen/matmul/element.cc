// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/element.h"

#include <numeric>

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace npugraph::codegen {

using llvm::Align;
using llvm::FixedVectorType;
using llvm::Value;

namespace {

// The dot products of vectors that one instruction multiplies. Without products of u8 x i8, x - 128 is multiplied, and
// 128 * y added: the sum minus the products of -128 and y.
Value* dot_quads_at_once(llvm::IRBuilderBase& b, const target::Target& target, Value* x, Value* y, Value* sum) {
  using namespace llvm::Intrinsic;
  const bool mixed = target.int8_mixed;
  const auto dot = [&](Value* left, Value* start) {
    if (target.scalable)
      return b.CreateIntrinsic(mixed ? aarch64_sve_usdot : aarch64_sve_sdot, {start->getType()}, {start, left, y});
    return b.CreateIntrinsic(mixed ? aarch64_neon_usdot : aarch64_neon_sdot, {start->getType(), left->getType()},
                             {start, left, y});
  };
  if (mixed) return dot(x, sum);
  Value* least = llvm::ConstantInt::get(x->getType(), 0x80);
  return dot(b.CreateXor(x, least), b.CreateSub(sum, dot(least, llvm::Constant::getNullValue(sum->getType()))));
}

// As vectors of SVE, or in parts of 128 bits.
Value* dot_quads_of_aarch64(llvm::IRBuilderBase& b, const target::Target& target, Value* x, Value* y, Value* sum) {
  const int quads = static_cast<int>(llvm::cast<FixedVectorType>(sum->getType())->getNumElements());
  auto* bytes = FixedVectorType::get(b.getInt8Ty(), 4 * quads);
  x = b.CreateBitCast(x, bytes);
  y = b.CreateBitCast(y, bytes);
  if (target.scalable) {
    const auto scalable = [&](Value* fixed, llvm::Type* element, unsigned lanes) {
      auto* type = llvm::ScalableVectorType::get(element, lanes);
      return b.CreateInsertVector(type, llvm::PoisonValue::get(type), fixed, b.getInt64(0));
    };
    Value* all = dot_quads_at_once(b, target, scalable(x, b.getInt8Ty(), 16), scalable(y, b.getInt8Ty(), 16),
                                   scalable(sum, b.getInt32Ty(), 4));
    return b.CreateExtractVector(sum->getType(), all, b.getInt64(0));
  }
  const auto part = [&](Value* whole, int first, int count) {
    std::vector<int> lanes(count);
    std::iota(lanes.begin(), lanes.end(), first);
    return b.CreateShuffleVector(whole, lanes);
  };
  std::vector<Value*> sums;
  for (int q = 0; q < quads; q += 4)
    sums.push_back(dot_quads_at_once(b, target, part(x, 4 * q, 16), part(y, 4 * q, 16), part(sum, q, 4)));
  return llvm::concatenateVectors(b, sums);
}

// Sums of the products of adjacent i16, whose lanes are twice those of i32.
Value* multiply_pairs(llvm::IRBuilderBase& b, const target::Target& target, Value* x, Value* y) {
  using namespace llvm::Intrinsic;
  const int pairs = static_cast<int>(llvm::cast<FixedVectorType>(x->getType())->getNumElements()) / 2;
  if (target.arch == target::Arch::kX86_64) {
    const auto of_lanes = pairs == 16 ? x86_avx512_pmaddw_d_512 : pairs == 8 ? x86_avx2_pmadd_wd : x86_sse2_pmadd_wd;
    return b.CreateIntrinsic(of_lanes, {}, {x, y});
  }
  const auto products = [&](int first) {
    std::vector<int> lanes;
    for (int i = first; i < 2 * pairs; i += 2) lanes.push_back(i);
    const auto wide = [&](Value* all) {
      return b.CreateSExt(b.CreateShuffleVector(all, lanes), FixedVectorType::get(b.getInt32Ty(), pairs));
    };
    return b.CreateMul(wide(x), wide(y));
  };
  return b.CreateAdd(products(0), products(1));
}

// The same value, of which LLVM does not see that it is a sum. It would add the products of two steps to each other
// first, so that sums of a tile and these would take more registers than there are.
Value* in_order(llvm::IRBuilderBase& b, const target::Target& target, Value* sum) {
  if (target.arch != target::Arch::kX86_64) return sum;
  auto* type = llvm::FunctionType::get(sum->getType(), {sum->getType()}, false);
  return b.CreateCall(llvm::InlineAsm::get(type, "", "=x,0", /*hasSideEffects=*/false), {sum});
}

// For processors without an instruction for quads: the even and the odd bytes as i16.
Value* dot_quads_by_pairs(llvm::IRBuilderBase& b, const target::Target& target, Value* x, Value* y, Value* sum) {
  const unsigned quads = llvm::cast<FixedVectorType>(sum->getType())->getNumElements();
  auto* words = FixedVectorType::get(b.getInt16Ty(), 2 * quads);
  x = b.CreateBitCast(x, words);
  y = b.CreateBitCast(y, words);
  Value* even = multiply_pairs(b, target, b.CreateAnd(x, llvm::ConstantInt::get(words, 0xff)),
                               b.CreateAShr(b.CreateShl(y, 8), 8));
  Value* odd = multiply_pairs(b, target, b.CreateLShr(x, 8), b.CreateAShr(y, 8));
  return b.CreateAdd(sum, b.CreateAdd(even, odd));
}

}  // namespace

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

Value* dot_i16_pairs(llvm::IRBuilderBase& b, const target::Target& target, Value* x, Value* y, Value* sum) {
  const unsigned pairs = llvm::cast<FixedVectorType>(sum->getType())->getNumElements();
  auto* words = FixedVectorType::get(b.getInt16Ty(), 2 * pairs);
  return b.CreateAdd(in_order(b, target, sum),
                     multiply_pairs(b, target, b.CreateBitCast(x, words), b.CreateBitCast(y, words)));
}

Value* dot_i8_quads(llvm::IRBuilderBase& b, const target::Target& target, Value* x, Value* y, Value* sum) {
  if (!target.int8_dot) return dot_quads_by_pairs(b, target, x, y, sum);
  if (target.arch == target::Arch::kAArch64) return dot_quads_of_aarch64(b, target, x, y, sum);
  const bool whole = llvm::cast<FixedVectorType>(sum->getType())->getNumElements() == 16;
  return b.CreateIntrinsic(whole ? llvm::Intrinsic::x86_avx512_vpdpbusd_512 : llvm::Intrinsic::x86_avx512_vpdpbusd_256,
                           {}, {sum, b.CreateBitCast(x, sum->getType()), b.CreateBitCast(y, sum->getType())});
}

}  // namespace npugraph::codegen
