// SPDX-License-Identifier: Apache-2.0
#include "codegen/quant/block.h"

#include <numeric>
#include <vector>

#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/emit/casts.h"
#include "codegen/matmul/element.h"

namespace npugraph::codegen {
namespace {

using llvm::Value;

// Keys of the values that are emitted once.
enum BlockPart : int { kBytes, kWord, kHalf, kScales, kOffsets, kScale, kOffset, kTable };

Value* shifted(Ir& b, Value* value, int count) {
  return count == 0 ? value : b.CreateLShr(value, static_cast<uint64_t>(count));
}

Value* one_lane(Ir& b, Value* vector, int index, int lanes) {
  return b.CreateShuffleVector(vector, std::vector<int>(static_cast<size_t>(lanes), index));
}

}  // namespace

Value* BlockReader::once(const Key& key, const std::function<Value*()>& emit) {
  if (const auto known = emitted_.find(key); known != emitted_.end()) return known->second;
  Value* value = emit();
  emitted_.emplace(key, value);
  return value;
}

Value* BlockReader::bytes(int at, int count) {
  return once({kBytes, at, count}, [&] {
    Value* from = b_.CreateConstGEP1_64(b_.getInt8Ty(), block_, static_cast<uint64_t>(at));
    return b_.CreateAlignedLoad(in_lanes(b_.getInt8Ty(), count), from, llvm::Align(1));
  });
}

Value* BlockReader::word(int at) {
  return once({kWord, at}, [&] {
    Value* from = b_.CreateConstGEP1_64(b_.getInt8Ty(), block_, static_cast<uint64_t>(at));
    return b_.CreateAlignedLoad(b_.getInt32Ty(), from, llvm::Align(1));
  });
}

// An f16 as f32, in all lanes.
Value* BlockReader::half(int at, int lanes) {
  return once({kHalf, at, lanes}, [&] {
    Value* from = b_.CreateConstGEP1_64(b_.getInt8Ty(), block_, static_cast<uint64_t>(at));
    Value* bits = b_.CreateAlignedLoad(b_.getInt16Ty(), from, llvm::Align(1));
    return widen_float(b_, target_, splat(b_, bits, lanes), DType::kF16);
  });
}

// 8 numbers of 6 bits: 4 in the low bits of the bytes of a word; the other 4 have 4 bits in the last word, and 2 in the
// upper bits of the first one.
Value* BlockReader::scales_of_6_bits(bool offsets) {
  Value* first = word(offsets ? 8 : 4);
  Value* low = b_.CreateAnd(first, 0x3f3f3f3f);
  Value* high = b_.CreateOr(b_.CreateAnd(shifted(b_, word(12), offsets ? 4 : 0), 0x0f0f0f0f),
                            b_.CreateAnd(b_.CreateLShr(first, 2), 0x30303030));
  Value* words = llvm::PoisonValue::get(in_lanes(b_.getInt32Ty(), 2));
  words = b_.CreateInsertElement(b_.CreateInsertElement(words, low, b_.getInt64(0)), high, b_.getInt64(1));
  Value* numbers = b_.CreateZExt(b_.CreateBitCast(words, in_lanes(b_.getInt8Ty(), 8)), in_lanes(b_.getInt32Ty(), 8));
  Value* scaled = b_.CreateFMul(b_.CreateSIToFP(numbers, in_lanes(b_.getFloatTy(), 8)), half(offsets ? 2 : 0, 8));
  return offsets ? b_.CreateFNeg(scaled) : scaled;
}

// The scales, or offsets, of all groups of a block of 256, one per lane.
Value* BlockReader::shared_scales(bool offsets) {
  return once({offsets ? kOffsets : kScales}, [&] {
    if (format_.has_offsets) return scales_of_6_bits(offsets);
    Value* numbers = b_.CreateSExt(bytes(192, 16), in_lanes(b_.getInt32Ty(), 16));
    return b_.CreateFMul(b_.CreateSIToFP(numbers, in_lanes(b_.getFloatTy(), 16)), half(format_.scale_byte, 16));
  });
}

Value* BlockReader::scale(int group, int lanes) {
  if (format_.elements == 32) return half(0, lanes);
  return once({kScale, group, lanes}, [&] { return one_lane(b_, shared_scales(false), group, lanes); });
}

Value* BlockReader::offset(int group, int lanes) {
  if (format_.elements == 32) return half(2, lanes);
  return once({kOffset, group, lanes}, [&] { return one_lane(b_, shared_scales(true), group, lanes); });
}

// Whether values of codes of 4 bits are looked up in a register that holds all 16. That permutation ignores all other
// bits.
bool BlockReader::looks_up(int lanes) const { return target_.masks && lanes == 16 && format_.bits == 4; }

// Codes of 4 bits, or the low 4 bits of codes, as i32 with arbitrary higher bits.
Value* BlockReader::nibbles(int first, int lanes) {
  const loop::CodeBits bits = loop::low_bits(type_, first);
  return shifted(b_, b_.CreateZExt(bytes(bits.byte, lanes), in_lanes(b_.getInt32Ty(), lanes)), bits.shift);
}

// The bits of codes above the low 4, in their place.
Value* BlockReader::upper_bits(int first, int lanes) {
  const loop::CodeBits bits = loop::upper_bits(type_, first);
  Value* raised = nullptr;
  if (format_.elements == 32) {
    std::vector<uint32_t> shifts;
    for (int i = 0; i < lanes; ++i) shifts.push_back(static_cast<uint32_t>(bits.shift + i));
    raised = b_.CreateLShr(splat(b_, word(bits.byte), lanes), llvm::ConstantDataVector::get(b_.getContext(), shifts));
  } else {
    Value* wide = b_.CreateZExt(bytes(bits.byte, lanes), in_lanes(b_.getInt32Ty(), lanes));
    raised = shifted(b_, wide, bits.shift);
  }
  return b_.CreateShl(b_.CreateAnd(raised, splat(b_, b_.getInt32(upper_mask()), lanes)), 4);
}

// The same of 32 codes that are bytes.
Value* BlockReader::upper_bits_of_bytes(int first) {
  const auto all = [&](uint32_t code) { return splat(b_, b_.getInt8(static_cast<uint8_t>(code)), 32); };
  const loop::CodeBits bits = loop::upper_bits(type_, first);
  if (format_.elements == 32)
    return b_.CreateSelect(b_.CreateBitCast(word(bits.byte), in_lanes(b_.getInt1Ty(), 32)), all(16), all(0));
  return b_.CreateShl(b_.CreateAnd(shifted(b_, bytes(bits.byte, 32), bits.shift), all(upper_mask())), 4);
}

Value* BlockReader::elements(int first, int lanes) {
  const int group = first / format_.group;
  llvm::Type* floats = in_lanes(b_.getFloatTy(), lanes);
  llvm::Type* integers = in_lanes(b_.getInt32Ty(), lanes);
  const auto value = [&](Value* codes) -> Value* {
    if (!format_.has_offsets) return b_.CreateFMul(codes, scale(group, lanes));
    return multiply_add(b_, codes, scale(group, lanes), offset(group, lanes), target_.fma);
  };
  if (format_.bits == 8)
    return value(b_.CreateSIToFP(b_.CreateSExt(bytes(loop::low_bits(type_, first).byte, lanes), integers), floats));
  Value* low = nibbles(first, lanes);
  if (looks_up(lanes)) {
    Value* table = once({kTable, group}, [&] {
      std::vector<llvm::Constant*> all;
      for (int code = 0; code < lanes; ++code)
        all.push_back(llvm::ConstantFP::get(b_.getFloatTy(), format_.has_offsets ? code : code - format_.zero_code));
      return value(llvm::ConstantVector::get(all));
    });
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {}, {table, low});
  }
  Value* codes = b_.CreateAnd(low, splat(b_, b_.getInt32(15), lanes));
  if (format_.bits > 4) codes = b_.CreateOr(codes, upper_bits(first, lanes));
  if (!format_.has_offsets)
    codes = b_.CreateSub(codes, splat(b_, b_.getInt32(static_cast<uint32_t>(format_.zero_code)), lanes));
  return value(b_.CreateSIToFP(codes, floats));
}

