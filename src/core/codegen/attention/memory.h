// SPDX-License-Identifier: Apache-2.0
// Where the operands of an attention lie.
#pragma once

#include <array>
#include <cstdint>

#include "tensor/dtype.h"

namespace npugraph::codegen {

// A tensor of four dimensions in memory; strides in bytes.
struct HeadsPlace {
  std::array<int64_t, 4> strides{};
  DType dtype = DType::kF32;

  int64_t offset(int64_t batch, int64_t head, int64_t row = 0, int64_t column = 0) const {
    return batch * strides[0] + head * strides[1] + row * strides[2] + column * strides[3];
  }
  int64_t row() const { return strides[2]; }
  int64_t column() const { return strides[3]; }
  bool is_dense() const { return column() == size_of(dtype); }
};

// Memory of the operands of a call. Null where the plan has none.
struct AttentionMemory {
  const char* q = nullptr;
  const char* k = nullptr;
  const char* v = nullptr;
  const char* mask = nullptr;
  char* out = nullptr;
  char* logsumexp = nullptr;
  float* parts = nullptr;  // results of chunks
  const int32_t* pages = nullptr;
  int64_t position = 0;  // of the first query among the keys
};

}  // namespace npugraph::codegen
