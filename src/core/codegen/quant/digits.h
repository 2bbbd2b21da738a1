// SPDX-License-Identifier: Apache-2.0
// Vectors in the form in which they are multiplied with codes: groups of 32 elements that share a scale, in signed
// digits of 8 bits.
//
// element = scale * (d0 + 256 d1 + 65536 d2) with three digits, rounded to 2^-24 of the largest magnitude of the group;
// with one digit scale * d0, rounded to 1 / 127 of it. Products of codes with digits are integers, so their sums are
// exact.
#pragma once

#include <cstdint>

#include "loop/gguf.h"
#include "target/target.h"

namespace npugraph::codegen {

inline constexpr int kGroup = 32;  // elements

// The layout of a group in memory, in bytes. Digits, the highest first, and starts are stored twice: once for each of
// two rows of codes.
struct DigitLayout {
  int digits = 1;
  int starts = 0;  // vectors that sums of products begin with; they compensate for the zero_code of unsigned codes

  static constexpr int kVector = 64;
  int64_t digit(int i) const { return i * kVector; }
  int64_t start(int i) const { return (digits + i) * kVector; }
  int64_t scale() const { return (digits + starts) * kVector; }
  int64_t sum() const { return scale() + 4; }  // of the elements
  int64_t bytes() const { return (digits + starts + 1) * kVector; }
  int64_t bytes_of(int64_t elements) const { return elements / kGroup * bytes(); }
};

// The layout for codes of this type. With three digits, codes of 8 bits have two starts, of the highest digit and of
// the others together, because sums of all three digits do not fit in 32 bits.
DigitLayout digit_layout(loop::BlockType type, int digits);

// Converts `groups` adjacent groups of f32. A group with a NaN has a scale that is NaN.
using DigitsFunction = void(const float* elements, int64_t groups, void* to);

// Requires Target::int8_dot. Made on first use, shared by the process. Thread-safe.
DigitsFunction* digits_code(const target::Target& target, loop::BlockType type, int digits);

}  // namespace npugraph::codegen
