// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/matvec.h"

#include <algorithm>

#include "codegen/emit/loops.h"
#include "codegen/matmul/element.h"

namespace npugraph::codegen {
namespace {

using llvm::Value;

// How far memory is prefetched ahead of the reads of all rows together. Not for one vector and f32, whose rows are long
// enough for the processor to do it by itself.
constexpr int64_t kPrefetchBytes = 8192;

class MatvecEmitter {
 public:
  MatvecEmitter(llvm::Function* function, MatvecKind kind, int vectors, const target::Target& target)
      : f_(function),
        b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        kind_(kind),
        vectors_(vectors),
        target_(target),
        lanes_(target.lanes(DType::kF32)),
        fetches_(vectors > 1 || kind != MatvecKind::kF32),
        vector_(llvm::FixedVectorType::get(is_quads(kind) ? static_cast<llvm::Type*>(b_.getInt32Ty()) : b_.getFloatTy(),
                                           lanes_)),
        matrix_(function->getArg(0)),
        row_stride_(function->getArg(1)),
        x_(function->getArg(3)),
        x_stride_(function->getArg(4)),
        k_(function->getArg(5)),
        acc_(function->getArg(6)),
        acc_stride_(b_.CreateShl(function->getArg(7), 2)) {}

  void emit_rows() {
    Value* rows = f_->getArg(2);
    row_bytes_ = times(k_, matrix_size());
    // The sums of a group of rows, a vector of each row, and one of x stay in registers. More streams gain nothing, and
    // if memory is prefetched for one vector, one stream is fastest.
    const int most = fetches_ && vectors_ == 1 ? 1 : target_.vector_registers / 4;
    const int group = std::clamp((target_.vector_registers - 3) / (vectors_ + 1), 1, most);
    sums_ = b_.CreateAlloca(vector_, b_.getInt64(group * vectors_));
    Value* whole = b_.CreateSub(rows, b_.CreateURem(rows, b_.getInt64(group)));
    emit_loop(b_, b_.getInt64(0), whole, group, [&](Value* r) { emit_group(r, group); });
    emit_loop(b_, whole, rows, 1, [&](Value* r) { emit_group(r, 1); });
    b_.CreateRetVoid();
  }

  void emit_columns() {
    constexpr int kRows = 8;
    Value* whole = b_.CreateAnd(k_, b_.getInt64(-kRows));
    emit_loop(b_, b_.getInt64(0), whole, kRows, [&](Value* k) { emit_pass(k, kRows); });
    emit_loop(b_, whole, k_, 1, [&](Value* k) { emit_pass(k, 1); });
    b_.CreateRetVoid();
  }

 private:
  Value* bytes(Value* pointer, Value* offset) { return b_.CreateGEP(b_.getInt8Ty(), pointer, offset); }
  Value* times(Value* x, int64_t factor) { return b_.CreateMul(x, b_.getInt64(factor)); }
  bool pairs() const { return kind_ == MatvecKind::kBf16Dot; }
  static bool is_quads(MatvecKind kind) { return kind == MatvecKind::kI8Dot || kind == MatvecKind::kU8Dot; }
  bool quads() const { return is_quads(kind_); }
  // Whether 128 is added to elements of the matrix.
  bool shifts() const { return kind_ == MatvecKind::kI8Dot; }
  DType matrix_type() const { return element_of(kind_); }
  DType x_type() const { return pairs() || quads() ? matrix_type() : DType::kF32; }
  int64_t matrix_size() const { return size_of(matrix_type()); }
  // Elements of a row of the matrix, or of a vector, in the form in which they are multiplied.
  Value* load(Value* from, DType dtype) {
    if (!pairs() && !quads()) return load_as_f32(b_, from, dtype, lanes_);
    return b_.CreateAlignedLoad(llvm::FixedVectorType::get(b_.getInt32Ty(), lanes_), from, llvm::Align(size_of(dtype)));
  }
  Value* load_row(Value* from) {
    Value* elements = load(from, matrix_type());
    return shifts() ? b_.CreateXor(elements, b_.CreateVectorSplat(lanes_, b_.getInt32(0x80808080))) : elements;
  }
  Value* multiplied(Value* elements, Value* x, Value* sum) {
    if (quads() && !shifts()) return dot_i8_quads(b_, target_, x, elements, sum);
    if (quads()) return dot_i8_quads(b_, target_, elements, x, sum);
    return pairs() ? dot_bf16_pairs(b_, elements, x, sum) : multiply_add(b_, elements, x, sum, target_.fma);
  }
  Value* load_one(Value* from, DType dtype) {
    return b_.CreateExtractElement(load_as_f32(b_, from, dtype, 1), b_.getInt64(0));
  }
  // Adds the product of one element of each to the sum.
  Value* multiplied_one(Value* element, Value* x, Value* sum) {
    if (!quads()) return multiply_add(b_, load_one(element, matrix_type()), load_one(x, x_type()), sum, target_.fma);
    const auto byte = [&](Value* from) { return b_.CreateAlignedLoad(b_.getInt8Ty(), from, llvm::Align(1)); };
    const auto with_sign = [&](Value* byte) { return b_.CreateSExt(byte, b_.getInt32Ty()); };
    const auto without_sign = [&](Value* byte) { return b_.CreateZExt(byte, b_.getInt32Ty()); };
    Value* product = shifts()
                         ? b_.CreateMul(without_sign(b_.CreateXor(byte(element), b_.getInt8(0x80))), with_sign(byte(x)))
                         : b_.CreateMul(with_sign(byte(element)), without_sign(byte(x)));
    return b_.CreateAdd(sum, product);
  }
  Value* sum_of_lanes(Value* lanes) {
    if (quads()) return b_.CreateAddReduce(lanes);
    auto* total = b_.CreateFAddReduce(llvm::ConstantFP::getNegativeZero(b_.getFloatTy()), lanes);
    llvm::FastMathFlags any_order;
    any_order.setAllowReassoc();
    total->setFastMathFlags(any_order);
    return total;
  }

