// SPDX-License-Identifier: Apache-2.0
#include "codegen/quant/rows16.h"

#include <vector>

#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/emit/casts.h"

namespace npugraph::codegen {
namespace {

using llvm::Align;
using llvm::Value;

// Keys of the values that are emitted once.
enum Rows16Part : int { kWords, kHalves };

llvm::Type* words_type(Ir& b) { return in_lanes(b.getInt32Ty(), kRowsAtOnce); }
llvm::Type* floats_type(Ir& b) { return in_lanes(b.getFloatTy(), kRowsAtOnce); }

Value* all(Ir& b, uint32_t number) { return splat(b, b.getInt32(number), kRowsAtOnce); }

}  // namespace

Value* Blocks16::once(const Key& key, const std::function<Value*()>& emit) {
  if (const auto known = emitted_.find(key); known != emitted_.end()) return known->second;
  Value* value = emit();
  emitted_.emplace(key, value);
  return value;
}

// The 4 bytes of each row at `byte`.
Value* Blocks16::words(int byte) {
  return once({kWords, byte}, [&] {
    llvm::Constant* every = llvm::ConstantInt::getAllOnesValue(in_lanes(b_.getInt1Ty(), kRowsAtOnce));
    return b_.CreateIntrinsic(
        llvm::Intrinsic::x86_avx512_mask_gather_dpi_512, {},
        {llvm::PoisonValue::get(words_type(b_)), rows_.row(0, byte), apart_, every, b_.getInt32(1)});
  });
}

// The f16 of each row at `byte`, as f32.
Value* Blocks16::halves(int byte) {
  return once({kHalves, byte}, [&] {
    const bool upper = byte % 4 == 2 || byte + 4 > format_.bytes;
    Value* both = words(upper ? byte - 2 : byte);
    Value* half = b_.CreateTrunc(upper ? b_.CreateLShr(both, 16) : both, in_lanes(b_.getInt16Ty(), kRowsAtOnce));
    return widen_float(b_, target_, half, DType::kF16);
  });
}

Value* Blocks16::bits(Value* from, int first, int count) {
  return b_.CreateAnd(b_.CreateLShr(from, all(b_, static_cast<uint32_t>(first))), all(b_, (1U << count) - 1));
}

// A number of 6 bits. Those of 4 groups are in the low bits of the bytes of a word. Those of the other 4 have 4 bits in
// the last word, scales in the low half of each byte, and 2 in the upper bits of the first one.
Value* Blocks16::number_of_6_bits(int group, bool offset) {
  Value* first = words(offset ? 8 : 4);
  const int at = group % 4 * 8;
  Value* number = group < 4
                      ? bits(first, at, 6)
                      : b_.CreateOr(bits(words(12), at + (offset ? 4 : 0), 4), b_.CreateShl(bits(first, at + 6, 2), 4));
  return b_.CreateSIToFP(number, floats_type(b_));
}

Value* Blocks16::scales(int first) {
  Value* of_block = halves(format_.scale_byte);
  if (format_.elements == format_.group) return of_block;
  const int group = first / format_.group;
  if (format_.has_offsets) return b_.CreateFMul(number_of_6_bits(group, false), of_block);
  // Signed bytes.
  Value* raised = b_.CreateShl(words(192 + group / 4 * 4), static_cast<uint64_t>(24 - group % 4 * 8));
  return b_.CreateFMul(b_.CreateSIToFP(b_.CreateAShr(raised, 24), floats_type(b_)), of_block);
}

Value* Blocks16::offsets(int first) {
  Value* of_block = halves(format_.scale_byte + 2);
  if (format_.elements == format_.group) return of_block;
  return b_.CreateFNeg(b_.CreateFMul(number_of_6_bits(first / format_.group, true), of_block));
}

// `count` bytes of two rows at `byte`. Those of each row are repeated until they fill half a register.
Value* Blocks16::both_rows(int pair, int byte, int count) {
  const auto row = [&](int r) {
    Value* part = b_.CreateAlignedLoad(in_lanes(b_.getInt32Ty(), count / 4), rows_.row(r, byte), Align(1));
    std::vector<int> repeated;
    for (int i = 0; i < kRowsAtOnce; ++i) repeated.push_back(i % (count / 4));
    return b_.CreateShuffleVector(part, repeated);
  };
  std::vector<llvm::Constant*> is_upper;
  for (int i = 0; i < kRowsAtOnce; ++i) is_upper.push_back(b_.getInt1(i >= kRowsAtOnce / 2));
  return b_.CreateSelect(llvm::ConstantVector::get(is_upper), row(2 * pair + 1), row(2 * pair));
}

// Of 32 bytes of two rows, `count` bits of each.
Value* Blocks16::bits_of_bytes(int pair, const loop::CodeBits& place, int count) {
  Value* bytes = b_.CreateLShr(both_rows(pair, place.byte, 32), all(b_, static_cast<uint32_t>(place.shift)));
  return b_.CreateAnd(bytes, all(b_, ((1U << count) - 1) * 0x01010101));
}

// Of blocks with 32 elements: elements 16 to 31 are the high halves of the bytes of elements 0 to 15.
Value* Blocks16::nibbles(int pair, int byte) {
  std::vector<uint32_t> shifts;
  for (int i = 0; i < kRowsAtOnce; ++i) shifts.push_back(i / 4 % 2 * 4);
  Value* shifted = b_.CreateLShr(both_rows(pair, byte, 16), llvm::ConstantDataVector::get(b_.getContext(), shifts));
  return b_.CreateAnd(shifted, all(b_, 0x0f0f0f0f));
}

// The upper bits of the codes of blocks with 32 elements: a bit of a word for each.
Value* Blocks16::upper_bits_of_word(int pair, int byte) {
  const auto word = [&](int row) {
    return b_.CreateZExt(b_.CreateAlignedLoad(b_.getInt32Ty(), rows_.row(row, byte), Align(1)), b_.getInt64Ty());
  };
  Value* both = b_.CreateOr(word(2 * pair), b_.CreateShl(word(2 * pair + 1), 32));
  Value* bits = b_.CreateSelect(b_.CreateBitCast(both, in_lanes(b_.getInt1Ty(), 64)), splat(b_, b_.getInt8(16), 64),
                                splat(b_, b_.getInt8(0), 64));
  return b_.CreateBitCast(bits, words_type(b_));
}

Value* Blocks16::codes(int pair, int first) {
  const loop::CodeBits low = loop::low_bits(type_, first);
  if (format_.bits == 8) return b_.CreateXor(both_rows(pair, low.byte, 32), all(b_, 0x80808080));
  const bool small = format_.elements == kRowsAtOnce * 2;
  Value* codes = small ? nibbles(pair, low.byte) : bits_of_bytes(pair, low, 4);
  if (format_.bits == 4) return codes;
  const loop::CodeBits upper = loop::upper_bits(type_, first);
  return b_.CreateOr(codes, small ? upper_bits_of_word(pair, upper.byte)
                                  : b_.CreateShl(bits_of_bytes(pair, upper, format_.bits - 4), 4));
}

}  // namespace npugraph::codegen
