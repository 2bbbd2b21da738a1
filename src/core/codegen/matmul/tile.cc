// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/tile.h"

#include <algorithm>

#include "codegen/emit/loops.h"
#include "codegen/jit/module.h"
#include "codegen/matmul/amx_tile.h"
#include "codegen/matmul/element.h"

namespace npugraph::codegen {

namespace {

using llvm::Align;
using llvm::Value;

// Steps of an iteration: so many that few instructions beside multiplications are needed for counters and pointers.
constexpr int kUnroll = 8;

class TileEmitter {
 public:
  TileEmitter(llvm::Function* function, const target::Target& target, TileKind kind, const TileShape& shape)
      : arguments_(function),
        target_(target),
        b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        kind_(kind),
        shape_(shape),
        vector_(llvm::FixedVectorType::get(
            sums_integers(kind) ? static_cast<llvm::Type*>(b_.getInt32Ty()) : b_.getFloatTy(), shape.lanes)) {}

  void emit() {
    const RowPointers rows(b_, arguments_.rows, arguments_.row_stride, shape_.rows);
    rows_ = &rows;
    Value* steps = arguments_.steps;
    Values carried{arguments_.panel};
    first_row_ = carried.size();
    carried.insert(carried.end(), rows.pointers().begin(), rows.pointers().end());
    const Values initial = emit_if(
        b_, b_.CreateICmpNE(arguments_.accumulate, b_.getInt64(0)), [&] { return load_acc(); },
        [&] { return zeros(); });
    carried.insert(carried.end(), initial.begin(), initial.end());

    Value* whole = b_.CreateAnd(steps, b_.getInt64(-kUnroll));
    carried = emit_loop(b_, b_.getInt64(0), whole, kUnroll, carried,
                        [&](Value* i, const Values& values) { return iteration(i, values, kUnroll); });
    carried = emit_loop(b_, whole, steps, 1, carried,
                        [&](Value*, const Values& values) { return iteration(nullptr, values, 1); });
    store_acc({carried.end() - initial.size(), carried.end()});
    b_.CreateRetVoid();
  }

 private:
  Value* bytes(Value* pointer, Value* offset) { return b_.CreateGEP(b_.getInt8Ty(), pointer, offset); }
  Value* bytes(Value* pointer, int64_t offset) { return b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, offset); }
  int64_t panel_stride() const { return shape_.columns() * kStepBytes; }

  Values iteration(Value* i, Values values, int steps) {
    const size_t pointers = rows_->pointers().size();
    const RowPointers rows = rows_->at({values.begin() + first_row_, values.begin() + first_row_ + pointers});
    Value** acc = values.data() + first_row_ + pointers;
    if (i != nullptr) prefetch(i);
    for (int s = 0; s < steps; ++s) {
      Value* panel = bytes(values[0], s * panel_stride());
      step(load_columns(panel), rows, s * kStepBytes, acc);
    }
    values[0] = bytes(values[0], steps * panel_stride());
    const RowPointers next = rows.advanced(b_.getInt64(steps * kStepBytes));
    std::copy(next.pointers().begin(), next.pointers().end(), values.begin() + first_row_);
    return values;
  }

  bool pairs() const { return kind_ == TileKind::kBf16Pairs; }
  bool quads() const { return is_quads(kind_); }

  Values load_columns(Value* panel) {
    Values columns;
    for (int v = 0; v < shape_.vectors; ++v)
      columns.push_back(
          b_.CreateAlignedLoad(vector_, bytes(panel, v * shape_.lanes * kStepBytes), Align(shape_.lanes * kStepBytes)));
    return columns;
  }

  void step(const Values& columns, const RowPointers& rows, int64_t offset, Value** acc) {
    for (int r = 0; r < shape_.rows; ++r) {
      Value* element = b_.CreateAlignedLoad(vector_->getElementType(), rows.row(r, offset), Align(quads() ? 1 : 2));
      element = b_.CreateVectorSplat(shape_.lanes, element);
      if (kind_ == TileKind::kI8Quads)
        element = b_.CreateXor(element, b_.CreateVectorSplat(shape_.lanes, b_.getInt32(0x80808080)));
      for (int v = 0; v < shape_.vectors; ++v) {
        Value*& sum = acc[r * shape_.vectors + v];
        sum = multiplied(element, columns[v], sum);
      }
    }
  }

