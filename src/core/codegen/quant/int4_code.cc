// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <vector>

#include <llvm/IR/IntrinsicsX86.h>

#include "base/error.h"
#include "codegen/emit/loops.h"
#include "codegen/emit/vectors.h"
#include "codegen/jit/make_code.h"
#include "codegen/jit/module.h"
#include "codegen/matmul/element.h"
#include "codegen/quant/quant_code.h"

namespace npugraph::codegen {
namespace {

using llvm::Align;
using llvm::Value;

constexpr int kZeroCode = 8;
constexpr int kUnroll = 2;                    // steps of an iteration
constexpr int64_t kInt4PrefetchBytes = 8192;  // how far ahead codes are prefetched

// Works on chunks of as many columns as a vector has lanes.
class Int4Emitter {
 public:
  Int4Emitter(llvm::Function* function, const Int4Block& block, const target::Target& target)
      : f_(function),
        b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        block_(block),
        target_(target),
        lanes_(std::min(target.lanes(DType::kF32), 16)),
        floats_(llvm::FixedVectorType::get(b_.getFloatTy(), lanes_)),
        integers_(llvm::FixedVectorType::get(b_.getInt32Ty(), lanes_)) {}

  void emit_matvec(int vectors) {
    // Sums of a strip of chunks stay in registers, beside those that reading codes needs.
    const int chunks = block_.columns / lanes_;
    const int most = std::clamp(target_.vector_registers / 2 / vectors, 1, 4);
    int strip = std::min(most, chunks);
    while (chunks % strip != 0) --strip;
    for (int first = 0; first < chunks; first += strip) emit_strip(chunks_from(first, strip), vectors, first == 0);
    b_.CreateRetVoid();
  }

  void emit_unpack(int panel_columns) {
    std::vector<int> all = chunks_from(0, block_.columns / lanes_);
    emit_loop(b_, b_.getInt64(0), groups(), 1, [&](Value* g) {
      Values scales, zeros;
      for (const int chunk : all) load_scales(g, chunk, scales, zeros);
      Value* first_step = b_.CreateMul(g, group());
      emit_loop(b_, b_.getInt64(0), group(), 1, [&](Value* step) {
        Value* at = b_.CreateAdd(first_step, step);
        Codes codes(*this, at);
        Value* to = bytes(f_->getArg(5), times(at, panel_columns * 4));
        for (size_t i = 0; i < all.size(); ++i) {
          Value* weight = multiply_add(b_, codes.chunk(all[i]), scales[i], zeros[i], target_.fma);
          store_in_panel(weight, to, all[i] * lanes_, panel_columns);
        }
        Value* zero = llvm::Constant::getNullValue(floats_);
        for (int c = block_.columns; c % panel_columns != 0; c += lanes_) store_in_panel(zero, to, c, panel_columns);
      });
    });
    b_.CreateRetVoid();
  }

 private:
  Value* bytes(Value* pointer, Value* offset) { return b_.CreateGEP(b_.getInt8Ty(), pointer, offset); }
  Value* bytes(Value* pointer, int64_t offset) { return b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, offset); }
  Value* times(Value* x, int64_t factor) { return b_.CreateMul(x, b_.getInt64(factor)); }
  Value* groups() { return f_->getArg(3); }
  Value* group() { return f_->getArg(4); }

  // Codes of one step, as floats around 0. Loads that chunks share are emitted once.
  class Codes {
   public:
    Codes(Int4Emitter& e, Value* step) : e_(e), from_(e.bytes(e.f_->getArg(0), e.times(step, e.block_.columns / 2))) {}

    Value* chunk(int number) {
      const int column = number * e_.lanes_, half = e_.block_.columns / 2;
      if (!e_.block_.halves) return e_.value_of(neighbours(column / 2));
      Value* both = pairs_of_halves(column % half);
      return e_.value_of(column < half ? both : e_.b_.CreateLShr(both, 4));
    }

