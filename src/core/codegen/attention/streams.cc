// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "codegen/attention/piece.h"
#include "codegen/emit/casts.h"
#include "codegen/emit/loops.h"
#include "codegen/emit/vectors.h"
#include "codegen/jit/make_code.h"
#include "codegen/matmul/element.h"

namespace npugraph::codegen {
namespace {

using llvm::Value;

// How far memory is prefetched ahead of the rows that are read.
constexpr int64_t kPrefetchBytes = 8192;

class StreamEmitter {
 public:
  StreamEmitter(llvm::Function* function, MatvecKind kind, int queries, const target::Target& target)
      : f_(function),
        b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        kind_(kind),
        queries_(queries),
        target_(target),
        lanes_(target.lanes(DType::kF32)) {}

 protected:
  Value* arg(unsigned i) { return f_->getArg(i); }
  bool dot() const { return kind_ == MatvecKind::kBf16Dot; }
  // Type of the elements of keys or values.
  DType row_type() const { return element_of(kind_); }
  Value* bytes(Value* pointer, Value* offset) { return b_.CreateGEP(b_.getInt8Ty(), pointer, offset); }
  Value* times(Value* x, int64_t factor) { return b_.CreateMul(x, b_.getInt64(static_cast<uint64_t>(factor))); }
  // Bytes from a row of `size` elements to the one that is prefetched meanwhile.
  Value* ahead(Value* size, Value* stride) {
    Value* row = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, times(size, size_of(row_type())), b_.getInt64(64));
    return b_.CreateMul(stride, b_.CreateUDiv(b_.getInt64(kPrefetchBytes), row));
  }
  // `count` elements, widened to f32 except for kBf16Dot. Those that are not in `mask` (may be null) are zero.
  Value* load(Value* from, DType dtype, int count, Value* mask) {
    Value* zero = llvm::Constant::getNullValue(in_lanes(memory_type(b_.getContext(), dtype), count));
    Value* x = emit_load(b_, dtype, {Place::Kind::kUp, from, b_.getInt64(0)}, count, mask, zero);
    return dot() || dtype == DType::kF32 ? x : widen_float(b_, target_, x, dtype);
  }

  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  MatvecKind kind_;
  int queries_;
  const target::Target& target_;
  int lanes_;
};

// Works on blocks of as many keys as a vector has lanes. Each key has a vector of sums. The vectors of a block are
// added up across lanes together, into one vector with a lane for each key.
class ScoresEmitter : StreamEmitter {
 public:
  ScoresEmitter(llvm::Function* function, MatvecKind kind, int queries, const target::Target& target)
      : StreamEmitter(function, kind, queries, target), step_(dot() ? 2 * lanes_ : lanes_) {}

  void emit() {
    Value* stride = arg(1);
    Value* count = arg(2);
    // A last block that is not whole starts earlier and computes some scores again.
    Value* last = b_.CreateSub(count, b_.getInt64(static_cast<uint64_t>(lanes_)));
    ahead_ = ahead(arg(5), stride);
    emit_loop(b_, b_.getInt64(0), count, lanes_, [&](Value* begin) {
      Value* key = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, begin, last);
      const RowPointers rows(b_, bytes(arg(0), b_.CreateMul(key, stride)), stride, lanes_);
      fetch_ahead(rows);
      for (int q = 0; q < queries_; ++q) {
        Value* scores = b_.CreateGEP(b_.getFloatTy(), arg(6), b_.CreateAdd(key, times(arg(7), q)));
        b_.CreateAlignedStore(score(rows, q), scores, llvm::Align(4));
      }
    });
    b_.CreateRetVoid();
  }

 private:
  DType query_type() const { return dot() ? DType::kBF16 : DType::kF32; }

  void fetch_ahead(const RowPointers& rows) {
    const RowPointers later = rows.advanced(ahead_);
    emit_loop(b_, b_.getInt64(0), times(arg(5), size_of(row_type())), 64, [&](Value* offset) {
      const RowPointers line = later.advanced(offset);
      for (int r = 0; r < lanes_; ++r) emit_prefetch(b_, line.row(r));
    });
  }

  Values add_step(const RowPointers& rows, Value* query, Value* mask, Values sums) {
    Value* x = load(query, query_type(), step_, mask);
    for (int r = 0; r < lanes_; ++r) {
      Value* key = load(rows.row(r), row_type(), step_, mask);
      sums[r] = dot() ? dot_bf16_pairs(b_, key, x, sums[r]) : multiply_add(b_, key, x, sums[r], target_.fma);
    }
    return sums;
  }

