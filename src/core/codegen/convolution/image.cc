// SPDX-License-Identifier: Apache-2.0
#include "codegen/convolution/image.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "codegen/emit/loops.h"
#include "codegen/jit/make_code.h"
#include "codegen/matmul/copy.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {

namespace {

// Index of the first of the places x, x + step, .. that is at least 0, or at least `size`; `count` if none is.
int64_t first_inside(int64_t x, int64_t step, int64_t count) {
  return std::clamp<int64_t>(x >= 0 ? 0 : divide_up(-x, step), 0, count);
}
int64_t first_beyond(int64_t x, int64_t size, int64_t step, int64_t count) {
  return first_inside(x - size, step, count);
}

}  // namespace

Pixels take_pixels(int64_t& item, const std::array<int64_t, 2>& out, const std::array<int64_t, 2>& piece) {
  Pixels taken;
  for (const size_t d : {1, 0}) {
    const int64_t pieces = divide_up(out[d], piece[d]);
    taken.first[d] = item % pieces * piece[d];
    taken.size[d] = std::min(piece[d], out[d] - taken.first[d]);
    item /= pieces;
  }
  return taken;
}

RowCopy::RowCopy(const Image& image, DType dtype, int64_t x, int64_t count, DType to_type, CopyRowsFunction* code)
    : image_(image), dtype_(dtype), to_type_(to_type), code_(code), count_(count) {
  const int64_t step = image.step[1];
  begin_ = first_inside(x, step, count);
  end_ = std::max(first_beyond(x, image.size[1], step, count), begin_);
  first_ = (x + begin_ * step) * image.strides[2];
  stride_ = step * image.strides[2];
  if (image.strides[2] != size_of(dtype)) code_ = nullptr;
}

void RowCopy::copy(const char* channel, int64_t y, int64_t y_step, int64_t rows, char* to, int64_t to_stride) const {
  const int64_t begin = first_inside(y, y_step, rows), row_bytes = count_ * size_of(to_type_);
  const int64_t end = begin_ == end_ ? begin : std::max(first_beyond(y, image_.size[0], y_step, rows), begin);
  for (int64_t r = 0; r < begin; ++r) std::memset(to + r * to_stride, 0, row_bytes);
  for (int64_t r = end; r < rows; ++r) std::memset(to + r * to_stride, 0, row_bytes);
  const char* from = channel + (y + begin * y_step) * image_.strides[1] + first_;
  const int64_t from_stride = y_step * image_.strides[1];
  if (code_ != nullptr)
    return code_(from, from_stride, end - begin, begin_, end_, count_, to + begin * to_stride, to_stride);
  for (int64_t r = begin; r < end; ++r, from += from_stride) copy_row(from, to + r * to_stride);
}

void RowCopy::copy_row(const char* from, char* to) const {
  const int64_t size = size_of(to_type_);
  std::memset(to, 0, begin_ * size);
  std::memset(to + end_ * size, 0, (count_ - end_) * size);
  copy_elements(from, dtype_, stride_, end_ - begin_, to + begin_ * size, to_type_, end_ - begin_);
}

namespace {

using llvm::Align;
using llvm::Value;

class CopyEmitter {
 public:
  CopyEmitter(llvm::Function* function, DType from_type, DType to_type, int lanes, int64_t step)
      : f_(function),
        b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        from_type_(from_type),
        size_(size_of(from_type)),
        widens_(from_type != to_type),
        lanes_(lanes),
        step_(static_cast<int>(step)),
        vector_(llvm::FixedVectorType::get(size_ == 4 ? b_.getInt32Ty() : b_.getInt16Ty(), lanes)) {}

  void emit() {
    emit_loop(b_, b_.getInt64(0), f_->getArg(5), lanes_, [&](Value* first) {
      masks_.clear();
      for (int part = 0; part < step_; ++part) masks_.push_back(inside(first, part));
      Value* stored = before(first, f_->getArg(5), 0, 1);
      Value* from = at(f_->getArg(0), b_.CreateMul(b_.CreateSub(first, f_->getArg(3)), b_.getInt64(size_ * step_)));
      Value* to = at(f_->getArg(6), b_.CreateMul(first, b_.getInt64(widens_ ? 4 : size_)));
      emit_loop(b_, b_.getInt64(0), f_->getArg(2), 1, {from, to}, [&](Value*, const Values& row) -> Values {
        b_.CreateMaskedStore(load(row[0]), row[1], Align(2), stored);
        return {at(row[0], f_->getArg(1)), at(row[1], f_->getArg(7))};
      });
    });
    b_.CreateRetVoid();
  }

