// SPDX-License-Identifier: Apache-2.0
#include "codegen/convolution/direct_tile.h"

#include "codegen/emit/loops.h"
#include "codegen/jit/code_store.h"
#include "codegen/matmul/element.h"

namespace npugraph::codegen {

using llvm::Align;
using llvm::Value;

llvm::FunctionType* direct_tile_type(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                 {pointer, pointer, pointer, integer, pointer, integer, pointer, integer}, false);
}

void emit_direct_tile(llvm::Function* f, DirectLanes in_lanes, const target::Target& target) {
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(f->getContext(), "entry", f));
  const int lanes = target.lanes(DType::kF32);
  auto* vector = llvm::FixedVectorType::get(b.getFloatTy(), lanes);
  const auto at = [&](Value* pointer, Value* bytes) { return b.CreateGEP(b.getInt8Ty(), pointer, bytes); };
  const auto entry = [&](Value* array, llvm::Type* type, Value* i) {
    return b.CreateLoad(type, b.CreateGEP(type, array, i));
  };
  Values from, to;  // of each vector
  for (int v = 0; v < kDirectVectors; ++v) {
    from.push_back(b.CreateMul(f->getArg(5), b.getInt64(v)));
    to.push_back(at(f->getArg(6), b.CreateMul(f->getArg(7), b.getInt64(v))));
  }
  const auto factors = [&](Value* array, Value* i) -> Value* {
    if (in_lanes == DirectLanes::kPixels) return b.CreateVectorSplat(lanes, entry(array, b.getFloatTy(), i));
    return b.CreateAlignedLoad(vector, b.CreateGEP(vector, array, i), Align(4));
  };
  const Values first(kDirectVectors, factors(f->getArg(4), b.getInt64(0)));
  const Values sums = emit_loop(b, b.getInt64(0), f->getArg(3), 1, first, [&](Value* tap, const Values& carried) {
    Value* place = at(f->getArg(0), entry(f->getArg(1), b.getInt64Ty(), tap));
    Value* weight = factors(f->getArg(2), tap);
    Values next;
    for (int v = 0; v < kDirectVectors; ++v) {
      Value* pixels = b.CreateAlignedLoad(vector, at(place, from[v]), Align(4));
      next.push_back(multiply_add(b, weight, pixels, carried[v], target.fma));
    }
    return next;
  });
  for (int v = 0; v < kDirectVectors; ++v) b.CreateAlignedStore(sums[v], to[v], Align(4));
  b.CreateRetVoid();
}

DirectTileFunction* direct_tile_code(const target::Target& target, DirectLanes lanes) {
  const char* name = lanes == DirectLanes::kPixels ? "direct tile of pixels" : "direct tile of channels";
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    emit_direct_tile(add_function(module, target, "tile", direct_tile_type(module.getContext())), lanes, target);
  });
  return code.function<DirectTileFunction>("tile");
}

}  // namespace npugraph::codegen
