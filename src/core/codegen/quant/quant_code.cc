// SPDX-License-Identifier: Apache-2.0
#include "codegen/quant/quant_code.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/emit/loops.h"
#include "codegen/jit/make_code.h"
#include "codegen/matmul/element.h"
#include "codegen/quant/block.h"
#include "codegen/quant/digits.h"

namespace npugraph::codegen {
namespace {

using llvm::Align;
using llvm::Value;

constexpr int64_t kPrefetchBytes = 8192;

int element_lanes(const target::Target& target) { return std::min(target.lanes(DType::kF32), 16); }

void emit_dequantize(llvm::Function* function, loop::BlockType type, const target::Target& target) {
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(function->getContext(), "entry", function));
  const loop::BlockFormat& format = loop::format_of(type);
  const int lanes = element_lanes(target);
  emit_loop(b, b.getInt64(0), function->getArg(1), 1, [&](Value* i) {
    const auto times = [&](int size) { return b.CreateMul(i, b.getInt64(size)); };
    Value* block = b.CreateGEP(b.getInt8Ty(), function->getArg(0), times(format.bytes));
    Value* to = b.CreateGEP(b.getFloatTy(), function->getArg(2), times(format.elements));
    BlockReader reader(b, target, type, block);
    for (int first = 0; first < format.elements; first += lanes) {
      b.CreateAlignedStore(reader.elements(first, lanes), b.CreateConstGEP1_64(b.getFloatTy(), to, first), Align(4));
    }
  });
  b.CreateRetVoid();
}

class QuantMatvecEmitter {
 public:
  QuantMatvecEmitter(llvm::Function* function, loop::BlockType type, int vectors, bool by_digits,
                     const target::Target& target)
      : b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        target_(target),
        type_(type),
        format_(loop::format_of(type)),
        vectors_(vectors),
        by_digits_(by_digits),
        lanes_(by_digits ? kGroup / 4 : element_lanes(target)),
        sum_type_(llvm::FixedVectorType::get(b_.getFloatTy(), lanes_)),
        matrix_(function->getArg(0)),
        row_stride_(function->getArg(1)),
        rows_(function->getArg(2)),
        x_(function->getArg(3)),
        x_stride_(function->getArg(4)),
        k_(function->getArg(5)),
        acc_(function->getArg(6)),
        acc_stride_(b_.CreateShl(function->getArg(7), 2)) {}

  void emit() {
    blocks_ = b_.CreateUDiv(k_, b_.getInt64(format_.elements));
    // The sums of a group of rows stay in registers, beside those that reading a block needs.
    const int group = std::clamp((target_.vector_registers - 8) / (vectors_ + 1), 1, 4);
    Value* whole = b_.CreateSub(rows_, b_.CreateURem(rows_, b_.getInt64(group)));
    emit_loop(b_, b_.getInt64(0), whole, group, [&](Value* r) { emit_group(r, group); });
    if (group > 1) emit_loop(b_, whole, rows_, 1, [&](Value* r) { emit_group(r, 1); });
    b_.CreateRetVoid();
  }

 private:
  Value* bytes(Value* pointer, Value* offset) { return b_.CreateGEP(b_.getInt8Ty(), pointer, offset); }
  Value* times(Value* x, int64_t factor) { return b_.CreateMul(x, b_.getInt64(factor)); }
  Value* vector_at(int v) { return bytes(x_, times(x_stride_, v)); }

  // Rows are adjacent in memory, so a group reads one piece of it, and the next groups' pieces are behind it.
  // Prefetches a share of those for each block of this group.
  void prefetch(Value* first_row, Value* block, int group) {
    const int share = group * format_.bytes;
    Value* ahead = bytes(first_row, b_.CreateAdd(times(block, share), b_.getInt64(kPrefetchBytes)));
    for (int line = 0; line < share; line += 64) emit_prefetch(b_, bytes(ahead, b_.getInt64(line)));
  }

  void emit_group(Value* r, int group) {
    Values rows;
    for (int i = 0; i < group; ++i)
      rows.push_back(bytes(matrix_, b_.CreateMul(b_.CreateAdd(r, b_.getInt64(i)), row_stride_)));
    const Values zeros(static_cast<size_t>(group * vectors_), llvm::Constant::getNullValue(sum_type_));
    const Values sums = emit_loop(b_, b_.getInt64(0), blocks_, 1, zeros, [&](Value* i, const Values& before) {
      Value* offset = times(i, format_.bytes);
      prefetch(rows.front(), i, group);
      Values after = before;
      std::vector<BlockReader> readers;
      for (Value* row : rows) readers.emplace_back(b_, target_, type_, bytes(row, offset));
      if (by_digits_)
        add_digits(i, readers, after);
      else
        add_elements(i, readers, after);
      return after;
    });
    llvm::FastMathFlags any_order;
    any_order.setAllowReassoc();
    for (int i = 0; i < group; ++i) {
      for (int v = 0; v < vectors_; ++v) {
        auto* total = b_.CreateFAddReduce(llvm::ConstantFP::getNegativeZero(b_.getFloatTy()),
                                          sums[static_cast<size_t>(i * vectors_ + v)]);
        total->setFastMathFlags(any_order);
        Value* to = bytes(bytes(acc_, times(acc_stride_, v)), b_.CreateShl(b_.CreateAdd(r, b_.getInt64(i)), 2));
        b_.CreateAlignedStore(total, to, Align(4));
      }
    }
  }