  Value* score(const RowPointers& rows, int q) {
    Value* size = arg(5);
    Value* query = bytes(arg(3), b_.CreateMul(arg(4), b_.getInt64(q)));
    Value* whole = b_.CreateAnd(size, b_.getInt64(-step_));
    const Values zeros(static_cast<size_t>(lanes_), llvm::Constant::getNullValue(in_lanes(b_.getFloatTy(), lanes_)));
    const auto at = [&](Value* i) { return rows.advanced(b_.CreateMul(i, b_.getInt64(size_of(row_type())))); };
    const auto query_at = [&](Value* i) { return bytes(query, b_.CreateMul(i, b_.getInt64(size_of(query_type())))); };
    Values sums = emit_loop(b_, b_.getInt64(0), whole, step_, zeros, [&](Value* i, const Values& so_far) {
      return add_step(at(i), query_at(i), nullptr, so_far);
    });
    sums = emit_if(
        b_, b_.CreateICmpULT(whole, size),
        [&] { return add_step(at(whole), query_at(whole), first_lanes(b_, b_.CreateSub(size, whole), step_), sums); },
        [&] { return sums; });
    return sum_groups(b_, sums, lanes_);
  }

  int step_;  // elements of a vector
  Value* ahead_ = nullptr;
};

// Sums of some columns of all queries stay in registers.
class ValuesEmitter : StreamEmitter {
 public:
  using StreamEmitter::StreamEmitter;

  void emit() {
    Value* size = arg(2);
    ahead_ = ahead(size, arg(1));
    const int registers = target_.vector_registers >= 32 ? 24 : 12;
    const int vectors = std::clamp(registers / queries_, 1, 4);
    Value* whole = b_.CreateSub(size, b_.CreateURem(size, b_.getInt64(static_cast<uint64_t>(vectors * lanes_))));
    emit_loop(b_, b_.getInt64(0), whole, vectors * lanes_,
              [&](Value* column) { emit_columns(column, vectors, nullptr); });
    emit_loop(b_, whole, size, lanes_,
              [&](Value* column) { emit_columns(column, 1, first_lanes(b_, b_.CreateSub(size, column), lanes_)); });
    b_.CreateRetVoid();
  }

 private:
  void emit_columns(Value* column, int vectors, Value* mask) {
    Value* first = bytes(arg(0), times(column, size_of(row_type())));
    Values carried{first};
    for (int q = 0; q < queries_; ++q) {
      for (int v = 0; v < vectors; ++v) carried.push_back(load(sum_at(column, q, v), DType::kF32, lanes_, mask));
    }
    carried = emit_loop(b_, b_.getInt64(0), arg(5), 1, carried, [&](Value* key, Values values) {
      add_key(key, values, vectors, mask);
      return values;
    });
    for (int q = 0; q < queries_; ++q) {
      for (int v = 0; v < vectors; ++v) {
        emit_store(b_, DType::kF32, carried[static_cast<size_t>(1 + q * vectors + v)],
                   {Place::Kind::kUp, sum_at(column, q, v), b_.getInt64(0)}, lanes_, mask, false);
      }
    }
  }

  Value* sum_at(Value* column, int q, int v) {
    Value* index = b_.CreateAdd(b_.CreateAdd(column, times(arg(7), q)), b_.getInt64(static_cast<uint64_t>(v * lanes_)));
    return b_.CreateGEP(b_.getFloatTy(), arg(6), index);
  }

  // values[0] is the address in the row of the key.
  void add_key(Value* key, Values& values, int vectors, Value* mask) {
    const int64_t vector_bytes = lanes_ * size_of(row_type());
    Value* later = bytes(values[0], ahead_);
    for (int64_t line = 0; line < vectors * vector_bytes; line += 64)
      emit_prefetch(b_, bytes(later, b_.getInt64(static_cast<uint64_t>(line))));
    Values elements;
    for (int v = 0; v < vectors; ++v)
      elements.push_back(
          load(bytes(values[0], b_.getInt64(static_cast<uint64_t>(v * vector_bytes))), row_type(), lanes_, mask));
    for (int q = 0; q < queries_; ++q) {
      Value* p = bytes(arg(3), b_.CreateAdd(times(arg(4), q), times(key, 4)));
      p = splat(b_, b_.CreateAlignedLoad(b_.getFloatTy(), p, llvm::Align(4)), lanes_);
      for (int v = 0; v < vectors; ++v) {
        Value*& sum = values[static_cast<size_t>(1 + q * vectors + v)];
        sum = multiply_add(b_, elements[static_cast<size_t>(v)], p, sum, target_.fma);
      }
    }
    values[0] = bytes(values[0], arg(1));
  }

  Value* ahead_ = nullptr;
};

// Machine code of either emitter. Both functions have the same LLVM type.
template <typename Emitter, typename Function>
Function* stream_code(const char* what, const target::Target& target, MatvecKind kind, int queries) {
  const std::string name = cat(what, " ", static_cast<int>(kind), " ", queries);
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    Emitter(add_function(module, target, what, matvec_type(module.getContext())), kind, queries, target).emit();
  });
  return code.function<Function>(what);
}

}  // namespace

ScoresFunction* scores_code(const target::Target& target, MatvecKind kind, int queries) {
  return stream_code<ScoresEmitter, ScoresFunction>("scores", target, kind, queries);
}

ValuesFunction* values_code(const target::Target& target, MatvecKind kind, int queries) {
  return stream_code<ValuesEmitter, ValuesFunction>("values", target, kind, queries);
}

}  // namespace npugraph::codegen
