// SPDX-License-Identifier: Apache-2.0
#include "ge/api/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "ge/api/run/api_error.h"
#include "program/offsets.h"

namespace ge {

using npugraph::ge::api_call;

namespace {

void check_data(const uint8_t* data, size_t size) {
  if (data == nullptr && size > 0)
    throw npugraph::ge::ApiError(PARAM_INVALID, npugraph::cat("the address of ", size, " bytes of data is null"));
}

}  // namespace

int64_t Shape::GetShapeSize() const {
  if (std::ranges::any_of(dims_, [](int64_t size) { return size < 0; })) return -1;
  if (std::ranges::find(dims_, 0) != dims_.end()) return 0;
  int64_t elements = 1;
  for (const int64_t size : dims_) {
    if (__builtin_mul_overflow(elements, size, &elements)) return -1;
  }
  return elements;
}

Status Tensor::SetTensorDesc(TensorDesc desc) {
  desc_ = std::move(desc);
  return SUCCESS;
}

Status Tensor::SetData(const uint8_t* data, size_t size) {
  return api_call("Tensor::SetData", [&] {
    check_data(data, size);
    if (data == nullptr) return set_data(nullptr, 0, {});
    constexpr auto kUnit = static_cast<size_t>(npugraph::program::kArenaAlignment);
    if (size > SIZE_MAX - kUnit) throw std::bad_alloc();
    auto* copy = static_cast<uint8_t*>(std::aligned_alloc(kUnit, (size / kUnit + 1) * kUnit));
    if (copy == nullptr) throw std::bad_alloc();
    std::memcpy(copy, data, size);
    set_data(copy, size, [](uint8_t* memory) { std::free(memory); });
  });
}

Status Tensor::SetData(uint8_t* data, size_t size, const DeleteFunc& deleter) {
  return api_call("Tensor::SetData", [&] {
    check_data(data, size);
    set_data(data, size, deleter);
  });
}

void Tensor::set_data(uint8_t* data, size_t size, const DeleteFunc& deleter) {
  data_ = deleter ? std::shared_ptr<uint8_t>(data, deleter) : std::shared_ptr<uint8_t>(data, [](uint8_t*) {});
  size_ = size;
}

Tensor Tensor::Clone() const { return {desc_, data_.get(), size_}; }

}  // namespace ge
