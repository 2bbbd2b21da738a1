// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernel/emit.h"

#include <algorithm>

#include <llvm/IR/IntrinsicsX86.h>

#include "base/error.h"
#include "codegen/kernel/body.h"

namespace npugraph::codegen {

namespace {

using llvm::Function;
using llvm::Value;
using loop::Buffer;
using loop::For;
using loop::Stmt;
using loop::Store;
using loop::ValueId;
using target::Target;

bool has_streaming(const std::vector<Stmt>& statements) {
  for (const Stmt& stmt : statements) {
    if (const auto* store = std::get_if<Store>(&stmt.node); store && store->streaming) return true;
    if (const auto* loop = std::get_if<For>(&stmt.node); loop && has_streaming(loop->body)) return true;
  }
  return false;
}

// The values that a statement defines for the statements behind it.
std::vector<ValueId> defined_by(const Stmt& stmt) {
  if (const auto* let = std::get_if<loop::Let>(&stmt.node)) return {let->id};
  if (const auto* load = std::get_if<loop::Load>(&stmt.node)) return {load->id};
  std::vector<ValueId> out;
  const auto* loop = std::get_if<For>(&stmt.node);
  if (loop == nullptr) return out;
  for (const loop::Reduction& reduction : loop->reductions) {
    out.push_back(reduction.result);
    if (reduction.index_result != loop::kNone) out.push_back(reduction.index_result);
  }
  return out;
}

void add_messages(const std::vector<Stmt>& statements, std::vector<std::string>& out) {
  for (const Stmt& stmt : statements) {
    if (const auto* loop = std::get_if<For>(&stmt.node)) add_messages(loop->body, out);
    const auto* check = std::get_if<loop::Check>(&stmt.node);
    if (check != nullptr && std::ranges::find(out, check->message) == out.end()) out.push_back(check->message);
  }
}

struct KernelModule {
  IrModule ir;
  std::vector<std::string> messages;  // by their number
};

// One function of the module, from its head to the place where statements go.
class FunctionEmitter {
 public:
  FunctionEmitter(KernelModule& module, const loop::Kernel& kernel, const Target& target, Function* function,
                  std::function<void(const For&)> parallel, std::optional<int> copies)
      : module_(module),
        kernel_(kernel),
        target_(target),
        function_(function),
        b_(*module.ir.context),
        body_(b_, kernel, target,
              {.fail = [this](const std::string& message, Value* shown) { fail(message, shown); },
               .parallel = std::move(parallel),
               .iteration = [this](Value* iteration) { iteration_ = iteration; }},
              copies) {
    b_.SetInsertPoint(llvm::BasicBlock::Create(*module.ir.context, "", function));
    for (unsigned i : {0U, 1U}) function->addParamAttr(i, llvm::Attribute::NoUndef);
    bind_scalars();
    bind_buffers();
  }

  llvm::IRBuilder<>& builder() { return b_; }
  BodyEmitter& body() { return body_; }

  Value* frame() { return function_->getArg(0); }
  Value* field(FrameField field) { return load_slot(frame(), static_cast<uint64_t>(field), b_.getPtrTy()); }
  // Element i of an array of 8-byte elements.
  Value* slot(Value* array, uint64_t i) { return b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), array, i); }
  Value* load_slot(Value* array, uint64_t i, llvm::Type* type) { return b_.CreateLoad(type, slot(array, i)); }

  void finish() {
    if (target_.arch == target::Arch::kX86_64 && has_streaming(kernel_.body))
      b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
    leave(0);
  }

 private:
  void leave(uint32_t status) {
    if (function_->getReturnType()->isVoidTy())
      b_.CreateRetVoid();
    else
      b_.CreateRet(b_.getInt32(status));
  }

  void fail(const std::string& message, Value* shown) {
    const std::vector<std::string>& messages = module_.messages;
    const auto number = static_cast<uint64_t>(std::ranges::find(messages, message) - messages.begin());
    NG_CHECK(number < messages.size(), "no check says ", message);
    auto* type = llvm::FunctionType::get(b_.getVoidTy(),
                                         {b_.getPtrTy(), b_.getInt64Ty(), b_.getInt64Ty(), b_.getInt64Ty()}, false);
    b_.CreateCall(
        type, field(FrameField::kFail),
        {frame(), b_.getInt64(number), shown ? shown : b_.getInt64(0), iteration_ ? iteration_ : b_.getInt64(0)});
    leave(1);
  }

