// SPDX-License-Identifier: Apache-2.0
#include "tools/text_catalog.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/words.h"
#include "ops/table.h"

namespace npugraph::tools {
namespace {

constexpr std::string_view kSpace = " \t\r";

// The first word, and the rest of the line.
std::pair<std::string_view, std::string_view> split_word(std::string_view line) {
  const size_t end = std::min(line.find_first_of(kSpace), line.size());
  return {line.substr(0, end), trim(line.substr(end))};
}

lower::OutVariant parse_variant(std::string_view schema) {
  ir::Schema parsed = ops::parse_schema(schema);
  lower::OutVariant variant{.name = parsed.name, .schema = std::string(schema), .out_args = {}};
  for (size_t i = 0; i < parsed.args.size(); ++i) {
    if (parsed.args[i].is_write) variant.out_args.push_back(static_cast<int32_t>(i));
  }
  if (variant.out_args.empty()) throw UserError(cat(variant.name, " writes no argument"));
  return variant;
}

}  // namespace

TextCatalog::TextCatalog(std::string_view text, std::string_view source) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, std::min(text.find('#'), end)));
    try {
      if (!line.empty()) read_line(line);
    } catch (const UserError& error) {
      throw UserError(cat(source, ":", number, ": ", error.what()));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void TextCatalog::read_line(std::string_view line) {
  const auto [kind, rest] = split_word(line);
  const auto [first, second] = split_word(rest);
  if ((kind == "out" || kind == "rows") && !second.empty()) {
    lower::OutVariant variant = parse_variant(second);
    variant.any_strides = kind == "out";
    variants_.insert_or_assign(std::string(first), std::move(variant));
  } else if (kind == "refuse" && !first.empty() && second.empty()) {
    refused_.emplace(first);
  } else if (kind == "int4" && (int4_ = loop::int4_packing(first, second))) {
    return;
  } else {
    throw UserError(
        cat("'", line, "' is none of: out OPERATOR SCHEMA, rows OPERATOR SCHEMA, refuse OPERATOR, int4 COLUMNS ORDER"));
  }
}

std::optional<lower::OutVariant> TextCatalog::out_variant(const ir::Op& op) const {
  const auto found = variants_.find(op.name);
  if (found == variants_.end()) return std::nullopt;
  return found->second;
}

}  // namespace npugraph::tools