   private:
    Value* load(int byte, int count) {
      auto* type = llvm::FixedVectorType::get(e_.b_.getInt8Ty(), count);
      return e_.b_.CreateAlignedLoad(type, e_.bytes(from_, byte), Align(1));
    }
    Value* pairs_of_halves(int byte) {
      const auto known = loaded_.find(byte);
      if (known != loaded_.end()) return known->second;
      return loaded_.emplace(byte, e_.b_.CreateZExt(load(byte, e_.lanes_), e_.integers_)).first->second;
    }
    Value* neighbours(int byte) {
      std::vector<int> twice;
      std::vector<uint32_t> shifts;
      for (int i = 0; i < e_.lanes_; ++i) {
        twice.push_back(i / 2);
        shifts.push_back(i % 2 * 4);
      }
      Value* wide = e_.b_.CreateZExt(e_.b_.CreateShuffleVector(load(byte, e_.lanes_ / 2), twice), e_.integers_);
      return e_.b_.CreateLShr(wide, llvm::ConstantDataVector::get(e_.f_->getContext(), shifts));
    }

    Int4Emitter& e_;
    Value* from_;
    std::map<int, Value*> loaded_;
  };

  // The floats of codes in the low 4 bits; higher bits are arbitrary.
  Value* value_of(Value* codes) {
    if (target_.masks && lanes_ == 16) {
      // That permutation ignores all other bits.
      std::vector<float> table;
      for (int code = 0; code < 16; ++code) table.push_back(static_cast<float>(code - kZeroCode));
      return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {},
                                {llvm::ConstantDataVector::get(f_->getContext(), table), codes});
    }
    Value* low = b_.CreateAnd(codes, splat(b_, b_.getInt32(15), lanes_));
    return b_.CreateSIToFP(b_.CreateSub(low, splat(b_, b_.getInt32(kZeroCode), lanes_)), floats_);
  }

  void load_scales(Value* g, int chunk, Values& scales, Values& zeros) {
    Value* from = bytes(f_->getArg(1), b_.CreateMul(g, f_->getArg(2)));
    from = bytes(from, int64_t{2} * chunk * lanes_ * size_of(block_.scales));
    Value* both = load_as_f32(b_, from, block_.scales, 2 * lanes_);
    std::vector<int> even, odd;
    for (int i = 0; i < lanes_; ++i) {
      even.push_back(2 * i);
      odd.push_back(2 * i + 1);
    }
    scales.push_back(b_.CreateShuffleVector(both, even));
    zeros.push_back(b_.CreateShuffleVector(both, odd));
  }

  void store_in_panel(Value* value, Value* step_of_panel, int column, int panel_columns) {
    Value* panel = bytes(step_of_panel, times(f_->getArg(6), column / panel_columns));
    b_.CreateAlignedStore(value, bytes(panel, column % panel_columns * 4), Align(4));
  }

  // `count` chunks, in an order in which those that share bytes follow each other.
  std::vector<int> chunks_from(int first, int count) const {
    const int chunks = block_.columns / lanes_;
    std::vector<int> order;
    for (int i = 0; i < chunks; ++i) order.push_back(block_.halves ? i / 2 + i % 2 * (chunks / 2) : i);
    return {order.begin() + first, order.begin() + first + count};
  }

  Value* acc_at(int v, int chunk) {
    Value* row = bytes(f_->getArg(9), times(f_->getArg(10), int64_t{4} * v));
    return bytes(row, int64_t{4} * chunk * lanes_);
  }

  // Sums of products with codes are kept for one group at a time, so that its scales and zeros are applied once. The
  // first strip of a block is read from memory, so it prefetches.
  void emit_strip(const std::vector<int>& strip, int vectors, bool fetches) {
    const auto count = static_cast<int>(strip.size()) * vectors;
    const RowPointers x(b_, f_->getArg(5), f_->getArg(6), vectors);
    // If there are few sums, even and odd steps have their own, because a multiply-add takes longer than reading codes.
    const int turns = count * 4 <= target_.vector_registers ? kUnroll : 1;
    for (const int chunk : strip) {
      for (int v = 0; v < vectors; ++v)
        b_.CreateAlignedStore(llvm::Constant::getNullValue(floats_), acc_at(v, chunk), Align(4));
    }
    emit_loop(b_, b_.getInt64(0), groups(), 1, [&](Value* g) {
      const Values zeros(static_cast<size_t>(count * turns), llvm::Constant::getNullValue(floats_));
      Value* first_step = b_.CreateMul(g, group());
      if (fetches) prefetch_scales(g);
      Values sums = emit_loop(b_, b_.getInt64(0), group(), kUnroll, zeros, [&](Value* step, const Values& before) {
        Values after = before;
        Value* first = b_.CreateAdd(first_step, step);
        if (fetches) prefetch_codes(first);
        for (int turn = 0; turn < kUnroll; ++turn) {
          Value* at = b_.CreateAdd(first, b_.getInt64(turn));
          add_step(at, strip, x.advanced(b_.CreateShl(at, 2)), vectors, after.data() + turn % turns * count);
        }
        return after;
      });
      for (int i = 0; i < count && turns > 1; ++i) sums[i] = b_.CreateFAdd(sums[i], sums[count + i]);
      add_group(g, strip, vectors, sums);
    });
  }

