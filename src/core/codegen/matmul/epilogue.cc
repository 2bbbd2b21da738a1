// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "codegen/jit/module.h"
#include "codegen/kernel/body.h"
#include "codegen/matmul/code.h"
#include "codegen/matmul/element.h"

namespace npugraph::codegen {
namespace {

using llvm::Value;
using loop::For;

[[noreturn]] void refuse(const loop::Kernel& kernel, const char* why) {
  throw UserError(cat("epilogue ", kernel.name, " of a matrix product: ", why));
}

const For* as_loop(const loop::Stmt& statement) { return std::get_if<For>(&statement.node); }

const For& rows_of(const loop::Kernel& kernel, DType sums) {
  const For* rows = kernel.body.size() == 1 ? as_loop(kernel.body[0]) : nullptr;
  if (rows == nullptr || rows->kind == For::Kind::kVector || rows->kind == For::Kind::kUnrolled)
    refuse(kernel, "its body is not one loop over rows");
  if (rows->body.empty() || as_loop(rows->body.back()) == nullptr) refuse(kernel, "no loop over columns ends a row");
  const For& columns = *as_loop(rows->body.back());
  const bool more = std::any_of(rows->body.begin(), rows->body.end() - 1, as_loop);
  if (more || columns.kind != For::Kind::kVector)
    refuse(kernel, "a row has loops besides the vector loop over columns");
  if (!rows->scans.empty() || !rows->reductions.empty() || !columns.scans.empty() || !columns.reductions.empty())
    refuse(kernel, "it reduces or scans");
  const auto is_local = [](const loop::Buffer& buffer) { return buffer.kind == loop::Buffer::Kind::kLocal; };
  if (std::any_of(kernel.buffers.begin(), kernel.buffers.end(), is_local)) refuse(kernel, "it has local buffers");
  if (kernel.buffers.empty() || kernel.buffers[0].dtype != sums)
    refuse(kernel, "its first buffer has another type than the sums");
  return *rows;
}

class EpilogueEmitter {
 public:
  EpilogueEmitter(llvm::Function* function, const loop::Kernel& kernel, DType sums, const target::Target& target)
      : f_(function),
        b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        kernel_(kernel),
        sums_(sums),
        rows_(rows_of(kernel, sums)),
        columns_(*as_loop(rows_.body.back())),
        body_(b_, kernel, target,
              {.fail = [&](const std::string&, Value*) { refuse(kernel, "it can fail"); },
               .parallel = {},
               .iteration = {}}) {}

  void emit() {
    bind_scalars();
    body_.bind_buffer(0, {nullptr, [this](const loop::Load&) { return load_sums(); }});
    for (size_t i = 1; i < kernel_.buffers.size(); ++i)
      body_.bind_buffer(i, {entry(f_->getArg(6), i - 1, b_.getPtrTy()), nullptr});
    For block = rows_;
    block.body.pop_back();
    const int lanes = body_.lanes_for(columns_);
    Value* columns = f_->getArg(3);
    Value* whole = b_.CreateAnd(columns, b_.getInt64(-lanes));
    emit_loop(b_, b_.getInt64(0), f_->getArg(2), 1, [&](Value* r) {
      body_.bind_symbol(rows_.var, b_.CreateAdd(r, f_->getArg(4)));
      body_.emit(block.body);
      row_ = b_.CreateMul(r, f_->getArg(1));
      emit_loop(b_, b_.getInt64(0), whole, lanes, [&](Value* c) { emit_columns(c, lanes, nullptr); });
      emit_if(
          b_, b_.CreateICmpSLT(whole, columns),
          [&] {
            emit_columns(whole, lanes, first_lanes(b_, b_.CreateSub(columns, whole), lanes));
            return Values{};
          },
          [] { return Values{}; });
    });
    b_.CreateRetVoid();
  }

 private:
  Value* entry(Value* array, size_t i, llvm::Type* type) {
    return b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), array, i));
  }

  void bind_scalars() {
    for (size_t i = 0; i < kernel_.scalars.size(); ++i) {
      const ScalarKind kind = kernel_.scalars[i].kind;
      Value* value = entry(f_->getArg(7), i, kind == ScalarKind::kFloat ? b_.getDoubleTy() : b_.getInt64Ty());
      body_.bind_symbol(kernel_.scalars[i].name, kind == ScalarKind::kBool ? b_.CreateIsNotNull(value) : value);
    }
  }

  void emit_columns(Value* column, int lanes, Value* mask) {
    column_ = column;
    lanes_ = lanes;
    body_.emit_lanes(columns_, b_.CreateAdd(column, f_->getArg(5)), lanes, mask);
  }

  Value* load_sums() {
    Value* from = b_.CreateGEP(b_.getFloatTy(), f_->getArg(0), b_.CreateAdd(row_, column_));
    llvm::Type* type = in_lanes(register_type(f_->getContext(), sums_), lanes_);
    return b_.CreateAlignedLoad(type, from, llvm::Align(4));
  }

  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  const loop::Kernel& kernel_;
  const DType sums_;
  const For& rows_;
  const For& columns_;
  BodyEmitter body_;
  Value* row_ = nullptr;  // index of the sums of the row, and of the lanes in it
  Value* column_ = nullptr;
  int lanes_ = 0;
};

}  // namespace

llvm::FunctionType* store_sums_type(llvm::LLVMContext& context) { return function_type(context, "piiipi"); }

llvm::FunctionType* epilogue_type(llvm::LLVMContext& context) { return function_type(context, "piiiiipp"); }

void emit_store_sums(llvm::Function* f, DType c, int lanes) {
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(f->getContext(), "entry", f));
  Value* columns = f->getArg(3);
  Value* whole = b.CreateAnd(columns, b.getInt64(-lanes));
  const auto at = [&](Value* pointer, Value* bytes) { return b.CreateGEP(b.getInt8Ty(), pointer, bytes); };
  const auto times = [&](Value* x, int64_t factor) { return b.CreateMul(x, b.getInt64(factor)); };
  emit_loop(b, b.getInt64(0), f->getArg(2), 1, [&](Value* r) {
    Value* from = at(f->getArg(0), times(b.CreateMul(r, f->getArg(1)), 4));
    Value* to = at(f->getArg(4), b.CreateMul(r, f->getArg(5)));
    const auto store = [&](Value* column, int count) {
      store_f32_as(b, load_as_f32(b, at(from, times(column, 4)), DType::kF32, count), at(to, times(column, size_of(c))),
                   c);
    };
    emit_loop(b, b.getInt64(0), whole, lanes, [&](Value* column) { store(column, lanes); });
    emit_loop(b, whole, columns, 1, [&](Value* column) { store(column, 1); });
  });
  b.CreateRetVoid();
}

void emit_epilogue(llvm::Function* function, const loop::Kernel& epilogue, DType sums, const target::Target& target) {
  EpilogueEmitter(function, epilogue, sums, target).emit();
}

}  // namespace npugraph::codegen
