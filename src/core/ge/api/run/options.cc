// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/options.h"

#include <string>

#include "ge/api/run/api_error.h"

namespace npugraph::ge {

EngineOptions parse_options(const OptionMap& options) {
  EngineOptions parsed;
  for (const auto& [name, value] : options) parsed.emplace(name.GetString(), value.GetString());
  try {
    check_options(parsed);
  } catch (const UserError& error) {
    throw ApiError(::ge::PARAM_INVALID, error.what());
  }
  return parsed;
}

void check_options(const OptionMap& options) {
  parse_options(options);
  std::string without_effect;
  for (const auto& [name, value] : options) {
    if (!acting_options().contains(name.GetString()))
      without_effect += cat(without_effect.empty() ? "" : ", ", name.GetString());
  }
  if (!without_effect.empty()) add_warning(cat("options without effect in this engine: ", without_effect));
}

OptionMap merged(const OptionMap& outer, OptionMap inner) {
  inner.insert(outer.begin(), outer.end());
  return inner;
}

}  // namespace npugraph::ge
