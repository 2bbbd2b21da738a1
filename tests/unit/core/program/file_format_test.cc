// SPDX-License-Identifier: Apache-2.0
#include "program/file_format.h"

#include <vector>

#include <gtest/gtest.h>

namespace npugraph::program {
namespace {

uint64_t sum(const std::vector<std::vector<std::byte>>& pieces) {
  Checksum checksum;
  for (const auto& piece : pieces) checksum.add(piece);
  return checksum.value();
}

TEST(Checksum, PiecesCountAsIfPadded) {
  const std::vector<std::byte> head(100, std::byte{3});
  const std::vector<std::byte> tail(64, std::byte{4});
  std::vector<std::byte> whole = head;
  whole.resize(128);
  whole.insert(whole.end(), tail.begin(), tail.end());
  EXPECT_EQ(sum({head, tail}), sum({whole}));
}

TEST(Checksum, OrderAndLengthCount) {
  const std::vector<std::byte> a(64, std::byte{1});
  const std::vector<std::byte> b(64, std::byte{2});
  const std::vector<std::byte> zeros(64);
  EXPECT_NE(sum({a, b}), sum({b, a}));
  EXPECT_NE(sum({a}), sum({a, zeros}));
  EXPECT_NE(sum({}), sum({zeros}));
}

TEST(Checksum, EverySingleBitCounts) {
  std::vector<std::byte> data(192);
  const uint64_t before = sum({data});
  for (size_t i = 0; i < data.size() * 8; ++i) {
    data[i / 8] ^= std::byte(1 << (i % 8));
    ASSERT_NE(sum({data}), before) << "bit " << i;
    data[i / 8] ^= std::byte(1 << (i % 8));
  }
}

TEST(FileFormat, Padding) {
  EXPECT_EQ(padding_after(0), 0u);
  EXPECT_EQ(padding_after(1), 63u);
  EXPECT_EQ(padding_after(64), 0u);
}

}  // namespace
}  // namespace npugraph::program
