// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"

namespace npugraph {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

template <typename Fn>
std::string error_of(Fn fn) {
  try {
    fn();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::vector<std::byte> sample() {
  ByteWriter writer;
  writer.u8(200);
  writer.u32(0xdeadbeef);
  writer.i32(-5);
  writer.i64(std::numeric_limits<int64_t>::min());
  writer.f64(-0.0);
  writer.f64(std::nan(""));
  writer.boolean(true);
  writer.string("text\0with zero");
  writer.blob(bytes_of("blob"));
  writer.align(64);
  writer.raw(bytes_of("raw"));
  return writer.take();
}

void read_sample(ByteReader& reader) {
  EXPECT_EQ(reader.u8(), 200);
  EXPECT_EQ(reader.u32(), 0xdeadbeef);
  EXPECT_EQ(reader.i32(), -5);
  EXPECT_EQ(reader.i64(), std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(std::signbit(reader.f64()));
  EXPECT_TRUE(std::isnan(reader.f64()));
  EXPECT_TRUE(reader.boolean());
  EXPECT_EQ(reader.string(), "text\0with zero");
  EXPECT_EQ(reader.blob().size(), 4u);
  reader.align(64);
  EXPECT_EQ(reader.offset() % 64, 0u);
  EXPECT_EQ(reader.raw(3)[0], std::byte{'r'});
}

TEST(Bytes, RoundTrip) {
  const std::vector<std::byte> data = sample();
  ByteReader reader(data, "sample");
  read_sample(reader);
  EXPECT_TRUE(reader.at_end());
}

TEST(Bytes, AreLittleEndian) {
  ByteWriter writer;
  writer.u32(0x01020304);
  const std::byte expected[] = {std::byte{4}, std::byte{3}, std::byte{2}, std::byte{1}};
  EXPECT_TRUE(std::equal(writer.bytes().begin(), writer.bytes().end(), std::begin(expected), std::end(expected)));
}

TEST(Bytes, EveryTruncationIsAnError) {
  const std::vector<std::byte> data = sample();
  for (size_t size = 0; size < data.size(); ++size) {
    const std::vector<std::byte> part(data.begin(), data.begin() + static_cast<ptrdiff_t>(size));
    ByteReader reader(part, "part");
    EXPECT_THROW(read_sample(reader), UserError) << size;
  }
}

TEST(Bytes, ErrorsNameSourceAndOffset) {
  const std::byte data[] = {std::byte{1}, std::byte{7}, std::byte{0}};
  ByteReader reader(data, "model.ngp");
  reader.u8();
  EXPECT_EQ(error_of([&] { reader.u32(); }), "model.ngp: at byte 1: the data ends early: 4 bytes wanted, 2 left");
  EXPECT_EQ(error_of([&] { reader.boolean(); }), "model.ngp: at byte 2: expected a boolean, found the byte 7");
}

TEST(Bytes, LengthsBeyondTheDataAllocateNothing) {
  for (uint64_t length : {uint64_t{9}, std::numeric_limits<uint64_t>::max()}) {
    ByteWriter writer;
    writer.u64(length);
    writer.u64(0);
    const std::vector<std::byte> data = writer.take();
    EXPECT_THROW(ByteReader(data, "d").string(), UserError);
    EXPECT_THROW(ByteReader(data, "d").blob(), UserError);
    EXPECT_THROW(ByteReader(data, "d").count(1), UserError);
  }
}

TEST(Bytes, CountsFitTheRest) {
  ByteWriter writer;
  writer.u64(2);
  writer.u64(0);
  EXPECT_EQ(ByteReader(writer.bytes(), "d").count(4), 2u);
  EXPECT_THROW(ByteReader(writer.bytes(), "d").count(5), UserError);
}

TEST(Bytes, PaddingMustBeZero) {
  ByteWriter writer;
  writer.u8(0);
  writer.u8(1);
  writer.align(4);
  ByteReader reader(writer.bytes(), "d");
  reader.u8();
  EXPECT_EQ(error_of([&] { reader.align(4); }), "d: at byte 4: expected zeros as padding");
}

TEST(Bytes, Crc32cMatchesTheStandard) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8a9136aau);  // RFC 3720, B.4
}

TEST(Bytes, Crc32cOfPartsIsThatOfTheWhole) {
  const std::string_view text = "the quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(crc32c(bytes_of(text.substr(cut)), crc32c(bytes_of(text.substr(0, cut)))), crc32c(bytes_of(text)));
}

}  // namespace
}  // namespace npugraph
