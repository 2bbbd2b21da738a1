// SPDX-License-Identifier: Apache-2.0
// The words of the text form, once for the printer and the parser. Each list is in the order of its enumeration.
#pragma once

#include <array>
#include <string_view>

#include "program/program.h"
#include "tensor/lexer.h"

namespace npugraph::program {

inline constexpr std::array<std::string_view, 6> kBufferClassNames = {"input", "parameter", "constant",
                                                                      "arena", "output",    "heap"};
inline constexpr std::array<std::string_view, 3> kAccessNames = {"read", "write", "readwrite"};

// Whether the class names an input or a constant: Buffer::source.
inline bool has_source(BufferClass cls) {
  return cls == BufferClass::kInput || cls == BufferClass::kParameter || cls == BufferClass::kConstant;
}

}  // namespace npugraph::program
