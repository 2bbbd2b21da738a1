// SPDX-License-Identifier: Apache-2.0
// Lossless compression of floating-point numbers by an entropy code of their exponents (asymmetric numeral systems with
// ranges: Duda, 2013). The most significant byte of each element, after its sign is rotated to the end, is a symbol:
// the exponent, for float16 the exponent and 3 bits of the mantissa. All other bytes are stored as they are.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kSymbols = 256;
constexpr uint32_t kTotalBits = 16, kTotal = 1u << kTotalBits;
constexpr uint32_t kLeastState = 1u << 23;  // states are in [kLeastState, kLeastState * 256)
constexpr size_t kStateBytes = 4;

// Assignment of the numbers below kTotal to symbols. Each symbol has at least one, so that symbols with count 0 in a
// pdf can be coded, too.
struct SymbolCode {
  std::array<uint32_t, kSymbols> first, count;
  std::vector<uint8_t> symbols;  // by number
};

SymbolCode code_of(const char* op, const Tensor& pdf) {
  check_type(op, "pdf", pdf, {at::kInt});
  TORCH_CHECK(pdf.numel() == kSymbols, op, ": pdf has ", pdf.numel(), " elements, allowed are ", kSymbols);
  const Tensor counts = pdf.flatten().clamp_min(0).to(at::kDouble).contiguous();
  const double* seen = counts.const_data_ptr<double>();
  const double total = std::max(counts.sum().item<double>(), 1.0);
  SymbolCode code;
  uint32_t given = 0;
  for (size_t symbol = 0; symbol < kSymbols; ++symbol)
    given += code.count[symbol] = 1 + static_cast<uint32_t>(seen[symbol] / total * (kTotal - kSymbols));
  code.count[static_cast<size_t>(std::max_element(seen, seen + kSymbols) - seen)] += kTotal - given;
  for (size_t symbol = 0; symbol < kSymbols; ++symbol) {
    code.first[symbol] = static_cast<uint32_t>(code.symbols.size());
    code.symbols.insert(code.symbols.end(), code.count[symbol], static_cast<uint8_t>(symbol));
  }
  return code;
}

Bytes encoded(const SymbolCode& code, const Bytes& symbols) {
  Bytes out;
  uint32_t state = kLeastState;
  for (auto symbol = symbols.rbegin(); symbol != symbols.rend(); ++symbol) {
    const uint32_t count = code.count[*symbol];
    for (; state / count >= (kLeastState >> kTotalBits << 8); state >>= 8) out.push_back(static_cast<uint8_t>(state));
    state = (state / count << kTotalBits) + state % count + code.first[*symbol];
  }
  for (size_t byte = 0; byte < kStateBytes; ++byte) out.push_back(static_cast<uint8_t>(state >> (8 * byte)));
  std::reverse(out.begin(), out.end());
  return out;
}

Bytes decoded(const char* op, const SymbolCode& code, const Bytes& stream, size_t count) {
  TORCH_CHECK(stream.size() >= kStateBytes, op, ": fixed and var have ", stream.size(), " bytes, allowed are ",
              kStateBytes, " and more");
  size_t next = 0;
  uint32_t state = 0;
  while (next < kStateBytes) state = state << 8 | stream[next++];
  Bytes out(count);
  for (uint8_t& symbol : out) {
    const uint32_t number = state & (kTotal - 1);
    symbol = code.symbols[number];
    state = code.count[symbol] * (state >> kTotalBits) + number - code.first[symbol];
    while (state < kLeastState && next < stream.size()) state = state << 8 | stream[next++];
  }
  return out;
}

Bytes bytes_of(const Tensor& tensor) {
  const Tensor plain = tensor.contiguous();
  const auto* first = static_cast<const uint8_t*>(plain.const_data_ptr());
  return {first, first + plain.nbytes()};
}

// Writes the first `count` bytes of a tensor.
void put_bytes(const char* op, const char* name, const Tensor& into, const uint8_t* bytes, size_t count) {
  TORCH_CHECK(into.is_contiguous(), op, ": ", name, " is not contiguous");
  TORCH_CHECK(into.nbytes() >= count, op, ": ", name, " has ", into.nbytes(), " bytes, allowed are ", count,
              " and more");
  const Tensor all = into.flatten().view(at::kByte);
  all.narrow(0, 0, static_cast<int64_t>(count))
      .copy_(at::from_blob(const_cast<uint8_t*>(bytes), {static_cast<int64_t>(count)}, at::kByte));
}

template <typename Word>
void split_words(const Tensor& input, Bytes& symbols, Bytes& rest) {
  const Tensor plain = input.contiguous();
  const auto* words = static_cast<const Word*>(plain.const_data_ptr());
  for (int64_t i = 0; i < plain.numel(); ++i) {
    const Word word = std::rotl(words[i], 1);
    symbols.push_back(static_cast<uint8_t>(word >> (8 * (sizeof(Word) - 1))));
    for (size_t byte = 0; byte + 1 < sizeof(Word); ++byte) rest.push_back(static_cast<uint8_t>(word >> (8 * byte)));
  }
}

