// SPDX-License-Identifier: Apache-2.0
#include "loop/task_parameters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

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

namespace {

constexpr std::string_view kConvolutionHead = "npugraph.convolution 1";

void print_numbers(std::string& text, std::string_view word, const std::vector<int64_t>& numbers) {
  text += cat(" ", word);
  for (const int64_t number : numbers) text += cat(" ", number);
}

// The numbers that come next.
std::vector<int64_t> parse_numbers(std::istringstream& words) {
  std::vector<int64_t> numbers;
  for (int64_t number = 0; words >> number;) numbers.push_back(number);
  words.clear();
  return numbers;
}

bool all_at_least(const std::vector<int64_t>& numbers, int64_t least) {
  return std::ranges::all_of(numbers, [least](int64_t number) { return number >= least; });
}

void check(const Convolution& c, std::string_view source) {
  const size_t rank = c.stride.size();
  if (rank < 1 || rank > 2 || c.padding.size() != rank || c.dilation.size() != rank)
    throw UserError(cat(source, ": stride, padding and dilation take one or two numbers, each as many"));
  if (c.groups < 1 || !all_at_least(c.stride, 1) || !all_at_least(c.padding, 0) || !all_at_least(c.dilation, 1))
    throw UserError(cat(source, ": groups, stride and dilation are at least 1, padding at least 0"));
}

bool is_depthwise(const Convolution& convolution, std::span<const int64_t> weights) {
  constexpr int64_t kLeastPiece[] = {1, 7};  // pixels of the result
  if (convolution.stride.size() != 2 || weights[0] != convolution.groups || weights[1] != 1) return false;
  int64_t taps = 1, window = 1;
  for (size_t d = 0; d < 2; ++d) {
    const int64_t kernel = weights[d + 2], reach = (kernel - 1) * convolution.dilation[d];
    if (kernel > kDepthwiseTaps || reach > kDepthwiseWindow || convolution.stride[d] > kDepthwiseWindow) return false;
    taps *= kernel;
    window *= (kLeastPiece[d] - 1) * convolution.stride[d] + reach + 1;
  }
  return taps <= kDepthwiseTaps && window <= kDepthwiseWindow;
}

}  // namespace

bool is_direct(const Convolution& convolution, std::span<const int64_t> weights) {
  if (convolution.channels_last) return is_depthwise(convolution, weights);
  constexpr int64_t kLeastPiece[] = {7, 16};  // pixels of the result
  const size_t rank = convolution.stride.size();
  if (weights[0] / convolution.groups >= kProductChannels || weights[1] > kDirectTaps) return false;
  int64_t taps = weights[1], window = weights[1];
  for (size_t d = 0; d < rank; ++d) {
    const int64_t kernel = weights[d + 2], reach = (kernel - 1) * convolution.dilation[d];
    if (kernel > kDirectTaps || reach > kDirectWindow || convolution.stride[d] > kDirectWindow) return false;
    taps *= kernel;
    window *= kLeastPiece[d + 2 - rank] * convolution.stride[d] + reach;
  }
  if (rank == 1) window *= kLeastPiece[0];
  return taps <= kDirectTaps && window <= kDirectWindow;
}

std::string print(const Convolution& convolution) {
  std::string text(kConvolutionHead);
  if (convolution.bias) text += " bias";
  if (convolution.channels_last) text += " channels_last";
  if (convolution.groups != 1) text += cat(" groups ", convolution.groups);
  print_numbers(text, "stride", convolution.stride);
  print_numbers(text, "padding", convolution.padding);
  print_numbers(text, "dilation", convolution.dilation);
  return text;
}

Convolution parse_convolution(std::string_view text, std::string_view source) {
  if (!text.starts_with(kConvolutionHead)) throw UserError(cat(source, ": expected \"", kConvolutionHead, "\""));
  std::istringstream words{std::string(text.substr(kConvolutionHead.size()))};
  Convolution convolution;
  for (std::string word; words >> word;) {
    if (word == "bias") {
      convolution.bias = true;
    } else if (word == "channels_last") {
      convolution.channels_last = true;
    } else if (word == "groups") {
      const std::vector<int64_t> numbers = parse_numbers(words);
      if (numbers.size() != 1) throw UserError(cat(source, ": expected one number behind \"groups\""));
      convolution.groups = numbers.front();
    } else if (word == "stride") {
      convolution.stride = parse_numbers(words);
    } else if (word == "padding") {
      convolution.padding = parse_numbers(words);
    } else if (word == "dilation") {
      convolution.dilation = parse_numbers(words);
    } else {
      throw UserError(cat(source, ": unknown word \"", word, "\" in a text of a convolution"));
    }
  }
  check(convolution, source);
  return convolution;
}

}  // namespace npugraph::loop
