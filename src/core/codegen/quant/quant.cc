// SPDX-License-Identifier: Apache-2.0
#include "codegen/quant/quant.h"

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "codegen/quant/task.h"
#include "loop/text.h"

namespace npugraph::codegen {
namespace {

constexpr std::string_view kHead = "npugraph.quant ";
constexpr std::string_view kVersion = "1";

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream in{std::string(line)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// Returns nullopt if the words name no such product.
std::optional<Int4LinearSpec> packed_product(const std::vector<std::string>& words) {
  const auto packing = words.size() == 6 ? loop::int4_packing(words[3], words[4]) : std::nullopt;
  for (const int64_t group : {32, 64, 128, 256}) {
    if (packing && words[5] == std::to_string(group))
      return Int4LinearSpec{.packing = *packing, .group = group, .epilogue = {}};
  }
  return std::nullopt;
}

}  // namespace

bool is_quant_text(std::string_view text) { return text.starts_with(kHead); }

ng_task make_quant(std::string_view text, const target::Target& target, RowCount rows) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::vector<std::string> words = words_of(line);
  const auto fail = [&] { throw UserError(cat("no work on quantised weights: ", line)); };
  if (!is_quant_text(text) || words.size() < 4 || words[1] != kVersion) fail();
  const auto epilogue = [&] {
    if (line.size() == text.size()) fail();
    return loop::parse(std::string(text.substr(line.size() + 1)), "the end of a quantised product");
  };
  if (words[2] == "packed") {
    auto spec = packed_product(words);
    if (!spec) fail();
    spec->epilogue = epilogue();
    return make_int4_linear(*spec, target, rows);
  }
  const auto type = loop::block_type(words[3]);
  if (!type) throw UserError(cat("unknown type of blocks: ", words[3]));
  if (words[2] == "rows" && words.size() == 4) return make_quant_rows(*type, target);
  const bool by_codes = words.size() == 5 && words[4] == "int8";
  if (words[2] != "linear" || (words.size() != 4 && !by_codes)) fail();
  return make_quant_linear({.type = *type, .by_codes = by_codes, .epilogue = epilogue()}, target, rows);
}

}  // namespace npugraph::codegen