 private:
  Value* at(Value* pointer, Value* bytes) { return b_.CreateGEP(b_.getInt8Ty(), pointer, bytes); }

  // Mask of the lanes whose element first + (part * lanes + lane) / step is below `end`.
  Value* before(Value* first, Value* end, int part, int step) {
    llvm::SmallVector<llvm::Constant*> lanes;
    for (int lane = 0; lane < lanes_; ++lane) lanes.push_back(b_.getInt64(part * lanes_ + lane));
    Value* left = b_.CreateMul(b_.CreateSub(end, first), b_.getInt64(step));
    return b_.CreateICmpSLT(llvm::ConstantVector::get(lanes), b_.CreateVectorSplat(lanes_, left));
  }

  // Mask of the lanes that are read from one part of the source for the vector at `first`; none is behind the last
  // pixel.
  Value* inside(Value* first, int part) {
    Value* not_before = b_.CreateNot(before(first, f_->getArg(3), part, step_));
    llvm::SmallVector<llvm::Constant*> used;
    for (int lane = 0; lane < lanes_; ++lane) used.push_back(b_.getInt1((part * lanes_ + lane) % step_ == 0));
    Value* mask = b_.CreateAnd(not_before, before(first, f_->getArg(4), part, step_));
    return b_.CreateAnd(mask, llvm::ConstantVector::get(used));
  }

  Value* load(Value* from) {
    Values parts;
    for (int part = 0; part < step_; ++part)
      parts.push_back(b_.CreateMaskedLoad(vector_, at(from, b_.getInt64(part * lanes_ * size_)), Align(2), masks_[part],
                                          llvm::Constant::getNullValue(vector_)));
    Value* pixels = parts[0];
    if (step_ == 2) {
      llvm::SmallVector<int> even;
      for (int lane = 0; lane < lanes_; ++lane) even.push_back(2 * lane);
      pixels = b_.CreateShuffleVector(parts[0], parts[1], even);
    }
    if (!widens_) return pixels;
    if (from_type_ == DType::kF16)
      return b_.CreateFPExt(b_.CreateBitCast(pixels, llvm::FixedVectorType::get(b_.getHalfTy(), lanes_)),
                            llvm::FixedVectorType::get(b_.getFloatTy(), lanes_));
    return b_.CreateShl(b_.CreateZExt(pixels, llvm::FixedVectorType::get(b_.getInt32Ty(), lanes_)), 16);
  }

  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  DType from_type_;
  int64_t size_;  // of an element that is read
  bool widens_;   // to f32
  int lanes_, step_;
  llvm::FixedVectorType* vector_;
  Values masks_;
};

}  // namespace

CopyRowsFunction* copy_rows_code(const target::Target& target, DType from_type, DType to_type, int64_t step) {
  const bool known = (from_type == DType::kF32 && to_type == DType::kF32) || from_type == DType::kBF16 ||
                     (from_type == DType::kF16 && to_type == DType::kF32 && target.f16c);
  // Without masks, copies in pieces are faster.
  if (!known || step > 2 || target.lanes(DType::kF32) < 16) return nullptr;
  const std::string name = cat("copy rows ", name_of(from_type), " ", name_of(to_type), " ", step);
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    llvm::Type* pointer = llvm::PointerType::getUnqual(module.getContext());
    llvm::Type* integer = llvm::Type::getInt64Ty(module.getContext());
    auto* type =
        llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()),
                                {pointer, integer, integer, integer, integer, integer, pointer, integer}, false);
    CopyEmitter(add_function(module, target, "copy", type), from_type, to_type, target.lanes(DType::kF32), step).emit();
  });
  return code.function<CopyRowsFunction>("copy");
}

}  // namespace npugraph::codegen
