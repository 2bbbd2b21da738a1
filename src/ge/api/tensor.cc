// SPDX-License-Identifier: Apache-2.0
#include "ge/api/tensor.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "program/offsets.h"

namespace ge {

int64_t Shape::GetShapeSize() const {
  int64_t elements = 1;
  for (const int64_t size : dims_) {
    if (size < 0) return -1;
    elements *= size;
  }
  return elements;
}

Status Tensor::SetTensorDesc(TensorDesc desc) {
  desc_ = std::move(desc);
  return SUCCESS;
}

Status Tensor::SetData(const uint8_t* data, size_t size) {
  constexpr auto kUnit = static_cast<size_t>(npugraph::program::kArenaAlignment);
  auto* copy = static_cast<uint8_t*>(std::aligned_alloc(kUnit, (size + kUnit - 1) / kUnit * kUnit));
  if (copy == nullptr) throw std::bad_alloc();
  if (size > 0) std::memcpy(copy, data, size);
  return SetData(copy, size, [](uint8_t* memory) { std::free(memory); });
}

Status Tensor::SetData(uint8_t* data, size_t size, const DeleteFunc& deleter) {
  data_ = deleter ? std::shared_ptr<uint8_t>(data, deleter) : std::shared_ptr<uint8_t>(data, [](uint8_t*) {});
  size_ = size;
  return SUCCESS;
}

Tensor Tensor::Clone() const { return {desc_, data_.get(), size_}; }

}  // namespace ge
