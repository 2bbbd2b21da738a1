// SPDX-License-Identifier: Apache-2.0
#include "loop/attention.h"

#include <array>
#include <charconv>

#include "base/error.h"

namespace npugraph::loop {
namespace {

constexpr std::string_view kAttentionHead = "npugraph.attention 1";

// Takes the next word off `rest`.
std::string_view take_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(word.size());
  return word;
}

template <typename Number>
std::optional<Number> parse_number(std::string_view word) {
  Number value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return {};
  return value;
}

// The number of keys after `word`.
int64_t parse_keys(std::string_view& rest, std::string_view word, std::string_view source) {
  const auto keys = parse_number<int64_t>(take_word(rest));
  if (!keys || *keys < -kMostKeys || *keys > kMostKeys)
    throw UserError(cat(source, ": expected a number of keys behind \"", word, "\""));
  return *keys;
}

AttentionPosition parse_position(std::string_view& rest, std::string_view source) {
  const std::string_view word = take_word(rest);
  if (word == "end") return AttentionPosition::kEnd;
  if (word == "given") return AttentionPosition::kGiven;
  throw UserError(cat(source, ": expected \"end\" or \"given\" behind \"at\""));
}

}  // namespace

std::string print(const Attention& attention) {
  std::string text(kAttentionHead);
  if (attention.after) text += cat(" after ", *attention.after);
  if (attention.before) text += cat(" before ", *attention.before);
  if (attention.position != AttentionPosition::kStart)
    text += attention.position == AttentionPosition::kEnd ? " at end" : " at given";
  if (attention.mask) text += " mask";
  if (attention.empty_is_nan) text += " nan";
  if (attention.logsumexp) text += " logsumexp";
  if (attention.scale) {
    std::array<char, 32> digits;
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), *attention.scale);
    NG_CHECK(error == std::errc(), "a number of more than 32 characters");
    text += " scale ";
    text.append(digits.data(), end);
  }
  return text;
}

Attention parse_attention(std::string_view text, std::string_view source) {
  if (!text.starts_with(kAttentionHead)) throw UserError(cat(source, ": expected \"", kAttentionHead, "\""));
  std::string_view rest = text.substr(kAttentionHead.size());
  Attention attention;
  for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
    if (word == "after") {
      attention.after = parse_keys(rest, word, source);
    } else if (word == "before") {
      attention.before = parse_keys(rest, word, source);
    } else if (word == "at") {
      attention.position = parse_position(rest, source);
    } else if (word == "mask") {
      attention.mask = true;
    } else if (word == "nan") {
      attention.empty_is_nan = true;
    } else if (word == "logsumexp") {
      attention.logsumexp = true;
    } else if (word == "scale") {
      attention.scale = parse_number<double>(take_word(rest));
      if (!attention.scale) throw UserError(cat(source, ": expected a number behind \"scale\""));
    } else {
      throw UserError(cat(source, ": unknown word \"", word, "\" in a text of attention"));
    }
  }
  return attention;
}

}  // namespace npugraph::loop
