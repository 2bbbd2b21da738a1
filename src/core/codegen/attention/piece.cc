// SPDX-License-Identifier: Apache-2.0
#include "codegen/attention/piece.h"

#include <limits>
#include <numbers>

#include <llvm/IR/IntrinsicsX86.h>

#include "base/error.h"
#include "codegen/emit/casts.h"
#include "codegen/emit/loops.h"
#include "codegen/emit/vectors.h"
#include "codegen/jit/make_code.h"
#include "codegen/math/math.h"
#include "codegen/matmul/element.h"

namespace npugraph::codegen {
namespace {

using llvm::Align;
using llvm::Value;

class Emitter {
 public:
  Emitter(llvm::Function* function, const target::Target& target)
      : f_(function),
        b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        target_(target),
        lanes_(target.lanes(DType::kF32)),
        vector_(llvm::FixedVectorType::get(b_.getFloatTy(), static_cast<unsigned>(lanes_))) {}

 protected:
  Value* arg(unsigned i) { return f_->getArg(i); }
  Value* bytes(Value* pointer, Value* offset) { return b_.CreateGEP(b_.getInt8Ty(), pointer, offset); }
  Value* all(double number) { return llvm::ConstantFP::get(vector_, number); }
  Value* lowest() { return all(-std::numeric_limits<double>::infinity()); }
  // Vector `i` behind `pointer`.
  Value* place(Value* pointer, Value* i) { return b_.CreateGEP(vector_, pointer, i); }
  Value* place(Value* pointer, int i) { return place(pointer, b_.getInt64(static_cast<uint64_t>(i))); }
  Value* load(Value* pointer) { return b_.CreateAlignedLoad(vector_, pointer, Align(4)); }
  void store(Value* value, Value* pointer) { b_.CreateAlignedStore(value, pointer, Align(4)); }
  // The larger one; b if either is NaN.
  Value* larger(Value* a, Value* b) { return b_.CreateSelect(b_.CreateFCmpOGT(a, b), a, b); }
  Value* exp(Value* x) { return emit_math(b_, target_, loop::Op::kExp, {x}); }
  // The score that probabilities are relative to: the largest one, or 0 for a row of hidden keys, whose probabilities
  // are then 0, not NaN.
  Value* reference(Value* largest) {
    Value* none = b_.CreateFCmpOEQ(largest, splat_like(largest, -std::numeric_limits<double>::infinity()));
    return b_.CreateSelect(none, splat_like(largest, 0), largest);
  }
  static llvm::Constant* splat_like(Value* like, double number) {
    return llvm::ConstantFP::get(like->getType(), number);
  }

  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  const target::Target& target_;
  int lanes_;
  llvm::FixedVectorType* vector_;
};

class PanelEmitter : Emitter {
 public:
  PanelEmitter(llvm::Function* function, const PanelKind& kind, const target::Target& target)
      : Emitter(function, target), kind_(kind) {}

  void emit() {
    scores_ = arg(0);
    keys_ = arg(1);
    scale_ = splat(b_, arg(5), lanes_);
    for (int v = 0; v < kind_.vectors && kind_.limited; ++v) {
      auto* type = llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(lanes_));
      limits_.push_back(b_.CreateAlignedLoad(type, b_.CreateConstGEP1_64(type, arg(3), v), Align(4)));
    }
    Values largest = find_largest();
    Values factors;
    for (int v = 0; v < kind_.vectors; ++v) {
      Value* at = place(arg(6), v);
      Value* before = load(at);
      if (!rewritten()) largest[v] = b_.CreateFMul(largest[v], scale_);
      largest[v] = larger(largest[v], before);
      store(largest[v], at);
      largest[v] = b_.CreateFMul(reference(largest[v]), all(std::numbers::log2e));
      factors.push_back(power(before, all(std::numbers::log2e), largest[v]));
    }
    const Values totals = kind_.pairs ? write_pairs(largest) : write_probabilities(largest);
    for (int v = 0; v < kind_.vectors; ++v) {
      Value* at = place(arg(6), kind_.vectors + v);
      store(multiply_add(b_, load(at), factors[v], totals[v], target_.fma), at);
    }
    scale_sums(factors);
    b_.CreateRetVoid();
  }

