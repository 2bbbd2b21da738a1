// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <functional>
#include <map>
#include <vector>

#include <llvm/IR/IntrinsicsX86.h>

#include "base/error.h"
#include "codegen/emit/casts.h"
#include "codegen/emit/loops.h"
#include "codegen/emit/vectors.h"
#include "codegen/jit/make_code.h"
#include "codegen/matmul/element.h"
#include "codegen/quant/quant_code.h"
#include "loop/gguf.h"

namespace npugraph::codegen {
namespace {

using llvm::Align;
using llvm::Value;

// Reads of one block of each of 16 rows: scales in a lane for each row, codes of two rows in a register of 512 bits.
// Emits such reads. Values that several reads share are emitted by the first of these reads, so all of them must be in
// one basic block.
class Blocks16 {
 public:
  // `rows` point to the blocks; `apart` has their distances from the first one in bytes, as i32.
  Blocks16(Ir& b, const target::Target& target, loop::BlockType type, const RowPointers& rows, llvm::Value* apart)
      : b_(b), target_(target), type_(type), format_(loop::format_of(type)), rows_(rows), apart_(apart) {}

  // <16 x float>: for each row, the scale and the offset of codes [first, first + loop::BlockFormat::group).
  llvm::Value* scales(int first);
  llvm::Value* offsets(int first);
  // <16 x i32>: codes [first, first + 32) of rows 2 * pair and 2 * pair + 1, as unsigned bytes.
  llvm::Value* codes(int pair, int first);

 private:
  using Key = std::array<int, 2>;
  llvm::Value* once(const Key& key, const std::function<llvm::Value*()>& emit);
  llvm::Value* words(int byte);
  llvm::Value* halves(int byte);
  llvm::Value* bits(llvm::Value* from, int first, int count);
  llvm::Value* number_of_6_bits(int group, bool offset);
  llvm::Value* both_rows(int pair, int byte, int count);
  llvm::Value* bits_of_bytes(int pair, const loop::CodeBits& place, int count);
  llvm::Value* nibbles(int pair, int byte);
  llvm::Value* upper_bits_of_word(int pair, int byte);

  Ir& b_;
  const target::Target& target_;
  loop::BlockType type_;
  const loop::BlockFormat& format_;
  const RowPointers& rows_;
  llvm::Value* apart_;
  std::map<Key, llvm::Value*> emitted_;
};

// Keys of the values that are emitted once.
enum Rows16Part : int { kWords, kHalves };

llvm::Type* words_type(Ir& b) { return in_lanes(b.getInt32Ty(), kRowsAtOnce); }
llvm::Type* floats_type(Ir& b) { return in_lanes(b.getFloatTy(), kRowsAtOnce); }

Value* all(Ir& b, uint32_t number) { return splat(b, b.getInt32(number), kRowsAtOnce); }

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

constexpr int kLanes = kRowsAtOnce;
constexpr int kPairs = kRowsAtOnce / 2;

class Matvec16Emitter {
 public:
  Matvec16Emitter(llvm::Function* function, loop::BlockType type, int digits, const target::Target& target)
      : f_(function),
        b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        target_(target),
        type_(type),
        format_(loop::format_of(type)),
        layout_(digit_layout(type, digits)),
        words_(llvm::FixedVectorType::get(b_.getInt32Ty(), kLanes)),
        floats_(llvm::FixedVectorType::get(b_.getFloatTy(), kLanes)),
        row_stride_(function->getArg(1)) {}

  void emit() {
    std::vector<uint32_t> numbers;
    for (uint32_t r = 0; r < kLanes; ++r) numbers.push_back(r);
    Value* stride = b_.CreateVectorSplat(kLanes, b_.CreateTrunc(row_stride_, b_.getInt32Ty()));
    apart_ = b_.CreateMul(stride, llvm::ConstantDataVector::get(f_->getContext(), numbers));
    blocks_ = b_.CreateUDiv(f_->getArg(5), b_.getInt64(static_cast<uint64_t>(format_.elements)));
    Value* rows = f_->getArg(2);
    // A last group of rows that is not whole starts earlier and computes some rows again.
    Value* last = b_.CreateSub(rows, b_.getInt64(kLanes));
    emit_loop(b_, b_.getInt64(0), rows, kLanes, [&](Value* begin) {
      Value* row = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, begin, last);
      Value* sums = emit_rows(bytes(f_->getArg(0), b_.CreateMul(row, row_stride_)));
      b_.CreateAlignedStore(sums, b_.CreateGEP(b_.getFloatTy(), f_->getArg(6), row), Align(4));
    });
    b_.CreateRetVoid();
  }

 private:
  Value* bytes(Value* pointer, Value* offset) { return b_.CreateGEP(b_.getInt8Ty(), pointer, offset); }
  Value* bytes(Value* pointer, int64_t offset) { return b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, offset); }
  Value* as_float(Value* words) { return b_.CreateSIToFP(words, floats_); }
  Value* none() { return llvm::Constant::getNullValue(words_); }

  // Rows are adjacent in memory. For each line of the rows that are read, prefetches a line of the next rows: for each
  // group of elements its share, as processors stall when too many lines are under way.
  void prefetch(Value* at, int first) {
    const auto line = [&](int element) { return (kLanes * format_.bytes * element / format_.elements + 63) / 64; };
    for (int i = line(first); i < line(first + kGroup); ++i) emit_prefetch(b_, bytes(at, int64_t{i} * 64));
  }

