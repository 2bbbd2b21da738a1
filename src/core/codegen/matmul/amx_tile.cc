// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/amx_tile.h"

#include <algorithm>
#include <bit>

#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/emit/loops.h"
#include "codegen/jit/make_code.h"

namespace npugraph::codegen {
namespace {

using llvm::Align;
using llvm::Value;

constexpr int kSide = 16;  // rows, columns and steps of a register
static_assert(kSide == kCutSteps);
constexpr int64_t kConfigBytes = 64;

// Registers 0 to 3 are sums, 4 and 5 rows, 6 and 7 columns.
constexpr int kFirstRows = 4;
constexpr int kFirstColumns = 6;

// Offsets in the configuration: of the bytes in a row of a register (2 bytes), and of its number of rows (1 byte).
int64_t row_bytes_at(int number) { return 16 + 2 * number; }
int64_t rows_at(int number) { return 48 + number; }

class AmxEmitter {
 public:
  explicit AmxEmitter(llvm::Function* function)
      : f_(function),
        b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        config_(b_.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), kConfigBytes))) {
    config_->setAlignment(Align(kConfigBytes));
  }

  void emit_configure() {
    configure(nullptr);
    b_.CreateRetVoid();
  }

  void emit_release() {
    call(llvm::Intrinsic::x86_tilerelease, {});
    b_.CreateRetVoid();
  }

  void emit_tile(TileKind kind, const TileShape& shape) {
    const TileArguments arguments(f_);
    t_ = &arguments;
    kind_ = kind;
    columns_ = shape.columns();
    vectors_ = shape.vectors;
    fetched_rows_ = shape.fetched_rows;
    passing_ = shape.passing;
    Value* steps = t_->steps;
    emit_if(
        b_, b_.CreateICmpNE(t_->accumulate, b_.getInt64(0)), [&] { return load_sums(); }, [&] { return zero_sums(); });
    Value* whole = b_.CreateAnd(steps, b_.getInt64(-kSide));
    emit_loop(b_, b_.getInt64(0), whole, kSide, [&](Value* step) {
      prefetch(step);
      multiply(step);
    });
    store_sums();
    Value* left = b_.CreateSub(steps, whole);
    emit_if(
        b_, b_.CreateICmpNE(left, b_.getInt64(0)), [&] { return multiply_last(whole, left); }, [] { return Values{}; });
    b_.CreateRetVoid();
  }

 private:
  Value* bytes(Value* pointer, Value* offset) { return b_.CreateGEP(b_.getInt8Ty(), pointer, offset); }
  Value* bytes(Value* pointer, int64_t offset) { return b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, offset); }
  Value* times(Value* x, int64_t factor) { return b_.CreateMul(x, b_.getInt64(factor)); }
  void call(llvm::Intrinsic::ID id, const Values& arguments) { b_.CreateIntrinsic(id, {}, arguments); }
  Value* number(int register_number) { return b_.getInt8(static_cast<uint8_t>(register_number)); }

  // Configures whole registers, or those of `steps` steps. Clears them all.
  void configure(Value* steps) {
    constexpr uint64_t kPalette = 1;  // the first byte
    const auto store = [&](Value* value, int64_t at) { b_.CreateAlignedStore(value, bytes(config_, at), Align(1)); };
    for (int64_t at = 0; at < kConfigBytes; at += 8) store(b_.getInt64(at == 0 ? kPalette : 0), at);
    for (int i = 0; i < 8; ++i) {
      const bool rows = i == kFirstRows || i == kFirstRows + 1, columns = i >= kFirstColumns;
      Value* row_bytes = b_.getInt64(kSide * kStepBytes);
      Value* count = b_.getInt64(kSide);
      if (steps != nullptr && rows) row_bytes = times(steps, kStepBytes);
      if (steps != nullptr && columns) count = steps;
      store(b_.CreateTrunc(row_bytes, b_.getInt16Ty()), row_bytes_at(i));
      store(b_.CreateTrunc(count, b_.getInt8Ty()), rows_at(i));
    }
    call(llvm::Intrinsic::x86_ldtilecfg, {config_});
  }

  // `body(register, address, stride in bytes)` for all sums.
  template <typename Body>
  Values for_sums(Body body) {
    for (int r = 0; r < kAmxRows / kSide; ++r) {
      Value* row = bytes(t_->acc, times(t_->acc_stride, r * kSide));
      for (int v = 0; v < vectors_; ++v) body(number(2 * r + v), bytes(row, v * kSide * kStepBytes), t_->acc_stride);
    }
    return {};
  }
  Values load_sums() {
    return for_sums(
        [&](Value* to, Value* from, Value* stride) { call(llvm::Intrinsic::x86_tileloadd64, {to, from, stride}); });
  }
  Values zero_sums() {
    return for_sums([&](Value* to, Value*, Value*) { call(llvm::Intrinsic::x86_tilezero, {to}); });
  }
  Values store_sums() {
    return for_sums(
        [&](Value* from, Value* to, Value* stride) { call(llvm::Intrinsic::x86_tilestored64, {from, to, stride}); });
  }

  llvm::Intrinsic::ID load_of(Passing operand) const {
    return operand == passing_ ? llvm::Intrinsic::x86_tileloaddt164 : llvm::Intrinsic::x86_tileloadd64;
  }

  // Of rows and columns.
  llvm::Intrinsic::ID product() const {
    if (kind_ == TileKind::kU8Quads) return llvm::Intrinsic::x86_tdpbsud;
    return kind_ == TileKind::kI8Quads ? llvm::Intrinsic::x86_tdpbssd : llvm::Intrinsic::x86_tdpbf16ps;
  }

  // Multiplies as many steps as registers are configured for.
  void multiply(Value* step) {
    Value* stride = t_->row_stride;
    Value* rows = bytes(t_->rows, b_.CreateMul(b_.CreateUDiv(step, b_.getInt64(kCutSteps)), t_->cut_stride));
    Value* panel = bytes(t_->panel, times(step, columns_ * kStepBytes));
    for (int v = 0; v < vectors_; ++v)
      call(load_of(Passing::kPanel),
           {number(kFirstColumns + v), bytes(panel, v * kSide * kStepBytes), b_.getInt64(columns_ * kStepBytes)});
    for (int r = 0; r < kAmxRows / kSide; ++r)
      call(load_of(Passing::kRows), {number(kFirstRows + r), bytes(rows, times(stride, r * kSide)), stride});
    for (int r = 0; r < kAmxRows / kSide; ++r) {
      for (int v = 0; v < vectors_; ++v)
        call(product(), {number(2 * r + v), number(kFirstRows + r), number(kFirstColumns + v)});
    }
  }

  Values multiply_last(Value* first, Value* left) {
    configure(left);
    load_sums();
    multiply(first);
    store_sums();
    configure(nullptr);
    return {};
  }

  // Prefetches the lines of 16 steps (TileFunction).
  void prefetch(Value* step) {
    Value* at = bytes(t_->prefetch, b_.CreateMul(b_.CreateUDiv(step, b_.getInt64(kCutSteps)), t_->prefetch_step));
    for (int r = 0; r < fetched_rows_; ++r) {
      emit_prefetch(b_, at);
      at = bytes(at, t_->prefetch_stride);
    }
  }

  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  llvm::AllocaInst* config_;
  TileKind kind_ = TileKind::kBf16Pairs;
  int columns_ = 0, vectors_ = 0, fetched_rows_ = 0;
  Passing passing_ = Passing::kNone;
  const TileArguments* t_ = nullptr;
};

}  // namespace

int rows_for_each(int64_t rows, int64_t panels) {
  const auto whole = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(panels)));
  return static_cast<int>(std::max<int64_t>(rows / whole, 2));
}

AmxCode amx_code(const target::Target& target, TileKind kind) {
  if (!tile_shape(target, kind).amx) return {};
  const MachineCode& code = stored_code(target, "amx", [&](llvm::Module& module) {
    auto* type = function_type(module.getContext(), "");
    AmxEmitter(add_function(module, target, "configure", type)).emit_configure();
    AmxEmitter(add_function(module, target, "release", type)).emit_release();
  });
  return {code.function<void()>("configure"), code.function<void()>("release")};
}

void emit_amx_tile(llvm::Function* function, TileKind kind, const TileShape& shape) {
  AmxEmitter(function).emit_tile(kind, shape);
}

}  // namespace npugraph::codegen