  // Multiplies `group` rows from r on with each of the vectors.
  void emit_group(Value* r, int group) {
    const RowPointers rows(b_, bytes(matrix_, b_.CreateMul(r, row_stride_)), row_stride_, group);
    const RowPointers xs(b_, x_, x_stride_, vectors_);
    // A step of a stream that is always alone takes a whole cache line, so that each line is prefetched once. The step
    // decides which products are added behind the last whole one, so it is the same in groups of any size.
    const int vector = lanes_ * static_cast<int>(4 / size_of(x_type()));
    const int copies = fetches_ && vectors_ == 1 ? std::max(1, static_cast<int>(64 / (vector * matrix_size()))) : 1;
    const int step = vector * copies;
    const Ahead ahead = ahead_of(rows.row(0), group, step * matrix_size());
    Value* whole = b_.CreateAnd(k_, b_.getInt64(-step));

    Values carried = rows.pointers();
    carried.insert(carried.end(), xs.pointers().begin(), xs.pointers().end());
    const size_t pointers = carried.size();
    carried.push_back(ahead.begin);
    carried.insert(carried.end(), group * vectors_, llvm::Constant::getNullValue(vector_));
    carried = emit_loop(b_, b_.getInt64(0), whole, step, carried, [&](Value*, const Values& at) {
      const size_t middle = rows.pointers().size();
      const RowPointers rows_here = rows.at({at.begin(), at.begin() + middle});
      const RowPointers xs_here = xs.at({at.begin() + middle, at.begin() + pointers});
      Values sums(at.begin() + pointers + 1, at.end());
      for (int r = 0; r < group && fetches_; ++r) emit_prefetch(b_, bytes(at[pointers], times(ahead.apart, r)));
      for (int i = 0; i < copies; ++i)
        emit_step(rows_here.advanced(b_.getInt64(i * vector * matrix_size())),
                  xs_here.advanced(b_.getInt64(i * vector * size_of(x_type()))), group, sums);
      Values next = rows_here.advanced(b_.getInt64(step * matrix_size())).pointers();
      const Values next_x = xs_here.advanced(b_.getInt64(step * size_of(x_type()))).pointers();
      next.insert(next.end(), next_x.begin(), next_x.end());
      next.push_back(bytes(at[pointers], ahead.step));
      next.insert(next.end(), sums.begin(), sums.end());
      return next;
    });
    for (int i = 0; i < group * vectors_; ++i)
      b_.CreateStore(carried[pointers + 1 + i], b_.CreateConstGEP1_64(vector_, sums_, i));
    emit_totals(r, group, whole);
  }

  // The memory that is prefetched while a group is read: from `begin` on, as many places as the group has rows, `apart`
  // bytes from each other, and `step` bytes further in each step of the sums.
  struct Ahead {
    Value* begin;
    Value* apart;
    Value* step;
  };

  // Adjacent rows, and the groups behind them, are one piece of memory, which is prefetched at a fixed distance. For
  // other rows, the next group is prefetched.
  Ahead ahead_of(Value* first_row, int group, int64_t step_bytes) {
    Value* piece = b_.CreateICmpEQ(row_stride_, row_bytes_);
    return {bytes(first_row, b_.CreateSelect(piece, b_.getInt64(kPrefetchBytes), times(row_stride_, group))),
            b_.CreateSelect(piece, b_.getInt64(step_bytes), row_stride_),
            b_.CreateSelect(piece, b_.getInt64(step_bytes * group), b_.getInt64(step_bytes))};
  }

  void emit_step(const RowPointers& rows, const RowPointers& xs, int group, Values& sums) {
    Values elements;
    for (int r = 0; r < group; ++r) elements.push_back(load_row(rows.row(r)));
    for (int v = 0; v < vectors_; ++v) {
      Value* x = load(xs.row(v), x_type());
      for (int r = 0; r < group; ++r) {
        Value*& sum = sums[r * vectors_ + v];
        sum = multiplied(elements[r], x, sum);
      }
    }
  }

