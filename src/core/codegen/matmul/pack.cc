// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "codegen/emit/loops.h"
#include "codegen/matmul/element.h"
#include "codegen/matmul/tile.h"

namespace npugraph::codegen {
namespace {

using llvm::Align;
using llvm::Value;

// Every second run of `run` elements of x, then of y, beginning at run `first` of each.
Value* take_runs(llvm::IRBuilderBase& b, Value* x, Value* y, int lanes, int run, int first) {
  llvm::SmallVector<int> mask;
  for (const int base : {0, lanes}) {
    for (int at = first * run; at < lanes; at += 2 * run)
      for (int e = 0; e < run; ++e) mask.push_back(base + at + e);
  }
  return b.CreateShuffleVector(x, y, mask);
}

// Runs of `run` elements of x and y in turn, from the lower or upper half of every 128 bits.
Value* unpack(llvm::IRBuilderBase& b, Value* x, Value* y, int lanes, int run, bool upper) {
  llvm::SmallVector<int> mask;
  for (int block = 0; block < lanes; block += 4) {
    for (int half = 0; half < 2; half += run) {
      for (const int base : {0, lanes})
        for (int e = 0; e < run; ++e) mask.push_back(base + block + (upper ? 2 : 0) + half + e);
    }
  }
  return b.CreateShuffleVector(x, y, mask);
}

// The transpose of a matrix of 128-bit blocks, one row per vector.
Values transpose_blocks(llvm::IRBuilderBase& b, Values rows, int lanes) {
  const int blocks = static_cast<int>(rows.size());
  if (blocks == 1) return rows;
  Values even, odd;
  for (int i = 0; i < blocks; i += 2) {
    even.push_back(take_runs(b, rows[i], rows[i + 1], lanes, 4, 0));
    odd.push_back(take_runs(b, rows[i], rows[i + 1], lanes, 4, 1));
  }
  even = transpose_blocks(b, even, lanes);
  odd = transpose_blocks(b, odd, lanes);
  Values columns;
  for (size_t i = 0; i < even.size(); ++i) {
    columns.push_back(even[i]);
    columns.push_back(odd[i]);
  }
  return columns;
}

// The transpose of `lanes` vectors of as many 32-bit elements.
Values transpose_vectors(llvm::IRBuilderBase& b, const Values& rows) {
  const int lanes = static_cast<int>(rows.size());
  Values columns(lanes);
  std::vector<Values> quads(4);  // by column within a block, then by group of four rows
  for (int g = 0; g < lanes; g += 4) {
    Values pairs;  // rows 0 1 low, 0 1 high, 2 3 low, 2 3 high
    for (int r = g; r < g + 4; r += 2)
      for (const bool upper : {false, true}) pairs.push_back(unpack(b, rows[r], rows[r + 1], lanes, 1, upper));
    for (int c = 0; c < 4; ++c) quads[c].push_back(unpack(b, pairs[c / 2], pairs[c / 2 + 2], lanes, 2, c % 2 == 1));
  }
  for (int c = 0; c < 4; ++c) {
    const Values of_blocks = transpose_blocks(b, quads[c], lanes);
    for (int block = 0; block < lanes / 4; ++block) columns[4 * block + c] = of_blocks[block];
  }
  return columns;
}

class Bytes {
 public:
  explicit Bytes(llvm::IRBuilderBase& b) : b_(b) {}
  Value* at(Value* pointer, Value* offset) { return b_.CreateGEP(b_.getInt8Ty(), pointer, offset); }
  Value* times(Value* x, int64_t factor) { return b_.CreateMul(x, b_.getInt64(factor)); }

 private:
  llvm::IRBuilderBase& b_;
};

}  // namespace

llvm::FunctionType* interleave_type(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, integer, integer, pointer}, false);
}

llvm::FunctionType* transpose_type(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, integer, integer, integer, pointer, integer},
                                 false);
}

void emit_interleave(llvm::Function* f, TileKind kind, DType from_type, const TileShape& shape) {
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(f->getContext(), "entry", f));
  Bytes bytes(b);
  const bool pairs = kind == TileKind::kBf16Pairs;
  auto* halves = llvm::FixedVectorType::get(b.getInt16Ty(), shape.lanes);
  const int64_t vector_bytes = shape.lanes * size_of(from_type);
  llvm::SmallVector<int> by_turns;
  for (int i = 0; i < shape.lanes; ++i) by_turns.append({i, shape.lanes + i});
  Value* two_strides = b.CreateShl(f->getArg(1), 1);
  const Values start{f->getArg(0), f->getArg(3)};
  emit_loop(b, b.getInt64(0), f->getArg(2), 1, start, [&](Value*, const Values& at) -> Values {
    for (int v = 0; v < shape.vectors; ++v) {
      Value* from = bytes.at(at[0], b.getInt64(v * vector_bytes));
      const auto half = [&](Value* at) { return b.CreateAlignedLoad(halves, at, Align(2)); };
      Value* row = pairs ? b.CreateShuffleVector(half(from), half(bytes.at(from, f->getArg(1))), by_turns)
                         : load_as_f32(b, from, from_type, shape.lanes);
      b.CreateAlignedStore(row, bytes.at(at[1], b.getInt64(v * shape.lanes * 4)), Align(4 * shape.lanes));
    }
    return {bytes.at(at[0], pairs ? two_strides : f->getArg(1)), bytes.at(at[1], b.getInt64(shape.columns() * 4))};
  });
  b.CreateRetVoid();
}

