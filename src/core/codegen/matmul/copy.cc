// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/copy.h"

#include <bit>
#include <bitset>
#include <cstring>

#include "base/error.h"

namespace npugraph::codegen {
namespace {

// An element of a type in memory, by its bits.
struct F32 {
  using Bits = uint32_t;
  static float value(Bits bits) { return std::bit_cast<float>(bits); }
};

struct Bf16 {
  using Bits = uint16_t;
  static float value(Bits bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct F16 {
  using Bits = uint16_t;
  static float value(Bits bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    const uint32_t rest = bits & 0x7fff;
    // Scales the exponents of f16 to those of f32, which is exact for denormals too. Infinities and NaN are done
    // separately.
    float scaled = std::bit_cast<float>(rest << 13) * 0x1p112f;
    if (rest >= 0x7c00) scaled = std::bit_cast<float>((rest << 13) | 0x7f800000);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | sign);
  }
};

struct I8 {
  using Bits = int8_t;
  static float value(Bits bits) { return bits; }
};

struct U8 {
  using Bits = uint8_t;
};

template <typename Body>
void with_element(DType dtype, Body body) {
  switch (dtype) {
    case DType::kF32: return body(F32{});
    case DType::kBF16: return body(Bf16{});
    case DType::kF16: return body(F16{});
    case DType::kI8: return body(I8{});
    default: NG_CHECK(false, "no matrix element: ", name_of(dtype));
  }
}

template <typename Element>
typename Element::Bits bits_at(const char* at) {
  typename Element::Bits bits;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}

template <typename Element>
void convert(const char* from, int64_t stride, int64_t count, float* to) {
  constexpr int64_t kSize = sizeof(typename Element::Bits);
  if (stride == kSize) {
    for (int64_t i = 0; i < count; ++i) to[i] = Element::value(bits_at<Element>(from + i * kSize));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = Element::value(bits_at<Element>(from + i * stride));
  }
}

// Copies elements to a type that holds all of their values, then zeros up to `padded`.
template <typename Element, typename To>
void copy_bits(const char* from, int64_t stride, int64_t count, To* to, int64_t padded) {
  if (stride == sizeof(To) && sizeof(To) == sizeof(typename Element::Bits)) {
    std::memcpy(to, from, count * sizeof(To));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = bits_at<Element>(from + i * stride);
  }
  for (int64_t i = count; i < padded; ++i) to[i] = 0;
}

// Interleaves rows a and b, element by element.
void interleave(const char* a, const char* b, int64_t stride, int64_t count, uint16_t* to) {
  if (stride == 2) {
    for (int64_t c = 0; c < count; ++c) {
      to[2 * c] = bits_at<Bf16>(a + c * 2);
      to[2 * c + 1] = bits_at<Bf16>(b + c * 2);
    }
  } else {
    for (int64_t c = 0; c < count; ++c) {
      to[2 * c] = bits_at<Bf16>(a + c * stride);
      to[2 * c + 1] = bits_at<Bf16>(b + c * stride);
    }
  }
}

}  // namespace

void copy_elements(const char* from, DType from_type, int64_t stride, int64_t count, void* to, DType to_type,
                   int64_t padded) {
  if (to_type == DType::kBF16) return copy_bits<Bf16>(from, stride, count, static_cast<uint16_t*>(to), padded);
  if (to_type == DType::kI16) {
    auto* wide = static_cast<int16_t*>(to);
    return from_type == DType::kU8 ? copy_bits<U8>(from, stride, count, wide, padded)
                                   : copy_bits<I8>(from, stride, count, wide, padded);
  }
  if (to_type == DType::kI8) return copy_bits<I8>(from, stride, count, static_cast<int8_t*>(to), padded);
  auto* values = static_cast<float*>(to);
  with_element(from_type, [&](auto element) { convert<decltype(element)>(from, stride, count, values); });
  for (int64_t i = count; i < padded; ++i) values[i] = 0;
}

void copy_row(const char* from, DType from_type, int64_t stride, WidenFunction* widen, int64_t count, void* to,
              DType to_type, int64_t padded) {
  if (widen == nullptr || stride != size_of(from_type))
    return copy_elements(from, from_type, stride, count, to, to_type, padded);
  widen(from, count, to);
  if (padded == count) return;
  const int64_t size = size_of(to_type);
  std::memset(static_cast<char*>(to) + count * size, 0, static_cast<size_t>((padded - count) * size));
}

void pack_steps(const char* from, DType from_type, int64_t k_stride, int64_t column_stride, WidenFunction* widen,
                int64_t count, int64_t steps, int64_t columns, void* panel) {
  auto* to = static_cast<float*>(panel);
  for (int64_t s = 0; s < steps; ++s, to += columns)
    copy_row(from + s * k_stride, from_type, column_stride, widen, count, to, DType::kF32, columns);
}

void pack_pairs(const char* from, int64_t k_stride, int64_t column_stride, int64_t count, int64_t k, int64_t first,
                int64_t steps, int64_t columns, void* panel) {
  auto* to = static_cast<uint16_t*>(panel);
  for (int64_t s = first; s < first + steps; ++s, to += 2 * columns) {
    const char* even = from + 2 * s * k_stride;
    const bool whole = 2 * s + 1 < k;
    interleave(even, whole ? even + k_stride : even, column_stride, count, to);
    if (!whole) {
      for (int64_t c = 0; c < count; ++c) to[2 * c + 1] = 0;
    }
    for (int64_t i = 2 * count; i < 2 * columns; ++i) to[i] = 0;
  }
}

// Piece p of the result was piece p % rows * columns + p / rows. These places form cycles; pieces move by one in their
// cycle.
void transpose_in_place(char* matrix, int64_t rows, int64_t columns, int64_t bytes) {
  std::bitset<kMostPieces> moved;
  char first[kMostPieceBytes];
  const auto piece = [&](int64_t p) { return matrix + p * bytes; };
  for (int64_t start = 0; start < rows * columns; ++start) {
    if (moved[start]) continue;
    std::memcpy(first, piece(start), bytes);
    int64_t to = start;
    for (int64_t from = to % rows * columns + to / rows; from != start; from = to % rows * columns + to / rows) {
      std::memcpy(piece(to), piece(from), bytes);
      moved[to] = true;
      to = from;
    }
    std::memcpy(piece(to), first, bytes);
    moved[to] = true;
  }
}

}  // namespace npugraph::codegen