 private:
  bool rewritten() const { return kind_.limited || kind_.masked; }
  Value* number(Value* key, int vector) {
    return b_.CreateAdd(b_.CreateMul(key, b_.getInt64(static_cast<uint64_t>(kind_.vectors))),
                        b_.getInt64(static_cast<uint64_t>(vector)));
  }
  Values each(const std::function<Value*(int v)>& make) {
    Values made;
    for (int v = 0; v < kind_.vectors; ++v) made.push_back(make(v));
    return made;
  }

  // 2^(x * factor - largest).
  Value* power(Value* x, Value* factor, Value* largest) {
    Value* exponent = multiply_add(b_, x, factor, b_.CreateFNeg(largest), target_.fma);
    return emit_exp2_to_one(b_, target_, exponent, kind_.pairs);
  }

  // The final score, which is also stored, if scores are limited or masked. Otherwise the product without its scale,
  // because the largest one remains the largest when it is scaled.
  Value* score(Value* key, int v) {
    Value* at = place(scores_, number(key, v));
    if (!rewritten()) return load(at);
    Value* x = b_.CreateFMul(load(at), scale_);
    if (kind_.masked) x = b_.CreateFAdd(x, load(place(arg(4), number(key, v))));
    if (kind_.limited) {
      Value* absolute = b_.CreateTrunc(b_.CreateAdd(arg(2), key), b_.getInt32Ty());
      x = b_.CreateSelect(b_.CreateICmpSLT(splat(b_, absolute, lanes_), limits_[v]), x, lowest());
    }
    store(x, at);
    return x;
  }

  Values find_largest() {
    constexpr int kChains = 4;  // hide the latency of a maximum
    Value* whole = b_.CreateAnd(keys_, b_.getInt64(-kChains));
    Values carried(static_cast<size_t>(kChains * kind_.vectors), lowest());
    carried = emit_loop(b_, b_.getInt64(0), whole, kChains, carried, [&](Value* key, Values values) {
      for (int c = 0; c < kChains; ++c) {
        Value* of_chain = b_.CreateAdd(key, b_.getInt64(static_cast<uint64_t>(c)));
        for (int v = 0; v < kind_.vectors; ++v) {
          Value*& largest = values[c * kind_.vectors + v];
          largest = larger(score(of_chain, v), largest);
        }
      }
      return values;
    });
    Values largest = each([&](int v) {
      Value* low = larger(carried[v], carried[kind_.vectors + v]);
      return larger(low, larger(carried[2 * kind_.vectors + v], carried[3 * kind_.vectors + v]));
    });
    return emit_loop(b_, whole, keys_, 1, largest, [&](Value* key, Values values) {
      for (int v = 0; v < kind_.vectors; ++v) values[v] = larger(score(key, v), values[v]);
      return values;
    });
  }

  // `largest` is an exponent of 2.
  Value* probability(Value* key, int v, Value* largest) {
    Value* factor = rewritten() ? all(std::numbers::log2e) : b_.CreateFMul(scale_, all(std::numbers::log2e));
    return power(load(place(scores_, number(key, v))), factor, largest);
  }

  Values zeros() {
    return each([&](int) { return all(0); });
  }

  Values write_probabilities(const Values& largest) {
    return emit_loop(b_, b_.getInt64(0), keys_, 1, zeros(), [&](Value* key, Values totals) {
      for (int v = 0; v < kind_.vectors; ++v) {
        Value* p = probability(key, v, largest[v]);
        store(p, place(scores_, number(key, v)));
        totals[v] = b_.CreateFAdd(totals[v], p);
      }
      return totals;
    });
  }