template <typename Word>
Bytes joined_words(const Bytes& symbols, const Bytes& rest) {
  Bytes out;
  for (size_t i = 0; i < symbols.size(); ++i) {
    Word word = static_cast<Word>(static_cast<Word>(symbols[i]) << (8 * (sizeof(Word) - 1)));
    for (size_t byte = 0; byte + 1 < sizeof(Word); ++byte)
      word |= static_cast<Word>(static_cast<Word>(rest[i * (sizeof(Word) - 1) + byte]) << (8 * byte));
    word = std::rotr(word, 1);
    const auto* first = reinterpret_cast<const uint8_t*>(&word);
    out.insert(out.end(), first, first + sizeof(Word));
  }
  return out;
}

Four hans_encode(const Tensor& input, bool statistic, bool, at::TensorList out) {
  constexpr const char* kOp = "npu_hans_encode";
  check_type(kOp, "input", input, {at::kFloat, at::kHalf, at::kBFloat16});
  TORCH_CHECK(out.size() == 4, kOp, ": out has ", out.size(), " tensors, allowed are pdf, mantissa, fixed and var");
  const Tensor &pdf = out[0], &mantissa = out[1], &fixed = out[2], &var = out[3];
  Bytes symbols, rest;
  input.element_size() == 4 ? split_words<uint32_t>(input, symbols, rest) : split_words<uint16_t>(input, symbols, rest);
  if (statistic) {
    const auto count = static_cast<int64_t>(symbols.size());
    const Tensor seen = at::from_blob(symbols.data(), {count}, at::kByte).bincount({}, kSymbols);
    Tensor(pdf).copy_(seen.view_as(pdf));
  }
  const Bytes stream = encoded(code_of(kOp, pdf), symbols);
  TORCH_CHECK(stream.size() <= fixed.nbytes() + var.nbytes(), kOp, ": the exponents take ", stream.size(),
              " bytes, and fixed and var have ", fixed.nbytes() + var.nbytes());
  const size_t in_fixed = std::min(stream.size(), fixed.nbytes());
  put_bytes(kOp, "mantissa", mantissa, rest.data(), rest.size());
  put_bytes(kOp, "fixed", fixed, stream.data(), in_fixed);
  put_bytes(kOp, "var", var, stream.data() + in_fixed, stream.size() - in_fixed);
  return {pdf, mantissa, fixed, var};
}

Four hans_encode_meta(const Tensor&, bool, bool, at::TensorList out) { return {out[0], out[1], out[2], out[3]}; }

Tensor& hans_decode(const Tensor& mantissa, const Tensor& fixed, const Tensor& var, const Tensor& pdf, bool,
                    Tensor& out) {
  constexpr const char* kOp = "npu_hans_decode";
  check_type(kOp, "out", out, {at::kFloat, at::kHalf, at::kBFloat16});
  Bytes stream = bytes_of(fixed), more = bytes_of(var);
  stream.insert(stream.end(), more.begin(), more.end());
  const auto count = static_cast<size_t>(out.numel());
  const Bytes rest = bytes_of(mantissa);
  TORCH_CHECK(rest.size() >= count * (out.element_size() - 1), kOp, ": mantissa has ", rest.size(),
              " bytes, allowed are ", count * (out.element_size() - 1), " and more");
  const Bytes symbols = decoded(kOp, code_of(kOp, pdf), stream, count);
  const Bytes bytes =
      out.element_size() == 4 ? joined_words<uint32_t>(symbols, rest) : joined_words<uint16_t>(symbols, rest);
  put_bytes(kOp, "out", out, bytes.data(), bytes.size());
  return out;
}

Tensor& hans_decode_meta(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, Tensor& out) { return out; }

}  // namespace

void define_compression(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_hans_decode.out(Tensor mantissa, Tensor fixed, Tensor var, Tensor pdf, bool reshuff=False, "
                "*, Tensor(a!) out) -> Tensor(a!)",
      .kernel = whole(&hans_decode, &hans_decode_meta),
      .definition = "Restores the tensor that npu_hans_encode compressed, bit for bit, and writes it into out, which "
                    "has its shape and type. mantissa, fixed, var and pdf are the results of npu_hans_encode. reshuff "
                    "is ignored.",
  });
  library.add({
      .schema = "npu::npu_hans_encode.out(Tensor input, bool statistic=False, bool reshuff=False, *, Tensor[] out) -> "
                "(Tensor, Tensor, Tensor, Tensor)",
      .kernel = whole(&hans_encode, &hans_encode_meta),
      .definition = "Compresses a tensor of floating-point numbers without loss, by an entropy code of the exponents "
                    "(asymmetric numeral systems: Duda, 2013). A symbol is the most significant byte of an element "
                    "after its sign bit is rotated to the end: the exponent, and for float16 the exponent and 3 bits "
                    "of the mantissa. input is float32, float16 or bfloat16. out holds four tensors, which are "
                    "written and returned: pdf, int32 with 256 elements, is the histogram of the symbols; mantissa "
                    "holds all other bytes of the elements; the code fills fixed and continues in var. With "
                    "statistic=True pdf is overwritten with the histogram of input; otherwise it is read, and symbols "
                    "whose count is 0 can be coded, too. mantissa needs as many bytes as the elements have besides "
                    "their symbols, and fixed and var together need as many as the code; otherwise the call raises "
                    "RuntimeError. The bytes are not those that an NPU writes. reshuff is ignored.",
  });
}

}  // namespace npugraph::npu_ops
