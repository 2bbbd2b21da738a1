// SPDX-License-Identifier: Apache-2.0
// The layout of a saved Program, shared by its writer and its reader. All numbers are little-endian.
//
//   FileHeader
//   metadata, text form     metadata is lines of "key" "value"; zeros up to a multiple of 64
//   constants               in their order, each followed by zeros up to a multiple of 64
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "program/program.h"

namespace npugraph::program {

static_assert(std::endian::native == std::endian::little, "saved Programs are little-endian");

inline constexpr std::array<char, 8> kFileMagic = {'N', 'P', 'U', 'G', 'P', 'R', 'O', 'G'};
inline constexpr uint32_t kFileVersion = 2;
inline constexpr uint64_t kFileAlignment = 64;

struct FileHeader {
  std::array<char, 8> magic = kFileMagic;
  uint32_t version = kFileVersion;
  uint32_t reserved = 0;
  uint64_t metadata_bytes = 0;
  uint64_t text_bytes = 0;
  uint64_t file_bytes = 0;
  uint64_t checksum = 0;  // of the whole file, with 0 in this field
  std::array<uint64_t, 2> padding = {};
};
static_assert(sizeof(FileHeader) == kFileAlignment);

// How many zeros follow `bytes` bytes.
constexpr uint64_t padding_after(uint64_t bytes) { return -bytes % kFileAlignment; }

// Detects damage, not malice: a change within one word always changes the value.
class Checksum {
 public:
  // Counts as if zeros followed up to a multiple of 64.
  void add(std::span<const std::byte> data);
  uint64_t value() const;

 private:
  void add_block(const std::byte* block);
  // Independent strands, so that the processor works on all at once.
  std::array<uint64_t, 4> strands_ = {1, 2, 3, 4};
};

// A message that names the first opaque constant or task of this process (Python, nested, event), which a file cannot
// hold; empty if there is none.
std::string why_not_portable(const Program& program);

}  // namespace npugraph::program
