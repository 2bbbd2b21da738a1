// SPDX-License-Identifier: Apache-2.0
// Loads and stores of values.
#include <llvm/IR/MDBuilder.h>

#include "base/error.h"
#include "codegen/emit/loops.h"
#include "codegen/emit/vectors.h"

namespace npugraph::codegen {
namespace {

using llvm::Value;
using Kind = Place::Kind;

llvm::Align element_alignment(DType dtype) { return llvm::Align(static_cast<uint64_t>(size_of(dtype))); }

Value* from_memory(Ir& b, DType dtype, Value* value) {
  return dtype == DType::kBool ? b.CreateIsNotNull(value) : value;
}

Value* to_memory(Ir& b, DType dtype, Value* value) {
  if (dtype != DType::kBool) return value;
  return b.CreateZExt(value, in_lanes(b.getInt8Ty(), lanes_of(value)));
}

Value* address(Ir& b, llvm::Type* element, const Place& place, int lanes) {
  Value* index = place.index;
  if (place.kind == Kind::kDown) index = b.CreateSub(index, b.getInt64(static_cast<uint64_t>(lanes - 1)));
  return b.CreateInBoundsGEP(element, place.base, index);
}

// The same place, with an index for each lane.
Place spread(Ir& b, const Place& place, int lanes) {
  return {Kind::kAnywhere, place.base, splat(b, place.index, lanes)};
}

Value* load_scalar(Ir& b, DType dtype, const Place& place, Value* mask, Value* otherwise) {
  llvm::Type* element = memory_type(b.getContext(), dtype);
  Value* pointer = address(b, element, place, 0);
  const auto load = [&] {
    return from_memory(b, dtype, b.CreateAlignedLoad(element, pointer, element_alignment(dtype)));
  };
  if (mask == nullptr) return load();
  if (otherwise == nullptr) otherwise = number(b.getContext(), dtype, 0);
  return emit_if(b, mask, [&] { return Values{load()}; }, [&] { return Values{otherwise}; }).front();
}

// Gathers elements of fewer than 4 bytes, for which there is no instruction, from the aligned words that hold them. So
// no page is touched that holds none of the elements.
Value* gather_out_of_words(Ir& b, llvm::Type* element, Value* pointers, Value* mask, Value* rest) {
  const int lanes = lanes_of(pointers);
  const auto all = [&](uint64_t number) { return splat(b, b.getInt64(number), lanes); };
  llvm::Type* words = in_lanes(b.getInt32Ty(), lanes);
  Value* at = b.CreatePtrToInt(pointers, in_lanes(b.getInt64Ty(), lanes));
  Value* of_words = b.CreateIntToPtr(b.CreateAnd(at, all(~uint64_t{3})), pointers->getType());
  Value* word = b.CreateMaskedGather(words, of_words, llvm::Align(4), mask, llvm::Constant::getNullValue(words));
  Value* bits = b.CreateTrunc(b.CreateShl(b.CreateAnd(at, all(3)), all(3)), words);
  llvm::Type* narrow = in_lanes(b.getIntNTy(element->getPrimitiveSizeInBits()), lanes);
  Value* value = b.CreateBitCast(b.CreateTrunc(b.CreateLShr(word, bits), narrow), in_lanes(element, lanes));
  return b.CreateSelect(mask, value, rest);
}

}  // namespace

Value* emit_load(Ir& b, DType dtype, const Place& place, int lanes, Value* mask, Value* otherwise) {
  if (place.kind == Kind::kUniform) {
    if (mask == nullptr || (!is_vector(mask) && (otherwise == nullptr || !is_vector(otherwise))))
      return load_scalar(b, dtype, place, mask, otherwise);
    return emit_load(b, dtype, spread(b, place, lanes), lanes, mask, otherwise);
  }
  llvm::Type* element = memory_type(b.getContext(), dtype);
  llvm::Type* type = in_lanes(element, lanes);
  const llvm::Align alignment = element_alignment(dtype);
  Value* pointer = address(b, element, place, lanes);
  const bool down = place.kind == Kind::kDown;
  if (mask == nullptr && place.kind != Kind::kAnywhere) {
    Value* value = from_memory(b, dtype, b.CreateAlignedLoad(type, pointer, alignment));
    return down ? reversed(b, value) : value;
  }
  mask = mask ? splat(b, mask, lanes) : llvm::ConstantInt::getTrue(in_lanes(b.getInt1Ty(), lanes));
  Value* rest = otherwise ? to_memory(b, dtype, splat(b, otherwise, lanes)) : llvm::Constant::getNullValue(type);
  if (place.kind == Kind::kAnywhere) {
    Value* value = size_of(dtype) < 4 ? gather_out_of_words(b, element, pointer, mask, rest)
                                      : b.CreateMaskedGather(type, pointer, alignment, mask, rest);
    return from_memory(b, dtype, value);
  }
  if (!down) return from_memory(b, dtype, b.CreateMaskedLoad(type, pointer, alignment, mask, rest));
  Value* value = b.CreateMaskedLoad(type, pointer, alignment, reversed(b, mask), reversed(b, rest));
  return from_memory(b, dtype, reversed(b, value));
}

void emit_store(Ir& b, DType dtype, Value* value, const Place& place, int lanes, Value* mask, bool streaming) {
  llvm::Type* element = memory_type(b.getContext(), dtype);
  const llvm::Align alignment = element_alignment(dtype);
  if (place.kind == Kind::kUniform && !is_vector(value) && (mask == nullptr || !is_vector(mask))) {
    Value* pointer = address(b, element, place, 0);
    value = to_memory(b, dtype, value);
    const auto store = [&] {
      b.CreateAlignedStore(value, pointer, alignment);
      return Values{};
    };
    if (mask == nullptr)
      store();
    else
      emit_if(b, mask, store, [] { return Values{}; });
    return;
  }
  // All lanes are stored to one element: a scatter writes them in order, so that the last one stays.
  if (place.kind == Kind::kUniform) return emit_store(b, dtype, value, spread(b, place, lanes), lanes, mask, false);
  Value* pointer = address(b, element, place, lanes);
  value = to_memory(b, dtype, splat(b, value, lanes));
  if (mask != nullptr) mask = splat(b, mask, lanes);
  if (place.kind == Kind::kAnywhere) {
    b.CreateMaskedScatter(value, pointer, alignment, mask);
    return;
  }
  if (place.kind == Kind::kDown) {
    value = reversed(b, value);
    if (mask != nullptr) mask = reversed(b, mask);
  }
  if (mask != nullptr) {
    b.CreateMaskedStore(value, pointer, alignment, mask);
    return;
  }
  if (!streaming) {
    b.CreateAlignedStore(value, pointer, alignment);
    return;
  }
  const uint64_t bytes = static_cast<uint64_t>(lanes) * static_cast<uint64_t>(size_of(dtype));
  llvm::StoreInst* store = b.CreateAlignedStore(value, pointer, llvm::Align(bytes));
  llvm::Metadata* one = llvm::ConstantAsMetadata::get(b.getInt32(1));
  store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(b.getContext(), one));
}

}  // namespace npugraph::codegen