  void bind_scalars() {
    if (kernel_.scalars.empty()) return;
    Value* scalars = field(FrameField::kScalars);
    for (size_t i = 0; i < kernel_.scalars.size(); ++i) {
      const ScalarKind kind = kernel_.scalars[i].kind;
      Value* value = load_slot(scalars, i, kind == ScalarKind::kFloat ? b_.getDoubleTy() : b_.getInt64Ty());
      body_.bind_symbol(kernel_.scalars[i].name, kind == ScalarKind::kBool ? b_.CreateIsNotNull(value) : value);
    }
  }

  void bind_buffers() {
    Value* data = field(FrameField::kData);
    Value* local = function_->getArg(1);
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const Buffer& buffer = kernel_.buffers[i];
      if (buffer.kind != Buffer::Kind::kLocal) {
        body_.bind_buffer(i, {load_slot(data, i, b_.getPtrTy()), nullptr});
        continue;
      }
      body_.bind_buffer(i, {local, nullptr});
      Value* bytes =
          b_.CreateMul(body_.emit_index(buffer.elements), b_.getInt64(static_cast<uint64_t>(size_of(buffer.dtype))));
      Value* rounded = b_.CreateAnd(b_.CreateAdd(bytes, b_.getInt64(kLocalAlignment - 1)),
                                    b_.getInt64(~static_cast<uint64_t>(kLocalAlignment - 1)));
      local = b_.CreateInBoundsGEP(b_.getInt8Ty(), local, rounded);
    }
  }

  KernelModule& module_;
  const loop::Kernel& kernel_;
  const Target& target_;
  Function* function_;
  llvm::IRBuilder<> b_;
  BodyEmitter body_;
  Value* iteration_ = nullptr;  // of the parallel loop, reported with failed checks
};

class KernelEmitter {
 public:
  KernelEmitter(const loop::Kernel& kernel, const Target& target, std::optional<int> copies)
      : kernel_(kernel), target_(target), copies_(copies) {
    module_.ir = make_ir_module(kernel.name, target);
    module_.messages = check_messages(kernel);
  }

  IrModule emit() {
    if (const For* loop = sole_parallel_loop(kernel_)) {
      emit_chunk(*loop)->setLinkage(Function::ExternalLinkage);
      return std::move(module_.ir);
    }
    llvm::LLVMContext& context = *module_.ir.context;
    auto* pointer = llvm::PointerType::getUnqual(context);
    auto* type = llvm::FunctionType::get(llvm::Type::getInt32Ty(context), {pointer, pointer}, false);
    Function* function = add_function(*module_.ir.module, target_, "main", type);
    const auto parallel = [&](const For& loop) { call_chunk(*main_, loop); };
    FunctionEmitter main(module_, kernel_, target_, function, parallel, copies_);
    main_ = &main;
    for (const Stmt& stmt : kernel_.body) {
      main.body().emit({stmt});
      const std::vector<ValueId> defined = defined_by(stmt);
      captured_.insert(captured_.end(), defined.begin(), defined.end());
    }
    main.finish();
    return std::move(module_.ir);
  }

