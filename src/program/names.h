// SPDX-License-Identifier: Apache-2.0
// The words of the text form, once for the printer and the parser. Each list is in the order of its enumeration.
#pragma once

#include <array>
#include <string_view>

#include "program/program.h"

namespace npugraph::program {

inline constexpr std::array<std::string_view, 6> kBufferClassNames = {"input", "parameter", "constant",
                                                                      "arena", "output",    "heap"};
inline constexpr std::array<std::string_view, 3> kAccessNames = {"read", "write", "readwrite"};
inline constexpr std::array<std::string_view, 3> kTaskKindNames = {"kernel", "aten", "python"};

template <typename Enum, size_t n>
std::string_view name_in(const std::array<std::string_view, n>& names, Enum value) {
  return names[static_cast<size_t>(value)];
}

// Whether the class names an input or a constant: Buffer::source.
inline bool has_source(BufferClass cls) {
  return cls == BufferClass::kInput || cls == BufferClass::kParameter || cls == BufferClass::kConstant;
}

// [A-Za-z_][A-Za-z0-9_.]*
inline bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (text.empty() || !letter(text[0])) return false;
  for (const char c : text) {
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '.') return false;
  }
  return true;
}

}  // namespace npugraph::program
