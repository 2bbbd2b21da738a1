// SPDX-License-Identifier: Apache-2.0
#include "codegen/quant/matvec16.h"

#include <vector>

#include "base/error.h"
#include "codegen/emit/loops.h"
#include "codegen/jit/code_store.h"
#include "codegen/matmul/element.h"
#include "codegen/quant/rows16.h"

namespace npugraph::codegen {
namespace {

using llvm::Align;
using llvm::Value;

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
