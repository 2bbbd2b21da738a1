// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/jit.h"

#include <cmath>
#include <thread>

#include <gtest/gtest.h>
#include <llvm/IR/IRBuilder.h>

#include "base/error.h"
#include "codegen/jit/module.h"

namespace npugraph::codegen {
namespace {

using target::Target;

// A module with void f(double* x), which sets *x to callee(*x), or to *x + *x without a callee.
IrModule sample(const Target& target, const char* callee = nullptr) {
  IrModule ir = make_ir_module("sample", target);
  llvm::IRBuilder<> b(*ir.context);
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false);
  llvm::Function* f = add_function(*ir.module, target, "f", type);
  b.SetInsertPoint(llvm::BasicBlock::Create(*ir.context, "", f));
  llvm::Value* x = b.CreateLoad(b.getDoubleTy(), f->getArg(0));
  llvm::Value* y = b.CreateFAdd(x, x);
  if (callee) {
    auto* unary = llvm::FunctionType::get(b.getDoubleTy(), {b.getDoubleTy()}, false);
    y = b.CreateCall(ir.module->getOrInsertFunction(callee, unary), {x});
  }
  b.CreateStore(y, f->getArg(0));
  b.CreateRetVoid();
  return ir;
}

double run(const MachineCode& code, double x) {
  code.function<void(double*)>("f")(&x);
  return x;
}

TEST(Jit, RunsWhatItCompiledForEveryTargetOfTheHost) {
  for (const Target& target : target::host_targets())
    EXPECT_EQ(run(*compile(sample(target), target), 21), 42) << target.level;
}

TEST(Jit, CallsTheMathematicalLibrary) {
  const Target& target = target::host_target();
  EXPECT_EQ(run(*compile(sample(target, "erfc"), target), 0.5), std::erfc(0.5));
}

TEST(Jit, RefusesNamesThatItDoesNotKnow) {
  const Target& target = target::host_target();
  EXPECT_THROW(compile(sample(target, "no_such_function"), target), InternalError);
  EXPECT_THROW(compile(sample(target), target)->address("g"), InternalError);
  EXPECT_THROW(load_object({'x', 'y'}), InternalError);
}

TEST(Jit, LoadsObjectsThatOutliveTheirFirstCode) {
  const Target& target = target::host_target();
  auto code = compile(sample(target, "exp"), target);
  const std::vector<char> object(code->object().begin(), code->object().end());
  code.reset();
  EXPECT_EQ(run(*load_object(object), 1), std::exp(1.0));
}

TEST(Jit, CompilesInSeveralThreads) {
  const Target& target = target::host_target();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) EXPECT_EQ(run(*compile(sample(target), target), j), 2 * j);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Jit, WritesAssembly) {
  const Target& target = target::host_target();
  EXPECT_NE(assembly(sample(target), target).find("f:"), std::string::npos);
}

}  // namespace
}  // namespace npugraph::codegen