 private:
  void call_chunk(FunctionEmitter& main, const For& loop) {
    llvm::IRBuilder<>& b = main.builder();
    Value* extent = main.body().emit_index(loop.extent);
    Value* grain = main.body().emit_index(loop.grain);
    if (!captured_.empty()) {
      Value* array = b.CreateAlloca(llvm::ArrayType::get(b.getInt64Ty(), captured_.size()));
      for (size_t i = 0; i < captured_.size(); ++i) b.CreateStore(main.body().value(captured_[i]), main.slot(array, i));
      b.CreateStore(array, main.slot(main.frame(), static_cast<uint64_t>(FrameField::kCaptured)));
    }
    auto* type =
        llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy(), b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty()}, false);
    Value* failed =
        b.CreateCall(type, main.field(FrameField::kParallel), {main.frame(), emit_chunk(loop), extent, grain});
    Function* function = b.GetInsertBlock()->getParent();
    auto* leave = llvm::BasicBlock::Create(b.getContext(), "", function);
    auto* next = llvm::BasicBlock::Create(b.getContext(), "", function);
    b.CreateCondBr(b.CreateIsNotNull(failed), leave, next);
    b.SetInsertPoint(leave);
    b.CreateRet(b.getInt32(1));
    b.SetInsertPoint(next);
  }

  Function* emit_chunk(const For& loop) {
    llvm::LLVMContext& context = *module_.ir.context;
    auto* pointer = llvm::PointerType::getUnqual(context);
    auto* number = llvm::Type::getInt64Ty(context);
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, pointer, number, number}, false);
    Function* function = add_function(*module_.ir.module, target_, "chunk", type, /*external=*/false);
    FunctionEmitter chunk(module_, kernel_, target_, function, nullptr, copies_);
    Value* captured = captured_.empty() ? nullptr : chunk.field(FrameField::kCaptured);
    for (size_t i = 0; i < captured_.size(); ++i) {
      const ValueId id = captured_[i];
      llvm::Type* as = register_type(context, kernel_.dtypes[static_cast<size_t>(id)]);
      chunk.body().bind_value(id, chunk.load_slot(captured, i, as));
    }
    chunk.body().emit_iterations(loop, function->getArg(2), function->getArg(3));
    chunk.finish();
    return function;
  }

  const loop::Kernel& kernel_;
  const Target& target_;
  const std::optional<int> copies_;
  KernelModule module_;
  FunctionEmitter* main_ = nullptr;
  std::vector<ValueId> captured_;  // values defined at the top level so far
};

}  // namespace

const For* sole_parallel_loop(const loop::Kernel& kernel) {
  const For* loop = kernel.body.size() == 1 ? std::get_if<For>(&kernel.body.front().node) : nullptr;
  return loop != nullptr && loop->kind == For::Kind::kParallel ? loop : nullptr;
}

std::vector<std::string> check_messages(const loop::Kernel& kernel) {
  std::vector<std::string> out = {kZeroDivision};
  add_messages(kernel.body, out);
  return out;
}

IrModule emit_kernel(const loop::Kernel& kernel, const Target& target, std::optional<int> copies) {
  return KernelEmitter(kernel, target, copies).emit();
}

namespace {

struct ParallelJob {
  KernelFrame* frame;
  ChunkFunction* chunk;
};

void run_chunk(void* arg, int64_t begin, int64_t end) {
  const auto* job = static_cast<const ParallelJob*>(arg);
  KernelFrame& frame = *job->frame;
  if (frame.locals_bytes == 0) return job->chunk(&frame, nullptr, begin, end);
  const int slot = frame.slots.take();
  job->chunk(&frame, frame.locals + slot * frame.locals_bytes, begin, end);
  frame.slots.give_back(slot);
}

}  // namespace

int32_t run_parallel(KernelFrame* frame, ChunkFunction* chunk, int64_t extent, int64_t grain) {
  const ng_host* host = frame->host;
  grain = std::max<int64_t>(grain, 1);
  if (frame->locals_bytes > 0) grain = grain_for(*host, most_slots(), extent, grain);
  if (extent <= grain || host->workers <= 1) {
    if (extent > 0) chunk(frame, frame->locals, 0, extent);
  } else {
    ParallelJob job = {frame, chunk};
    host->parallel_for(host, 0, extent, grain, run_chunk, &job);
  }
  const std::lock_guard lock(frame->mutex);
  return frame->failed ? 1 : 0;
}

void record_failure(KernelFrame* frame, int64_t message, int64_t shown, int64_t iteration) {
  const std::lock_guard lock(frame->mutex);
  if (frame->failed && frame->iteration <= iteration) return;
  frame->failed = true;
  frame->message = message;
  frame->shown = shown;
  frame->iteration = iteration;
}

}  // namespace npugraph::codegen
