// SPDX-License-Identifier: Apache-2.0
// Formats: how an NPU arranges the memory of a tensor. Here all memory is plain, so a format is only a tag.
#pragma once

#include <array>

namespace npugraph {

// The format of a tensor that was given none.
inline constexpr int kPlainFormat = 2;

struct Format {
  int code;  // number in the driver
  const char* name;
  int base = code;  // the plain format that it replaces; its own code if it is plain
};

inline constexpr std::array kFormats = {
    Format{-1, "UNDEFINED"},    Format{0, "NCHW"},          Format{1, "NHWC"},
    Format{kPlainFormat, "ND"}, Format{3, "NC1HWC0", 0},    Format{4, "FRACTAL_Z", 0},
    Format{16, "HWCN"},         Format{27, "NDHWC"},        Format{29, "FRACTAL_NZ", kPlainFormat},
    Format{30, "NCDHW"},        Format{32, "NDC1HWC0", 30}, Format{33, "FRACTAL_Z_3D", 30},
    Format{35, "NC"},           Format{47, "NCL"},
};

}  // namespace npugraph
