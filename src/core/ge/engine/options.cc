// SPDX-License-Identifier: Apache-2.0
#include "ge/engine/options.h"

#include <charconv>
#include <iterator>
#include <string>
#include <system_error>

#include "base/error.h"

namespace npugraph::ge {
namespace {

constexpr std::string_view kCores = "ge.aicoreNum", kLevel = "ge.oo.level", kElimination = "ge.oo.deadCodeElimination";

// Passes that make one operator of several, or compute an operator again where it is read.
constexpr std::string_view kFusions[] = {
    "fuse_attention",   "fold_dequantised", "fold_shifted_products", "fold_repeat_kv", "merge_copies",
    "fold_conversions", "sink_cat",         "recompute_parts",
};

std::string value_of(const EngineOptions& options, std::string_view name) {
  const auto found = options.find(std::string(name));
  return found == options.end() ? "" : found->second;
}

int32_t number_of_cores(std::string_view text, std::string_view whole) {
  int32_t cores = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, cores);
  if (text.empty() || stop != end || error != std::errc() || cores < 1)
    throw UserError(cat("option '", kCores, "' is 'N' or 'N|M' with numbers from 1 on, cube cores and vector cores, ",
                        "got '", whole, "'"));
  return cores;
}

}  // namespace

const std::set<std::string_view>& acting_options() {
  static const std::set<std::string_view> names = [] {
    std::set<std::string_view> all = {kCores, kLevel, kElimination};
    all.insert(dump_options().begin(), dump_options().end());
    return all;
  }();
  return names;
}

void check_options(const EngineOptions& options) {
  check_dump(options);
  core_limits(options);
  compiler::CompileRequest ignored;
  apply_levels(options, ignored);
}

CoreLimits core_limits(const EngineOptions& options) {
  const std::string whole = value_of(options, kCores);
  if (!options.contains(std::string(kCores))) return {};
  const std::string_view text = whole;
  const size_t bar = text.find('|');
  if (bar == std::string_view::npos) return {.cube = number_of_cores(text, text)};
  return {.cube = number_of_cores(text.substr(0, bar), text), .vector = number_of_cores(text.substr(bar + 1), text)};
}

void apply_levels(const EngineOptions& options, compiler::CompileRequest& request) {
  const std::string level = value_of(options, kLevel);
  if (!level.empty() && level != "O1" && level != "O3")
    throw UserError(cat("option '", kLevel, "' is 'O1' or 'O3', got '", level, "'"));
  auto& disabled = request.disabled_passes;
  if (level == "O1") {
    request.join = false;
    request.group = false;
    disabled.insert(disabled.end(), std::begin(kFusions), std::end(kFusions));
  }
  const std::string elimination = value_of(options, kElimination);
  if (!elimination.empty() && elimination != "true" && elimination != "false")
    throw UserError(cat("option '", kElimination, "' is 'true' or 'false', got '", elimination, "'"));
  if (elimination == "false") disabled.emplace_back("dce");
}

}  // namespace npugraph::ge