  // Prefetches the scales of the next group. They are far apart, so the processor does not prefetch them by itself.
  void prefetch_scales(Value* g) {
    Value* from = bytes(f_->getArg(1), b_.CreateMul(b_.CreateAdd(g, b_.getInt64(1)), f_->getArg(2)));
    for (int64_t line = 0; line < 2 * block_.columns * size_of(block_.scales); line += 64)
      emit_prefetch(b_, bytes(from, line));
  }
  void prefetch_codes(Value* step) {
    emit_prefetch(b_, bytes(bytes(f_->getArg(0), kInt4PrefetchBytes), times(step, block_.columns / 2)));
  }

  void add_step(Value* step, const std::vector<int>& strip, const RowPointers& x, int vectors, Value** sums) {
    Codes codes(*this, step);
    Values factors;
    for (int v = 0; v < vectors; ++v) {
      Value* element = b_.CreateAlignedLoad(b_.getFloatTy(), x.row(v), Align(4));
      factors.push_back(b_.CreateVectorSplat(lanes_, element));
    }
    for (const int chunk : strip) {
      Value* value = codes.chunk(chunk);
      for (Value* factor : factors) {
        *sums = multiply_add(b_, value, factor, *sums, target_.fma);
        ++sums;
      }
    }
  }

  // Sums are by chunk, then by vector.
  void add_group(Value* g, const std::vector<int>& strip, int vectors, const Values& sums) {
    auto sum = sums.begin();
    for (const int chunk : strip) {
      Values scale, zero;
      load_scales(g, chunk, scale, zero);
      for (int v = 0; v < vectors; ++v, ++sum) {
        Value* at = b_.CreateAdd(b_.CreateMul(f_->getArg(8), b_.getInt64(v)), g);
        Value* x_sum = b_.CreateAlignedLoad(b_.getFloatTy(), bytes(f_->getArg(7), b_.CreateShl(at, 2)), Align(4));
        Value* total = b_.CreateAlignedLoad(floats_, acc_at(v, chunk), Align(4));
        total = multiply_add(b_, *sum, scale[0], total, target_.fma);
        total = multiply_add(b_, zero[0], b_.CreateVectorSplat(lanes_, x_sum), total, target_.fma);
        b_.CreateAlignedStore(total, acc_at(v, chunk), Align(4));
      }
    }
  }

  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  const Int4Block& block_;
  const target::Target& target_;
  int lanes_;
  llvm::FixedVectorType* floats_;
  llvm::FixedVectorType* integers_;
};

std::string name_of_block(const Int4Block& block) {
  return cat(block.columns, block.halves ? " halves " : " pairs ", name_of(block.scales));
}

}  // namespace

Int4MatvecFunction* int4_matvec_code(const target::Target& target, const Int4Block& block, int vectors) {
  const std::string name = cat("int4 matvec ", name_of_block(block), " ", vectors);
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    auto* type = function_type(module.getContext(), "ppiiipipipi");
    Int4Emitter(add_function(module, target, "matvec", type), block, target).emit_matvec(vectors);
  });
  return code.function<Int4MatvecFunction>("matvec");
}

Int4UnpackFunction* int4_unpack_code(const target::Target& target, const Int4Block& block, int panel_columns) {
  const std::string name = cat("int4 unpack ", name_of_block(block), " ", panel_columns);
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    auto* type = function_type(module.getContext(), "ppiiipi");
    Int4Emitter(add_function(module, target, "unpack", type), block, target).emit_unpack(panel_columns);
  });
  return code.function<Int4UnpackFunction>("unpack");
}

}  // namespace npugraph::codegen