  // Sums are by row, then by vector.
  void add_elements(Value* block, std::vector<BlockReader>& rows, Values& sums) {
    for (int first = 0; first < format_.elements; first += lanes_) {
      Value* at = b_.CreateAdd(times(block, format_.elements * 4), b_.getInt64(first * 4));
      Values x;
      for (int v = 0; v < vectors_; ++v)
        x.push_back(b_.CreateAlignedLoad(sum_type_, bytes(vector_at(v), at), Align(4)));
      auto sum = sums.begin();
      for (BlockReader& row : rows) {
        Value* elements = row.elements(first, lanes_);
        for (Value* factor : x) {
          *sum = multiply_add(b_, elements, factor, *sum, target_.fma);
          ++sum;
        }
      }
    }
  }

  Value* as_float(Value* words) { return b_.CreateSIToFP(words, sum_type_); }

  // A group of a vector, in the form that all rows use.
  struct Group {
    Value* digits;
    Value* scale;
    Value* start;  // of the sums of products; compensates for the zero_code of unsigned codes
    Value* sums;   // of elements, for the offsets
  };

  Group group_of(int v, Value* number) {
    const DigitLayout layout = digit_layout(type_, 1);
    Value* from = bytes(vector_at(v), times(number, layout.bytes()));
    const auto load = [&](llvm::Type* type, int64_t at) {
      return b_.CreateAlignedLoad(type, b_.CreateConstGEP1_64(b_.getInt8Ty(), from, at), Align(4));
    };
    auto* words = llvm::FixedVectorType::get(b_.getInt32Ty(), kGroup / 4);
    llvm::Constant* none = llvm::Constant::getNullValue(words);
    Group group{.digits = load(llvm::FixedVectorType::get(b_.getInt8Ty(), kGroup), layout.digit(0)),
                .scale = splat(b_, load(b_.getFloatTy(), layout.scale()), lanes_),
                .start = none,
                .sums = nullptr};
    if (layout.starts > 0) group.start = load(words, layout.start(0));
    if (!format_.has_offsets) return group;
    Value* total = dot_i8_quads(b_, target_, splat(b_, b_.getInt8(1), kGroup), group.digits, none);
    group.sums = b_.CreateFMul(as_float(total), group.scale);
    return group;
  }

  void add_digits(Value* block, std::vector<BlockReader>& rows, Values& sums) {
    for (int first = 0; first < format_.elements; first += kGroup) {
      Value* number = b_.CreateAdd(times(block, format_.elements / kGroup), b_.getInt64(first / kGroup));
      std::vector<Group> groups;
      for (int v = 0; v < vectors_; ++v) groups.push_back(group_of(v, number));
      auto sum = sums.begin();
      for (BlockReader& row : rows) {
        Value* codes = row.codes(first);
        Value* scales = row.scales_of_quads(first);
        for (const Group& group : groups) {
          Value* products = as_float(dot_i8_quads(b_, target_, codes, group.digits, group.start));
          *sum = multiply_add(b_, products, b_.CreateFMul(scales, group.scale), *sum, target_.fma);
          if (format_.has_offsets) *sum = multiply_add(b_, row.offsets_of_quads(first), group.sums, *sum, target_.fma);
          ++sum;
        }
      }
    }
  }

  llvm::IRBuilder<> b_;
  const target::Target& target_;
  loop::BlockType type_;
  const loop::BlockFormat& format_;
  int vectors_;
  bool by_digits_;
  int lanes_;
  llvm::FixedVectorType* sum_type_;
  Value* matrix_;
  Value* row_stride_;
  Value* rows_;
  Value* x_;
  Value* x_stride_;
  Value* k_;
  Value* acc_;
  Value* acc_stride_;  // in bytes
  Value* blocks_ = nullptr;
};

}  // namespace

DequantizeFunction* dequantize_code(const target::Target& target, loop::BlockType type) {
  const MachineCode& code =
      stored_code(target, cat("dequantize ", loop::format_of(type).name), [&](llvm::Module& module) {
        llvm::LLVMContext& context = module.getContext();
        llvm::Type* pointer = llvm::PointerType::getUnqual(context);
        auto* function_type = llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                                      {pointer, llvm::Type::getInt64Ty(context), pointer}, false);
        emit_dequantize(add_function(module, target, "dequantize", function_type), type, target);
      });
  return code.function<DequantizeFunction>("dequantize");
}

RowsMatvecFunction* quant_matvec_code(const target::Target& target, loop::BlockType type, int vectors, bool by_digits) {
  const std::string name = cat("quant matvec ", loop::format_of(type).name, " ", vectors, by_digits ? " digits" : "");
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    llvm::Function* function = add_function(module, target, "matvec", matvec_type(module.getContext()));
    QuantMatvecEmitter(function, type, vectors, by_digits, target).emit();
  });
  return code.function<RowsMatvecFunction>("matvec");
}

}  // namespace npugraph::codegen