  // Adds up the lanes of sums_ and the products behind the last whole vector of each row.
  void emit_totals(Value* r, int group, Value* whole) {
    emit_loop(b_, b_.getInt64(0), b_.getInt64(group), 1, [&](Value* i) {
      Value* row_number = b_.CreateAdd(r, i);
      Value* row = bytes(matrix_, b_.CreateMul(row_number, row_stride_));
      emit_loop(b_, b_.getInt64(0), b_.getInt64(vectors_), 1, [&](Value* v) {
        Value* lanes = b_.CreateLoad(vector_, b_.CreateGEP(vector_, sums_, b_.CreateAdd(times(i, vectors_), v)));
        Value* total = sum_of_lanes(lanes);
        Value* x = bytes(x_, b_.CreateMul(v, x_stride_));
        const Values sum = emit_loop(b_, whole, k_, 1, {total}, [&](Value* k, const Values& before) -> Values {
          return {
              multiplied_one(bytes(row, times(k, matrix_size())), bytes(x, times(k, size_of(x_type()))), before[0])};
        });
        Value* to = bytes(bytes(acc_, b_.CreateMul(v, acc_stride_)), times(row_number, 4));
        b_.CreateAlignedStore(sum[0], to, llvm::Align(4));
      });
    });
  }

  // Adds the products of `count` rows of the matrix from k on, over all columns.
  void emit_pass(Value* k, int count) {
    Value* columns = f_->getArg(2);
    Value* whole = b_.CreateAnd(columns, b_.getInt64(-lanes_));
    const RowPointers rows(b_, bytes(matrix_, b_.CreateMul(k, row_stride_)), row_stride_, count);
    const RowPointers ahead = rows.advanced(times(row_stride_, count));
    Values carried = rows.pointers();
    carried.insert(carried.end(), ahead.pointers().begin(), ahead.pointers().end());
    const auto body = [&](int lanes) {
      return [&, lanes](Value* c, const Values& at) {
        const RowPointers here = rows.at({at.begin(), at.begin() + at.size() / 2});
        const RowPointers next = rows.at({at.begin() + at.size() / 2, at.end()});
        for (int r = 0; r < count && lanes > 1; ++r) emit_prefetch(b_, next.row(r));
        emit_columns_step(k, c, here, count, lanes);
        Values after = here.advanced(b_.getInt64(lanes * matrix_size())).pointers();
        const Values after_next = next.advanced(b_.getInt64(lanes * matrix_size())).pointers();
        after.insert(after.end(), after_next.begin(), after_next.end());
        return after;
      };
    };
    carried = emit_loop(b_, b_.getInt64(0), whole, lanes_, carried, body(lanes_));
    emit_loop(b_, whole, columns, 1, carried, body(1));
  }

  void emit_columns_step(Value* k, Value* c, const RowPointers& rows, int count, int lanes) {
    Values elements;
    for (int r = 0; r < count; ++r) elements.push_back(load_as_f32(b_, rows.row(r), matrix_type(), lanes));
    for (int v = 0; v < vectors_; ++v) {
      Value* to = bytes(bytes(acc_, b_.CreateMul(b_.getInt64(v), acc_stride_)), times(c, 4));
      Value* x = bytes(bytes(x_, b_.CreateMul(b_.getInt64(v), x_stride_)), times(k, 4));
      Value* sum = load_as_f32(b_, to, DType::kF32, lanes);
      for (int r = 0; r < count; ++r) {
        Value* factor =
            b_.CreateAlignedLoad(b_.getFloatTy(), b_.CreateConstGEP1_64(b_.getFloatTy(), x, r), llvm::Align(4));
        sum = multiply_add(b_, elements[r], b_.CreateVectorSplat(lanes, factor), sum, target_.fma);
      }
      b_.CreateAlignedStore(sum, to, llvm::Align(4));
    }
  }

  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  MatvecKind kind_;
  int vectors_;
  const target::Target& target_;
  int lanes_;
  bool fetches_;
  llvm::FixedVectorType* vector_;
  Value* matrix_;
  Value* row_stride_;
  Value* x_;
  Value* x_stride_;
  Value* k_;
  Value* acc_;
  Value* acc_stride_;  // in bytes
  Value* row_bytes_ = nullptr;
  Value* sums_ = nullptr;  // of a group, by row and vector
};

}  // namespace

DType element_of(MatvecKind kind) {
  if (kind == MatvecKind::kF32) return DType::kF32;
  if (kind == MatvecKind::kI8 || kind == MatvecKind::kI8Dot || kind == MatvecKind::kU8Dot) return DType::kI8;
  return kind == MatvecKind::kF16 ? DType::kF16 : DType::kBF16;
}

llvm::FunctionType* matvec_type(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                 {pointer, integer, integer, pointer, integer, integer, pointer, integer}, false);
}

void emit_rows_matvec(llvm::Function* function, MatvecKind kind, int vectors, const target::Target& target) {
  MatvecEmitter(function, kind, vectors, target).emit_rows();
}

void emit_columns_matvec(llvm::Function* function, MatvecKind kind, int vectors, const target::Target& target) {
  MatvecEmitter(function, kind, vectors, target).emit_columns();
}

}  // namespace npugraph::codegen
