// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/vectors.h"

#include <numeric>

#include <llvm/IR/Constants.h>

#include "base/error.h"

namespace npugraph::codegen {

using llvm::Constant;
using llvm::Type;
using llvm::Value;

Type* memory_type(llvm::LLVMContext& context, DType dtype) {
  if (dtype == DType::kF32) return Type::getFloatTy(context);
  if (dtype == DType::kF64) return Type::getDoubleTy(context);
  NG_CHECK(!is_complex(dtype), "complex elements in a kernel");
  return Type::getIntNTy(context, static_cast<unsigned>(8 * size_of(dtype)));
}

Type* register_type(llvm::LLVMContext& context, DType dtype) {
  return dtype == DType::kBool ? Type::getInt1Ty(context) : memory_type(context, dtype);
}

Type* in_lanes(Type* type, int lanes) {
  return lanes == 0 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
}

bool is_vector(const Value* value) { return value->getType()->isVectorTy(); }

int lanes_of(const Value* value) {
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return type ? static_cast<int>(type->getNumElements()) : 0;
}

Constant* number(llvm::LLVMContext& context, DType dtype, double value) {
  Type* type = register_type(context, dtype);
  if (type->isFloatingPointTy()) return llvm::ConstantFP::get(type, value);
  NG_CHECK(!is_floating(dtype) || value == 0, "a number other than 0 of type ", name_of(dtype));
  return llvm::ConstantInt::getSigned(type, static_cast<int64_t>(value));
}

Value* splat(Ir& b, Value* value, int lanes) {
  return lanes == 0 || is_vector(value) ? value : b.CreateVectorSplat(static_cast<unsigned>(lanes), value);
}

Constant* lane_numbers(Ir& b, int lanes) {
  llvm::SmallVector<uint64_t, 64> numbers(static_cast<size_t>(lanes));
  std::iota(numbers.begin(), numbers.end(), 0);
  return llvm::ConstantDataVector::get(b.getContext(), numbers);
}

Value* first_lanes(Ir& b, Value* count, int lanes) {
  // Counts in integers so wide that the lanes fill 512 bits: one comparison on targets with masks in hardware.
  Type* type = b.getIntNTy(std::clamp(512 / static_cast<unsigned>(lanes), 8U, 64U));
  Value* numbers = b.CreateTrunc(lane_numbers(b, lanes), in_lanes(type, lanes));
  Value* limit = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, b.getInt64(static_cast<uint64_t>(lanes)));
  return b.CreateICmpULT(numbers, splat(b, b.CreateTrunc(limit, type), lanes));
}

Value* any_lane(Ir& b, Value* condition) {
  if (!is_vector(condition)) return condition;
  Value* bits = b.CreateBitCast(condition, b.getIntNTy(static_cast<unsigned>(lanes_of(condition))));
  return b.CreateIsNotNull(bits);
}

Value* both(Ir& b, Value* mask, Value* condition, int lanes) {
  if (mask == nullptr || condition == nullptr) return mask ? mask : condition;
  if (!is_vector(mask) && !is_vector(condition)) return b.CreateAnd(mask, condition);
  return b.CreateAnd(splat(b, mask, lanes), splat(b, condition, lanes));
}

Value* lanes_between(Ir& b, Value* value, int first, int count) {
  llvm::SmallVector<int, 64> picks(static_cast<size_t>(count));
  std::iota(picks.begin(), picks.end(), first);
  return b.CreateShuffleVector(value, picks);
}

// Halves of groups are added, two vectors at a time.
Value* sum_groups(Ir& b, std::vector<Value*> vectors, int group) {
  const auto halves = [&](Value* x, Value* y, int first) {
    llvm::SmallVector<int, 64> picks;
    for (int at = first; at < 2 * lanes_of(x); at += group) {
      for (int i = 0; i < group / 2; ++i) picks.push_back(at + i);
    }
    return b.CreateShuffleVector(x, y, picks);
  };
  for (; group > 1; group /= 2) {
    std::vector<Value*> sums;
    for (size_t v = 0; v < vectors.size(); v += 2) {
      Value* low = halves(vectors[v], vectors[v + 1], 0);
      sums.push_back(b.CreateFAdd(low, halves(vectors[v], vectors[v + 1], group / 2)));
    }
    vectors = sums;
  }
  return vectors[0];
}

Value* reversed(Ir& b, Value* value) {
  llvm::SmallVector<int, 64> picks(static_cast<size_t>(lanes_of(value)));
  std::iota(picks.rbegin(), picks.rend(), 0);
  return b.CreateShuffleVector(value, picks);
}

Value* for_each_lane(Ir& b, llvm::ArrayRef<Value*> args, Type* result,
                     llvm::function_ref<Value*(llvm::ArrayRef<Value*>)> scalar) {
  const int lanes = lanes_of(args.front());
  if (lanes == 0) return scalar(args);
  Value* out = llvm::PoisonValue::get(in_lanes(result, lanes));
  for (int lane = 0; lane < lanes; ++lane) {
    llvm::SmallVector<Value*, 4> elements;
    for (Value* arg : args) elements.push_back(b.CreateExtractElement(arg, static_cast<uint64_t>(lane)));
    out = b.CreateInsertElement(out, scalar(elements), static_cast<uint64_t>(lane));
  }
  return out;
}

}  // namespace npugraph::codegen
