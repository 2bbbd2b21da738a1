// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"

namespace npugraph {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli, bits reversed
constexpr size_t kSlices = 8;

using CrcTables = std::array<std::array<uint32_t, 256>, kSlices>;

// tables[s][b]: the checksum of byte b followed by s zero bytes.
constexpr CrcTables make_tables() {
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t slice = 1; slice < kSlices; ++slice)
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  return tables;
}

constexpr CrcTables kTables = make_tables();

uint64_t load_little_endian(const std::byte* bytes, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{std::to_integer<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

void append_little_endian(std::vector<std::byte>& out, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

size_t padding(size_t offset, size_t alignment) { return (alignment - offset % alignment) % alignment; }

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed) {
  uint32_t crc = ~seed;
  while (bytes.size() >= kSlices) {
    const uint64_t word = load_little_endian(bytes.data(), kSlices) ^ crc;
    crc = 0;
    for (size_t i = 0; i < kSlices; ++i) crc ^= kTables[kSlices - 1 - i][(word >> (8 * i)) & 0xff];
    bytes = bytes.subspan(kSlices);
  }
  for (std::byte byte : bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<uint32_t>(byte)) & 0xff];
  return ~crc;
}

void ByteWriter::u8(uint8_t v) { bytes_.push_back(std::byte{v}); }
void ByteWriter::u32(uint32_t v) { append_little_endian(bytes_, v, sizeof(v)); }
void ByteWriter::u64(uint64_t v) { append_little_endian(bytes_, v, sizeof(v)); }
void ByteWriter::f64(double v) { u64(std::bit_cast<uint64_t>(v)); }
void ByteWriter::raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

void ByteWriter::blob(std::span<const std::byte> bytes) {
  u64(bytes.size());
  raw(bytes);
}

void ByteWriter::string(std::string_view text) { blob(std::as_bytes(std::span(text))); }

void ByteWriter::align(size_t alignment) { bytes_.resize(bytes_.size() + padding(bytes_.size(), alignment)); }

void ByteReader::fail(std::string_view message) const {
  throw UserError(cat(source_, ": at byte ", offset_, ": ", message));
}

std::span<const std::byte> ByteReader::raw(uint64_t size) {
  if (size > remaining()) fail(cat("the data ends early: ", size, " bytes wanted, ", remaining(), " left"));
  auto out = bytes_.subspan(offset_, size);
  offset_ += size;
  return out;
}

uint64_t ByteReader::little_endian(size_t size) { return load_little_endian(raw(size).data(), size); }

uint8_t ByteReader::u8() { return static_cast<uint8_t>(little_endian(1)); }
uint32_t ByteReader::u32() { return static_cast<uint32_t>(little_endian(4)); }
uint64_t ByteReader::u64() { return little_endian(8); }
double ByteReader::f64() { return std::bit_cast<double>(u64()); }

bool ByteReader::boolean() {
  const uint8_t v = u8();
  if (v > 1) fail(cat("expected a boolean, found the byte ", int{v}));
  return v == 1;
}

std::span<const std::byte> ByteReader::blob() { return raw(u64()); }

std::string ByteReader::string() {
  auto bytes = blob();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void ByteReader::align(size_t alignment) {
  auto skipped = raw(padding(offset_, alignment));
  if (std::any_of(skipped.begin(), skipped.end(), [](std::byte b) { return b != std::byte{0}; }))
    fail("expected zeros as padding");
}

size_t ByteReader::count(size_t item_size) {
  const uint64_t n = u64();
  if (n > remaining() / std::max<size_t>(item_size, 1)) fail(cat("a count of ", n, " is more than the data can hold"));
  return n;
}

}  // namespace npugraph
