// SPDX-License-Identifier: Apache-2.0
#include "tensor/npy.h"

#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace npugraph {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMaxHeader = 1 << 20;

constexpr std::array<std::pair<std::string_view, DType>, 17> kTypes{{
    {"|b1", DType::kBool},
    {"|u1", DType::kU8},
    {"|i1", DType::kI8},
    {"<i2", DType::kI16},
    {"<i4", DType::kI32},
    {"<i8", DType::kI64},
    {"<u2", DType::kU16},
    {"<u4", DType::kU32},
    {"<u8", DType::kU64},
    {"<f2", DType::kF16},
    {"<V2", DType::kBF16},
    {"|V2", DType::kBF16},
    {"<f4", DType::kF32},
    {"<f8", DType::kF64},
    {"<c8", DType::kC64},
    {"<c16", DType::kC128},
    {"<b1", DType::kBool},
}};

// Reads the header's dictionary, {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }. NumPy sorts its keys but
// guarantees no order.
class Header {
 public:
  Header(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyArray parse() {
    NpyArray array;
    array.dtype = type_of(quoted(value_of("descr")));
    if (!value_of("fortran_order").starts_with("False")) {
      fail("is in Fortran order; save numpy.ascontiguousarray(x) instead");
    }
    array.sizes = shape(value_of("shape"));
    return array;
  }

  [[noreturn]] void fail(const std::string& what) const { throw UserError(cat("'", path_, "' ", what)); }

 private:
  std::string_view value_of(std::string_view key) const {
    size_t at = text_.find(cat("'", key, "'"));
    if (at != std::string_view::npos) at = text_.find(':', at);
    if (at != std::string_view::npos) at = text_.find_first_not_of(' ', at + 1);
    if (at == std::string_view::npos) fail(cat("is not a NumPy file: its header has no '", key, "'"));
    return text_.substr(at);
  }

  std::string_view quoted(std::string_view text) const {
    const size_t end = text.size() > 1 && text[0] == '\'' ? text.find('\'', 1) : std::string_view::npos;
    if (end == std::string_view::npos) fail("has elements of a structured type");
    return text.substr(1, end - 1);
  }

  DType type_of(std::string_view descr) const {
    for (const auto& [name, dtype] : kTypes) {
      if (name == descr) return dtype;
    }
    fail(cat("has elements of type '", descr, "', which are not taken"));
  }

  std::vector<int64_t> shape(std::string_view text) const {
    std::vector<int64_t> sizes;
    if (text.empty() || text[0] != '(') fail("has no shape in its header");
    text.remove_prefix(1);
    for (;;) {
      text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
      if (text.starts_with(')')) return sizes;
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
      if (error != std::errc() || size < 0) fail("has a shape that cannot be read");
      sizes.push_back(size);
      text.remove_prefix(end - text.data());
    }
  }

  std::string_view text_;
  const std::string& path_;
};

}  // namespace

NpyArray read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(cat("cannot read '", path, "'"));
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto fail = [&](const std::string& what) { throw UserError(cat("'", path, "' ", what)); };
  if (!bytes.starts_with(kMagic) || bytes.size() < 12) fail("is not a NumPy file");
  const int version = bytes[6];
  if (version != 1 && version != 2) fail(cat("has version ", version, " of NumPy's format; 1 and 2 are taken"));
  const size_t length_bytes = version == 1 ? 2 : 4;
  uint32_t length = 0;
  std::memcpy(&length, &bytes[8], length_bytes);
  const size_t start = 8 + length_bytes;
  if (length > kMaxHeader || start + length > bytes.size()) fail("is cut off in its header");

  NpyArray array = Header(std::string_view(bytes).substr(start, length), path).parse();
  int64_t expected = size_of(array.dtype);
  bool overflow = false;
  for (const int64_t size : array.sizes) overflow |= __builtin_mul_overflow(expected, size, &expected);
  const std::string_view data = std::string_view(bytes).substr(start + length);
  if (overflow || static_cast<int64_t>(data.size()) != expected) {
    fail(cat("has ", data.size(), " bytes of data, its shape needs ", expected));
  }
  array.data.assign(data.begin(), data.end());
  return array;
}

void write_npy(const std::string& path, DType dtype, std::span<const int64_t> sizes, std::span<const char> data) {
  std::string_view descr;
  for (const auto& [name, type] : kTypes) {
    if (descr.empty() && type == dtype) descr = name;
  }
  if (descr.empty()) throw UserError(cat("NumPy has no type for ", name_of(dtype), ", cannot write '", path, "'"));
  std::string header = cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (");
  for (const int64_t size : sizes) header += cat(size, ", ");
  header += "), }";
  // The data starts at a multiple of 64.
  const size_t start = (kMagic.size() + 4 + header.size() + 1 + 63) / 64 * 64;
  header.resize(start - kMagic.size() - 4 - 1, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());

  std::ofstream file(path, std::ios::binary);
  file << kMagic << '\x01' << '\0';
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << header;
  file.write(data.data(), static_cast<std::streamsize>(data.size()));
  if (!file.flush()) throw UserError(cat("cannot write '", path, "'"));
}

}  // namespace npugraph