  // Row i of pairs replaces row i of the scores, after rows 2 i and 2 i + 1 were read.
  Values write_pairs(const Values& largest) {
    Value* whole = b_.CreateAnd(keys_, b_.getInt64(-2));
    const Values totals = emit_loop(b_, b_.getInt64(0), whole, 2, zeros(), [&](Value* key, Values sums) {
      Value* next = b_.CreateAdd(key, b_.getInt64(1));
      for (int v = 0; v < kind_.vectors; ++v) {
        Value* even = probability(key, v, largest[v]);
        Value* odd = probability(next, v, largest[v]);
        sums[v] = b_.CreateFAdd(sums[v], b_.CreateFAdd(even, odd));
        store_pair(even, odd, key, v);
      }
      return sums;
    });
    return emit_loop(b_, whole, keys_, 2, totals, [&](Value* key, Values sums) {
      for (int v = 0; v < kind_.vectors; ++v) {
        Value* even = probability(key, v, largest[v]);
        sums[v] = b_.CreateFAdd(sums[v], even);
        store_pair(even, all(0), key, v);
      }
      return sums;
    });
  }

  void store_pair(Value* even, Value* odd, Value* key, int v) {
    Value* halves = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {}, {odd, even});
    llvm::SmallVector<int, 64> by_turns;
    for (int i = 0; i < lanes_; ++i) by_turns.append({i, lanes_ + i});
    Value* pairs = b_.CreateShuffleVector(halves, by_turns);
    store(b_.CreateBitCast(pairs, vector_), place(scores_, number(b_.CreateLShr(key, 1), v)));
  }

  // Skips the rows of sums if no maximum has changed, as in most steps.
  void scale_sums(const Values& factors) {
    Value* changed = nullptr;
    for (Value* factor : factors) {
      Value* of_vector = any_lane(b_, b_.CreateFCmpUNE(factor, all(1)));
      changed = changed ? b_.CreateOr(changed, of_vector) : of_vector;
    }
    Value* rows = b_.CreateSelect(changed, arg(8), b_.getInt64(0));
    emit_loop(b_, b_.getInt64(0), rows, 1, [&](Value* row) {
      for (int v = 0; v < kind_.vectors; ++v) {
        Value* at = place(arg(7), number(row, v));
        store(b_.CreateFMul(load(at), factors[v]), at);
      }
    });
  }

  PanelKind kind_;
  Value* scores_ = nullptr;
  Value* keys_ = nullptr;
  Value* scale_ = nullptr;
  Values limits_;
};

class ValueTileEmitter : Emitter {
 public:
  ValueTileEmitter(llvm::Function* function, int rows, int vectors, bool pairs, const target::Target& target)
      : Emitter(function, target), rows_(rows), vectors_(vectors), pairs_(pairs) {}

  void emit() {
    constexpr int kUnroll = 4;
    Value* steps = arg(3);
    Values carried{arg(0), arg(1)};
    const Values initial = emit_if(
        b_, b_.CreateICmpNE(arg(5), b_.getInt64(0)), [&] { return load_sums(); },
        [&] { return Values(static_cast<size_t>(rows_ * vectors_), all(0)); });
    carried.insert(carried.end(), initial.begin(), initial.end());
    Value* whole = b_.CreateAnd(steps, b_.getInt64(-kUnroll));
    const auto body = [&](int unroll) {
      return [this, unroll](Value*, Values values) {
        for (int s = 0; s < unroll; ++s) step(values);
        return values;
      };
    };
    carried = emit_loop(b_, b_.getInt64(0), whole, kUnroll, carried, body(kUnroll));
    carried = emit_loop(b_, whole, steps, 1, carried, body(1));
    for (int i = 0; i < rows_ * vectors_; ++i) store(carried[2 + i], place(arg(4), i));
    b_.CreateRetVoid();
  }

 private:
  Values load_sums() {
    Values sums;
    for (int i = 0; i < rows_ * vectors_; ++i) sums.push_back(load(place(arg(4), i)));
    return sums;
  }

  void step(Values& values) {
    Values columns;
    for (int v = 0; v < vectors_; ++v) columns.push_back(load(place(values[0], v)));
    for (int r = 0; r < rows_; ++r) {
      Value* element =
          b_.CreateAlignedLoad(b_.getFloatTy(), b_.CreateConstGEP1_64(b_.getFloatTy(), values[1], r), Align(4));
      element = splat(b_, element, lanes_);
      for (int v = 0; v < vectors_; ++v) {
        Value*& sum = values[2 + r * vectors_ + v];
        sum = pairs_ ? dot_bf16_pairs(b_, element, columns[v], sum)
                     : multiply_add(b_, element, columns[v], sum, target_.fma);
      }
    }
    values[0] = place(values[0], vectors_);
    values[1] = bytes(values[1], arg(2));
  }