void emit_transpose(llvm::Function* f, const TileShape& shape) {
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(f->getContext(), "entry", f));
  Bytes bytes(b);
  auto* vector = llvm::FixedVectorType::get(b.getFloatTy(), shape.lanes);
  Value* last = b.CreateSub(f->getArg(2), b.getInt64(1));
  emit_loop(b, b.getInt64(0), f->getArg(2), shape.lanes, [&](Value* r) {
    Values rows;
    for (int i = 0; i < shape.lanes; ++i) {
      Value* row = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b.CreateAdd(r, b.getInt64(i)), last);
      rows.push_back(bytes.at(f->getArg(0), b.CreateMul(row, f->getArg(1))));
    }
    emit_loop(b, b.getInt64(0), f->getArg(3), shape.lanes, [&](Value* c) {
      Values loaded;
      for (Value* row : rows) loaded.push_back(b.CreateAlignedLoad(vector, bytes.at(row, bytes.times(c, 4)), Align(2)));
      Value* to = bytes.at(bytes.at(f->getArg(4), b.CreateMul(c, f->getArg(5))), bytes.times(r, 4));
      for (Value* column : transpose_vectors(b, loaded)) {
        b.CreateAlignedStore(column, to, Align(4));
        to = bytes.at(to, f->getArg(5));
      }
    });
  });
  b.CreateRetVoid();
}

void emit_copy_tile_rows(llvm::Function* f, const TileShape& shape) {
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(f->getContext(), "entry", f));
  Bytes bytes(b);
  auto* line = llvm::FixedVectorType::get(b.getInt32Ty(), kCutSteps);
  Value* row_bytes = bytes.times(f->getArg(3), kCutBytes);
  Value* last = b.CreateSub(f->getArg(2), b.getInt64(1));
  constexpr int64_t kAtOnce = 4;
  Value* whole = b.CreateAnd(f->getArg(3), b.getInt64(-kAtOnce));
  emit_loop(b, b.getInt64(0), b.getInt64(shape.rows), 1, [&](Value* r) {
    Value* row = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, r, last);
    Value* from = bytes.at(f->getArg(0), b.CreateMul(row, f->getArg(1)));
    Value* to = bytes.at(f->getArg(4), b.CreateMul(r, row_bytes));
    const auto copy = [&](int64_t count) {
      return [&, count](Value* cut) {
        Values lines;
        Value* at = bytes.times(cut, kCutBytes);
        for (int64_t i = 0; i < count; ++i)
          lines.push_back(b.CreateAlignedLoad(line, bytes.at(bytes.at(from, at), b.getInt64(i * kCutBytes)), Align(1)));
        for (int64_t i = 0; i < count; ++i)
          b.CreateAlignedStore(lines[i], bytes.at(bytes.at(to, at), b.getInt64(i * kCutBytes)), Align(kCutBytes));
      };
    };
    emit_loop(b, b.getInt64(0), whole, kAtOnce, copy(kAtOnce));
    emit_loop(b, whole, f->getArg(3), 1, copy(1));
  });
  b.CreateRetVoid();
}

void emit_widen(llvm::Function* function, DType from, DType to, int lanes) {
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(function->getContext(), "entry", function));
  const auto widened = [&](Value* at, int count) -> Value* {
    auto* words = llvm::FixedVectorType::get(b.getInt16Ty(), count);
    if (to == DType::kI16) {
      Value* bytes = b.CreateAlignedLoad(llvm::FixedVectorType::get(b.getInt8Ty(), count), at, Align(1));
      return from == DType::kU8 ? b.CreateZExt(bytes, words) : b.CreateSExt(bytes, words);
    }
    Value* values = load_as_f32(b, at, from, count);
    if (to == DType::kF32) return values;
    Value* bits = b.CreateBitCast(values, llvm::FixedVectorType::get(b.getInt32Ty(), count));
    return b.CreateTrunc(b.CreateLShr(bits, 16), words);
  };
  const auto widen = [&](Value* i, int count) {
    const auto at = [&](int argument, DType dtype) {
      return b.CreateGEP(b.getInt8Ty(), function->getArg(argument), b.CreateMul(i, b.getInt64(size_of(dtype))));
    };
    b.CreateAlignedStore(widened(at(0, from), count), at(2, to), Align(size_of(to)));
  };
  Value* begin = b.getInt64(0);
  for (const int at_once : {4 * lanes, lanes, 1}) {
    Value* end = b.CreateAnd(function->getArg(1), b.getInt64(-at_once));
    emit_loop(b, begin, end, at_once, [&](Value* i) { widen(i, at_once); });
    begin = end;
  }
  b.CreateRetVoid();
}

}  // namespace npugraph::codegen