  // The sums of kLanes rows. The loop carries the sums of pairs of rows, then those of offsets.
  Value* emit_rows(Value* first_row) {
    const RowPointers rows(b_, first_row, row_stride_, kLanes);
    Values carried = rows.pointers();
    const size_t pointers = carried.size();
    carried.push_back(f_->getArg(3));
    carried.push_back(bytes(first_row, b_.CreateMul(row_stride_, b_.getInt64(kLanes))));
    carried.insert(carried.end(), kPairs + 1, llvm::Constant::getNullValue(floats_));
    carried = emit_loop(b_, b_.getInt64(0), blocks_, 1, carried, [&](Value*, const Values& at) {
      const RowPointers here = rows.at({at.begin(), at.begin() + pointers});
      Values sums(at.begin() + pointers + 2, at.end());
      Blocks16 blocks(b_, target_, type_, here, apart_);
      for (int first = 0; first < format_.elements; first += kGroup) {
        prefetch(at[pointers + 1], first);
        add_group(blocks, first, bytes(at[pointers], first / kGroup * layout_.bytes()), sums);
      }
      Values next = here.advanced(b_.getInt64(format_.bytes)).pointers();
      next.push_back(bytes(at[pointers], layout_.bytes_of(format_.elements)));
      next.push_back(bytes(at[pointers + 1], int64_t{kLanes} * format_.bytes));
      next.insert(next.end(), sums.begin(), sums.end());
      return next;
    });
    Value* offsets = carried.back();
    Value* total = sum_groups(b_, {carried.begin() + pointers + 2, carried.end() - 1}, kPairs);
    return format_.has_offsets ? b_.CreateFAdd(total, offsets) : total;
  }

  Value* load_words(Value* group, int64_t at) { return b_.CreateAlignedLoad(words_, bytes(group, at), Align(4)); }
  Value* number(Value* group, int64_t at) {
    return b_.CreateVectorSplat(kLanes, b_.CreateAlignedLoad(b_.getFloatTy(), bytes(group, at), Align(4)));
  }

  void add_group(Blocks16& blocks, int first, Value* group, Values& sums) {
    Value* scale = number(group, layout_.scale());
    Values scales;  // of parts of the group
    for (int part = 0; part < kGroup; part += format_.group)
      scales.push_back(b_.CreateFMul(blocks.scales(first + part), scale));
    for (int pair = 0; pair < kPairs; ++pair) {
      Value* products = multiply(blocks.codes(pair, first), group);
      sums[pair] = multiply_add(b_, products, scales_of_pair(scales, pair), sums[pair], target_.fma);
    }
    if (!format_.has_offsets) return;
    sums[kPairs] = multiply_add(b_, blocks.offsets(first), number(group, layout_.sum()), sums[kPairs], target_.fma);
  }

  // Half of the lanes belong to one row, half to the other. Each part of the group has an equal number of lanes of each
  // row.
  Value* scales_of_pair(const Values& scales, int pair) {
    std::vector<int> lanes;
    const int of_part = kPairs / static_cast<int>(scales.size());
    for (int i = 0; i < kLanes; ++i) lanes.push_back(2 * pair + i / kPairs + i % kPairs / of_part * kLanes);
    return scales.size() == 1 ? b_.CreateShuffleVector(scales[0], lanes)
                              : b_.CreateShuffleVector(scales[0], scales[1], lanes);
  }

  // Sums of quads of products, as f32.
  Value* multiply(Value* codes, Value* group) {
    const auto digit = [&](int i, Value* sum) {
      return dot_i8_quads(b_, target_, codes, load_words(group, layout_.digit(i)), sum);
    };
    const auto start = [&](int i) { return layout_.starts > i ? load_words(group, layout_.start(i)) : none(); };
    if (layout_.digits == 1) return as_float(digit(0, start(0)));
    if (layout_.starts == 2) {
      Value* low = digit(2, b_.CreateShl(digit(1, none()), 8));
      Value* high = as_float(digit(0, start(0)));
      return multiply_add(b_, high, llvm::ConstantFP::get(floats_, 65536), as_float(b_.CreateAdd(low, start(1))),
                          target_.fma);
    }
    Value* sum = digit(0, none());
    for (int i = 1; i < layout_.digits; ++i) sum = digit(i, b_.CreateShl(sum, 8));
    return as_float(layout_.starts == 0 ? sum : b_.CreateAdd(sum, start(0)));
  }

  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  const target::Target& target_;
  loop::BlockType type_;
  const loop::BlockFormat& format_;
  DigitLayout layout_;
  llvm::FixedVectorType* words_;
  llvm::FixedVectorType* floats_;
  Value* row_stride_;
  Value* apart_ = nullptr;
  Value* blocks_ = nullptr;
};

}  // namespace

bool has_quant_matvec16(const target::Target& target) {
  return target.int8_dot && target.masks && target.lanes(DType::kF32) == kLanes;
}

RowsMatvecFunction* quant_matvec16_code(const target::Target& target, loop::BlockType type, int digits) {
  const std::string name = cat("quant matvec16 ", loop::format_of(type).name, " ", digits);
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    llvm::Function* function = add_function(module, target, "matvec", matvec_type(module.getContext()));
    Matvec16Emitter(function, type, digits, target).emit();
  });
  return code.function<RowsMatvecFunction>("matvec");
}

}  // namespace npugraph::codegen