  Value* multiplied(Value* element, Value* column, Value* sum) {
    if (kind_ == TileKind::kU8Quads) return dot_i8_quads(b_, target_, column, element, sum);
    if (quads()) return dot_i8_quads(b_, target_, element, column, sum);
    if (kind_ == TileKind::kI16Pairs) return dot_i16_pairs(b_, target_, element, column, sum);
    return pairs() ? dot_bf16_pairs(b_, element, column, sum) : multiply_add(b_, element, column, sum, shape_.fma);
  }

  // An iteration is a part of 16 steps and prefetches the same part of the rows.
  void prefetch(Value* i) {
    constexpr int kParts = 16 / kUnroll;
    Value* stride = arguments_.prefetch_stride;
    Value* part = b_.CreateAnd(b_.CreateUDiv(i, b_.getInt64(kUnroll)), b_.getInt64(kParts - 1));
    Value* at = bytes(arguments_.prefetch, b_.CreateMul(b_.CreateLShr(i, 4), arguments_.prefetch_step));
    at = bytes(at, b_.CreateMul(part, stride));
    Value* to_next = b_.CreateMul(stride, b_.getInt64(kParts));
    for (int r = 0; r < shape_.fetched_rows; r += kParts) {
      emit_prefetch(b_, at);
      at = bytes(at, to_next);
    }
  }

  // Vector `a` of the sums, counted through rows.
  Value* acc_at(int a) {
    Value* row = bytes(arguments_.acc, b_.CreateMul(arguments_.acc_stride, b_.getInt64(a / shape_.vectors)));
    return bytes(row, a % shape_.vectors * shape_.lanes * kStepBytes);
  }
  Values load_acc() {
    Values acc;
    for (int a = 0; a < shape_.rows * shape_.vectors; ++a)
      acc.push_back(b_.CreateAlignedLoad(vector_, acc_at(a), Align(shape_.lanes * kStepBytes)));
    return acc;
  }
  Values zeros() { return Values(shape_.rows * shape_.vectors, llvm::Constant::getNullValue(vector_)); }
  void store_acc(const Values& acc) {
    for (size_t a = 0; a < acc.size(); ++a)
      b_.CreateAlignedStore(acc[a], acc_at(static_cast<int>(a)), Align(shape_.lanes * kStepBytes));
  }

  TileArguments arguments_;
  const target::Target& target_;
  llvm::IRBuilder<> b_;
  TileKind kind_;
  TileShape shape_;
  llvm::FixedVectorType* vector_;
  size_t first_row_ = 0;  // of the row pointers among the values that the loops carry: behind the pointer to the panel
  const RowPointers* rows_ = nullptr;
};

}  // namespace

llvm::FunctionType* tile_type(llvm::LLVMContext& context) { return function_type(context, "ppiiipiipii"); }

void emit_tile(llvm::Function* function, const target::Target& target, TileKind kind, const TileShape& shape) {
  if (shape.amx) return emit_amx_tile(function, kind, shape);
  TileEmitter(function, target, kind, shape).emit();
}

// Sums stay in registers, beside the vectors of a step and one broadcast. They are enough to hide the latency of
// multiply-add.
TileShape tile_shape(const target::Target& target, TileKind kind) {
  TileShape shape{.lanes = target.lanes(DType::kF32), .fma = target.fma};
  shape.amx = target.amx && kind != TileKind::kF32 && kind != TileKind::kI16Pairs;
  shape.rows = shape.amx ? kAmxRows : target.vector_registers >= 32 ? 12 : 6;
  shape.fetched_rows = shape.rows;
  return shape;
}

TileShape narrow(TileShape shape) {
  shape.vectors = 1;
  return shape;
}

}  // namespace npugraph::codegen
