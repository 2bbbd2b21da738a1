// SPDX-License-Identifier: Apache-2.0
// Binary files, byte by byte: little-endian on every host, lengths before contents. Neither class is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace npugraph {

// CRC-32C (Castagnoli). `seed` is the checksum of the preceding bytes, so that a checksum can be computed in parts.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed = 0);

class ByteWriter {
 public:
  void u8(uint8_t v);
  void u32(uint32_t v);
  void u64(uint64_t v);
  void i32(int32_t v) { u32(static_cast<uint32_t>(v)); }
  void i64(int64_t v) { u64(static_cast<uint64_t>(v)); }
  void f64(double v);  // keeps the bits
  void boolean(bool v) { u8(v ? 1 : 0); }
  void raw(std::span<const std::byte> bytes);   // the bytes alone
  void blob(std::span<const std::byte> bytes);  // length as u64, then the bytes
  void string(std::string_view text);           // length as u64, then the bytes
  void align(size_t alignment);                 // zeros up to a multiple of `alignment` from the start

  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads what ByteWriter wrote from `bytes`, which must outlive the reader and everything that blob() and raw() return.
// Every read is checked: a UserError names `source`, the offset and what was to be read. No memory is allocated for a
// length that the rest of the bytes cannot hold.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string source) : bytes_(bytes), source_(std::move(source)) {}

  uint8_t u8();
  uint32_t u32();
  uint64_t u64();
  int32_t i32() { return static_cast<int32_t>(u32()); }
  int64_t i64() { return static_cast<int64_t>(u64()); }
  double f64();
  bool boolean();  // UserError unless 0 or 1
  std::span<const std::byte> raw(uint64_t size);
  std::span<const std::byte> blob();
  std::string string();
  void align(size_t alignment);  // UserError unless the bytes passed over are zeros
  // Reads a u64: the number of items that follow, each of at least `item_size` bytes. UserError if the rest of the
  // bytes cannot hold them.
  size_t count(size_t item_size);

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }
  bool at_end() const { return remaining() == 0; }
  [[noreturn]] void fail(std::string_view message) const;

 private:
  uint64_t little_endian(size_t size);
  std::span<const std::byte> bytes_;
  std::string source_;
  size_t offset_ = 0;
};

}  // namespace npugraph