Value* BlockReader::codes(int first) {
  const auto all = [&](int code, int lanes) { return splat(b_, b_.getInt8(static_cast<uint8_t>(code)), lanes); };
  const loop::CodeBits bits = loop::low_bits(type_, first);
  if (format_.bits == 8) return b_.CreateXor(bytes(bits.byte, 32), all(128, 32));
  Value* low = nullptr;
  if (format_.elements == 32) {
    Value* both = bytes(bits.byte, 16);
    std::vector<int> in_order(32);
    std::iota(in_order.begin(), in_order.end(), 0);
    low = b_.CreateShuffleVector(b_.CreateAnd(both, all(15, 16)), b_.CreateLShr(both, 4), in_order);
  } else {
    low = b_.CreateAnd(shifted(b_, bytes(bits.byte, 32), bits.shift), all(15, 32));
  }
  return format_.bits == 4 ? low : b_.CreateOr(low, upper_bits_of_bytes(first));
}

Value* BlockReader::scales_of_quads(int first) {
  const int group = first / format_.group;
  if (format_.group == 32) return scale(group, 8);
  return b_.CreateShuffleVector(shared_scales(false),
                                {group, group, group, group, group + 1, group + 1, group + 1, group + 1});
}

Value* BlockReader::offsets_of_quads(int first) { return offset(first / format_.group, 8); }

}  // namespace npugraph::codegen
