// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/options.h"

#include <charconv>
#include <string_view>
#include <system_error>

#include "base/words.h"
#include "ge/api/run/api_error.h"

namespace npugraph::ge {
namespace {

constexpr std::string_view kCores = "ge.aicoreNum";

int32_t number_of_cores(std::string_view text, std::string_view whole) {
  int32_t cores = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, cores);
  if (text.empty() || stop != end || error != std::errc() || cores < 1)
    throw ApiError(::ge::PARAM_INVALID, cat("option '", kCores, "' is 'N' or 'N|M' with numbers from 1 on, cube cores ",
                                            "and vector cores, got '", whole, "'"));
  return cores;
}

CoreLimits core_limits(std::string_view text) {
  const size_t bar = text.find('|');
  if (bar == std::string_view::npos) return {.cube = number_of_cores(text, text)};
  return {.cube = number_of_cores(text.substr(0, bar), text), .vector = number_of_cores(text.substr(bar + 1), text)};
}

}  // namespace

void check_options(const OptionMap& options) {
  parse_options(options);
  std::string without_effect;
  for (const auto& [name, value] : options) {
    if (name.GetString() != kCores && !dump_options().contains(name.GetString()))
      without_effect += cat(without_effect.empty() ? "" : ", ", name.GetString());
  }
  if (!without_effect.empty()) add_warning(cat("options without effect in this engine: ", without_effect));
}

GraphOptions parse_options(const OptionMap& options) {
  GraphOptions parsed;
  const auto cores = options.find(::ge::AscendString(kCores.data()));
  if (cores != options.end()) parsed.limits = core_limits(cores->second.GetString());
  for (const auto& [name, value] : options) {
    if (dump_options().contains(name.GetString())) parsed.dump.emplace(name.GetString(), value.GetString());
  }
  try {
    check_dump(parsed.dump);
  } catch (const UserError& error) {
    throw ApiError(::ge::PARAM_INVALID, error.what());
  }
  return parsed;
}

OptionMap merged(const OptionMap& outer, OptionMap inner) {
  inner.insert(outer.begin(), outer.end());
  return inner;
}

}  // namespace npugraph::ge
