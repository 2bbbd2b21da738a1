// SPDX-License-Identifier: Apache-2.0
// Files of NumPy: format versions 1 and 2, little-endian, C order.
//
// bf16 has no NumPy type; as in ml_dtypes it is the void type of two bytes ("<V2").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace npugraph {

struct NpyArray {
  DType dtype = DType::kF32;
  std::vector<int64_t> sizes;
  std::vector<char> data;  // row-major
};

// UserError that names the path and what is wrong with the file.
NpyArray read_npy(const std::string& path);
// `data` is row-major. UserError for an element type that NumPy does not have, and when the file cannot be written.
void write_npy(const std::string& path, DType dtype, std::span<const int64_t> sizes, std::span<const char> data);

}  // namespace npugraph
