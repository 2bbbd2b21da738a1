// SPDX-License-Identifier: Apache-2.0
// Tensors that go into graphs and come out of them: row-major elements in the memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ge/api/types.h"

namespace ge {

class Shape {
 public:
  Shape() = default;  // of a scalar
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  size_t GetDimNum() const { return dims_.size(); }
  int64_t GetDim(size_t index) const { return index < dims_.size() ? dims_[index] : 0; }
  std::vector<int64_t> GetDims() const { return dims_; }
  // Number of elements; -1 if a size is unknown or the number does not fit 64 bits.
  int64_t GetShapeSize() const;
  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> dims_;  // -1: unknown
};

class TensorDesc {
 public:
  TensorDesc() = default;
  explicit TensorDesc(Shape shape, Format format = FORMAT_ND, DataType type = DT_FLOAT)
      : shape_(std::move(shape)), format_(format), type_(type) {}

  const Shape& GetShape() const { return shape_; }
  void SetShape(Shape shape) { shape_ = std::move(shape); }
  Format GetFormat() const { return format_; }
  void SetFormat(Format format) { format_ = format; }
  DataType GetDataType() const { return type_; }
  void SetDataType(DataType type) { type_ = type; }

 private:
  Shape shape_;
  Format format_ = FORMAT_ND;
  DataType type_ = DT_FLOAT;
};

// A copy shares the data. Not thread-safe, like a vector.
class Tensor {
 public:
  // Must not throw.
  using DeleteFunc = std::function<void(uint8_t*)>;

  Tensor() = default;  // no data
  explicit Tensor(TensorDesc desc) : desc_(std::move(desc)) {}
  // SetData() with a copy; there is no data if it fails.
  Tensor(TensorDesc desc, const uint8_t* data, size_t size) : desc_(std::move(desc)) { SetData(data, size); }

  const TensorDesc& GetTensorDesc() const { return desc_; }
  Status SetTensorDesc(TensorDesc desc);

  const uint8_t* GetData() const { return data_.get(); }
  uint8_t* GetData() { return data_.get(); }
  size_t GetSize() const { return size_; }
  // Copies the data to 64-byte aligned memory. Null with size 0: no data. PARAM_INVALID for null with another size,
  // FAILED if there is not enough memory; the tensor stays as it was.
  Status SetData(const uint8_t* data, size_t size);
  // Uses memory of the caller. `deleter` is called when the last copy of the tensor goes; it may be empty.
  // PARAM_INVALID for null with a size; the tensor stays as it was.
  Status SetData(uint8_t* data, size_t size, const DeleteFunc& deleter);

  // A tensor with data of its own; without data if this one has none, or if there is not enough memory.
  Tensor Clone() const;

 private:
  void set_data(uint8_t* data, size_t size, const DeleteFunc& deleter);

  TensorDesc desc_;
  std::shared_ptr<uint8_t> data_;
  size_t size_ = 0;
};

}  // namespace ge