  int rows_;
  int vectors_;
  bool pairs_;
};

class RowEmitter : Emitter {
 public:
  RowEmitter(llvm::Function* function, bool masked, const target::Target& target)
      : Emitter(function, target), masked_(masked) {}

  void emit() {
    Value* keys = arg(1);
    Value* scale = splat(b_, arg(3), lanes_);
    Value* largest = emit_loop(b_, b_.getInt64(0), keys, lanes_, {lowest()}, [&](Value* key, const Values& so_far) {
      Value* at = b_.CreateGEP(b_.getFloatTy(), arg(0), key);
      Value* x = b_.CreateFMul(load(at), scale);
      if (masked_) x = b_.CreateFAdd(x, load(b_.CreateGEP(b_.getFloatTy(), arg(2), key)));
      x = b_.CreateSelect(first_lanes(b_, b_.CreateSub(keys, key), lanes_), x, lowest());
      store(x, at);
      return Values{larger(x, so_far[0])};
    })[0];
    largest = across(largest, [&](Value* a, Value* b) { return larger(a, b); });
    b_.CreateAlignedStore(largest, arg(4), Align(4));
    Value* subtracted = splat(b_, reference(largest), lanes_);
    Value* sum = emit_loop(b_, b_.getInt64(0), keys, lanes_, {all(0)}, [&](Value* key, const Values& so_far) {
      Value* at = b_.CreateGEP(b_.getFloatTy(), arg(0), key);
      Value* p = exp(b_.CreateFSub(load(at), subtracted));
      store(p, at);
      return Values{b_.CreateFAdd(so_far[0], p)};
    })[0];
    sum = across(sum, [&](Value* a, Value* b) { return b_.CreateFAdd(a, b); });
    b_.CreateAlignedStore(sum, b_.CreateConstGEP1_64(b_.getFloatTy(), arg(4), 1), Align(4));
    b_.CreateRetVoid();
  }

 private:
  // All lanes together, halves first.
  Value* across(Value* x, const std::function<Value*(Value*, Value*)>& combine) {
    for (int width = lanes_ / 2; width >= 1; width /= 2)
      x = combine(lanes_between(b_, x, 0, width), lanes_between(b_, x, width, width));
    return b_.CreateExtractElement(x, b_.getInt64(0));
  }

  bool masked_;
};

class MaskEmitter : Emitter {
 public:
  MaskEmitter(llvm::Function* function, DType mask, const target::Target& target)
      : Emitter(function, target), mask_(mask), words_(in_lanes(b_.getInt32Ty(), lanes_)) {}

  void emit() {
    Value* keys = arg(1);
    Value* whole = b_.CreateAnd(keys, b_.getInt64(-lanes_));
    Values effect(2, llvm::Constant::getNullValue(words_));
    effect = emit_loop(b_, b_.getInt64(0), whole, lanes_, effect,
                       [&](Value* key, const Values& so_far) { return step(key, nullptr, so_far); });
    effect = emit_loop(b_, whole, keys, lanes_, effect, [&](Value* key, const Values& so_far) {
      return step(key, first_lanes(b_, b_.CreateSub(keys, key), lanes_), so_far);
    });
    for (int i = 0; i < 2; ++i) {
      Value* to = b_.CreateConstGEP1_64(b_.getInt32Ty(), arg(3), static_cast<uint64_t>(i));
      b_.CreateAlignedStore(b_.CreateOrReduce(effect[static_cast<size_t>(i)]), to, Align(4));
    }
    b_.CreateRetVoid();
  }

