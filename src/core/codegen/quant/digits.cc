// SPDX-License-Identifier: Apache-2.0
#include "codegen/quant/digits.h"

#include <numeric>
#include <vector>

#include "base/error.h"
#include "codegen/emit/loops.h"
#include "codegen/emit/vectors.h"
#include "codegen/jit/make_code.h"
#include "codegen/matmul/element.h"

namespace npugraph::codegen {
namespace {

using llvm::Align;
using llvm::Value;

constexpr int kQuads = kGroup / 4;

class DigitsEmitter {
 public:
  DigitsEmitter(llvm::Function* function, const target::Target& target, const loop::BlockFormat& format,
                const DigitLayout& layout)
      : b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        target_(target),
        format_(format),
        layout_(layout),
        f_(function),
        words_(llvm::FixedVectorType::get(b_.getInt32Ty(), kGroup)),
        floats_(llvm::FixedVectorType::get(b_.getFloatTy(), kGroup)) {}

  void emit() {
    emit_loop(b_, b_.getInt64(0), f_->getArg(1), 1, [&](Value* group) {
      Value* from = b_.CreateGEP(floats_, f_->getArg(0), group);
      to_ = b_.CreateGEP(b_.getInt8Ty(), f_->getArg(2), b_.CreateMul(group, b_.getInt64(layout_.bytes())));
      emit_group(b_.CreateAlignedLoad(floats_, from, Align(4)));
    });
    b_.CreateRetVoid();
  }

 private:
  Value* whole(int64_t number) { return llvm::ConstantInt::get(words_, static_cast<uint64_t>(number)); }
  Value* at(int64_t byte) { return b_.CreateConstGEP1_64(b_.getInt8Ty(), to_, byte); }

  // The elements as i32. Sets `scale`.
  Value* rounded(Value* x, Value*& scale) {
    const double limit = layout_.digits == 1 ? 127 : 127 * 65536;
    // Compared as integers, a NaN has the largest magnitude of all.
    Value* magnitude = b_.CreateIntMaxReduce(b_.CreateAnd(b_.CreateBitCast(x, words_), whole(0x7fffffff)));
    Value* most = b_.CreateBitCast(magnitude, b_.getFloatTy());
    const auto number = [&](double value) { return llvm::ConstantFP::get(b_.getFloatTy(), value); };
    // A group of numbers so small that the inverse overflows counts as zeros.
    Value* vanishes = b_.CreateFCmpOLT(most, number(0x1p-96));
    Value* inverse = b_.CreateSelect(vanishes, number(0), b_.CreateFDiv(number(limit), most));
    scale = b_.CreateFDiv(most, number(limit));
    Value* scaled = b_.CreateFMul(x, b_.CreateVectorSplat(kGroup, inverse));
    return b_.CreateFPToSI(b_.CreateUnaryIntrinsic(llvm::Intrinsic::nearbyint, scaled), words_);
  }

  // Removes the lowest digit from the numbers and returns it.
  Value* take_digit(Value*& number) {
    Value* digit = b_.CreateAShr(b_.CreateShl(number, whole(24)), whole(24));
    number = b_.CreateAShr(b_.CreateSub(number, digit), whole(8));
    return digit;
  }

  void store_twice(Value* half, int64_t byte) {
    std::vector<int> twice(2 * static_cast<size_t>(lanes_of(half)));
    for (size_t i = 0; i < twice.size(); ++i) twice[i] = static_cast<int>(i) % lanes_of(half);
    b_.CreateAlignedStore(b_.CreateShuffleVector(half, twice), at(byte), Align(4));
  }

  void emit_group(Value* x) {
    Value* scale = nullptr;
    Value* number = rounded(x, scale);
    Values digits(static_cast<size_t>(layout_.digits));
    for (size_t i = digits.size(); i-- > 1;) digits[i] = take_digit(number);
    digits[0] = number;
    Values sums;  // of quads
    for (size_t i = 0; i < digits.size(); ++i) {
      Value* bytes = b_.CreateTrunc(digits[i], llvm::FixedVectorType::get(b_.getInt8Ty(), kGroup));
      store_twice(bytes, layout_.digit(static_cast<int>(i)));
      Value* none = llvm::Constant::getNullValue(llvm::FixedVectorType::get(b_.getInt32Ty(), kQuads));
      sums.push_back(dot_i8_quads(b_, target_, splat(b_, b_.getInt8(1), kGroup), bytes, none));
    }
    Value* of_highest = sums[0];
    Value* total = combined(sums, 0);
    if (layout_.starts == 2) store_start(of_highest, 0);
    if (layout_.starts > 0) store_start(layout_.starts == 2 ? combined(sums, 1) : total, layout_.starts - 1);
    b_.CreateAlignedStore(scale, at(layout_.scale()), Align(4));
    Value* sum = b_.CreateFMul(b_.CreateSIToFP(b_.CreateAddReduce(total), b_.getFloatTy()), scale);
    b_.CreateAlignedStore(sum, at(layout_.sum()), Align(4));
  }

  // Sums of digits from `first` on as one number.
  Value* combined(const Values& sums, size_t first) {
    Value* total = sums[first];
    for (size_t i = first + 1; i < sums.size(); ++i) total = b_.CreateAdd(b_.CreateShl(total, 8), sums[i]);
    return total;
  }

  void store_start(Value* sum, int number) {
    Value* factor = llvm::ConstantInt::getSigned(sum->getType(), -format_.zero_code);
    store_twice(b_.CreateMul(sum, factor), layout_.start(number));
  }

  llvm::IRBuilder<> b_;
  const target::Target& target_;
  const loop::BlockFormat& format_;
  DigitLayout layout_;
  llvm::Function* f_;
  llvm::FixedVectorType* words_;
  llvm::FixedVectorType* floats_;
  Value* to_ = nullptr;
};

}  // namespace

DigitLayout digit_layout(loop::BlockType type, int digits) {
  const loop::BlockFormat& format = loop::format_of(type);
  return {.digits = digits, .starts = format.zero_code == 0 ? 0 : format.bits == 8 && digits > 1 ? 2 : 1};
}

DigitsFunction* digits_code(const target::Target& target, loop::BlockType type, int digits) {
  const loop::BlockFormat& format = loop::format_of(type);
  const DigitLayout layout = digit_layout(type, digits);
  const std::string name = cat("digits ", digits, " starts ", layout.starts, " zero ", format.zero_code);
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    llvm::LLVMContext& context = module.getContext();
    llvm::Type* pointer = llvm::PointerType::getUnqual(context);
    auto* type_of = llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                            {pointer, llvm::Type::getInt64Ty(context), pointer}, false);
    DigitsEmitter(add_function(module, target, "digits", type_of), target, format, layout).emit();
  });
  return code.function<DigitsFunction>("digits");
}

}  // namespace npugraph::codegen