 private:
  Values step(Value* key, Value* lanes, const Values& so_far) {
    // Prefetches the next block of keys, which a later call takes from the same row. Calls for other rows lie between,
    // so the processor does not prefetch it by itself.
    Value* next = b_.CreateGEP(memory_type(b_.getContext(), mask_), arg(0), b_.CreateAdd(key, arg(1)));
    emit_prefetch(b_, next);
    Value* added = emit_load(b_, mask_, {Place::Kind::kUp, arg(0), key}, lanes_, lanes, nullptr);
    if (mask_ == DType::kBool)
      added = b_.CreateSelect(added, all(0), lowest());
    else if (mask_ != DType::kF32)
      added = widen_float(b_, target_, added, mask_);
    emit_store(b_, DType::kF32, added, {Place::Kind::kUp, arg(2), key}, lanes_, lanes, false);
    Value* bits = b_.CreateBitCast(added, words_);
    Value* seen = b_.CreateXor(bits, b_.CreateBitCast(lowest(), words_));
    Value* changed = b_.CreateShl(bits, 1);  // a zero of either sign adds nothing
    if (lanes != nullptr) {
      llvm::Constant* none = llvm::Constant::getNullValue(words_);
      seen = b_.CreateSelect(lanes, seen, none);
      changed = b_.CreateSelect(lanes, changed, none);
    }
    return {b_.CreateOr(so_far[0], seen), b_.CreateOr(so_far[1], changed)};
  }

  DType mask_;
  llvm::Type* words_;
};

}  // namespace

llvm::FunctionType* softmax_panel_type(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  llvm::Type* number = llvm::Type::getFloatTy(context);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                 {pointer, integer, integer, pointer, pointer, number, pointer, pointer, integer},
                                 false);
}

llvm::FunctionType* value_tile_type(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, pointer, integer, integer, pointer, integer},
                                 false);
}

llvm::FunctionType* softmax_row_type(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  return llvm::FunctionType::get(
      llvm::Type::getVoidTy(context),
      {pointer, llvm::Type::getInt64Ty(context), pointer, llvm::Type::getFloatTy(context), pointer}, false);
}

llvm::FunctionType* mask_row_type(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                 {pointer, llvm::Type::getInt64Ty(context), pointer, pointer}, false);
}

void emit_softmax_panel(llvm::Function* function, const PanelKind& kind, const target::Target& target) {
  PanelEmitter(function, kind, target).emit();
}

void emit_value_tile(llvm::Function* function, int rows, int vectors, bool pairs, const target::Target& target) {
  ValueTileEmitter(function, rows, vectors, pairs, target).emit();
}

void emit_softmax_row(llvm::Function* function, bool masked, const target::Target& target) {
  RowEmitter(function, masked, target).emit();
}

void emit_mask_row(llvm::Function* function, DType mask, const target::Target& target) {
  MaskEmitter(function, mask, target).emit();
}

SoftmaxPanelFunction* softmax_panel_code(const target::Target& target, const PanelKind& kind) {
  const std::string name = cat("softmax panel ", kind.vectors, kind.pairs ? " pairs" : "",
                               kind.limited ? " limited" : "", kind.masked ? " masked" : "");
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    emit_softmax_panel(add_function(module, target, "softmax", softmax_panel_type(module.getContext())), kind, target);
  });
  return code.function<SoftmaxPanelFunction>("softmax");
}

ValueTileFunction* value_tile_code(const target::Target& target, int rows, int vectors, bool pairs) {
  const std::string name = cat("value tile ", rows, " ", vectors, pairs ? " pairs" : "");
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    emit_value_tile(add_function(module, target, "tile", value_tile_type(module.getContext())), rows, vectors, pairs,
                    target);
  });
  return code.function<ValueTileFunction>("tile");
}

SoftmaxRowFunction* softmax_row_code(const target::Target& target, bool masked) {
  const MachineCode& code =
      stored_code(target, masked ? "softmax row masked" : "softmax row", [&](llvm::Module& module) {
        emit_softmax_row(add_function(module, target, "softmax", softmax_row_type(module.getContext())), masked,
                         target);
      });
  return code.function<SoftmaxRowFunction>("softmax");
}

MaskRowFunction* mask_row_code(const target::Target& target, DType mask) {
  const MachineCode& code = stored_code(target, cat("mask row ", name_of(mask)), [&](llvm::Module& module) {
    emit_mask_row(add_function(module, target, "mask", mask_row_type(module.getContext())), mask, target);
  });
  return code.function<MaskRowFunction>("mask");
}

}  // namespace npugraph::codegen
