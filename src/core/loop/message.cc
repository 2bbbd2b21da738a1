// SPDX-License-Identifier: Apache-2.0
#include "loop/message.h"

namespace npugraph::loop {
namespace {

void replace_first(std::string& text, const std::string& part, int64_t by) {
  const size_t at = text.find(part);
  if (at != std::string::npos) text.replace(at, part.size(), std::to_string(by));
}

}  // namespace

std::vector<std::string_view> expressions_in(std::string_view message) {
  std::vector<std::string_view> found;
  size_t begin = message.find('{');
  while (begin != std::string_view::npos) {
    const size_t end = message.find('}', begin);
    if (end == std::string_view::npos) break;
    found.push_back(message.substr(begin + 1, end - begin - 1));
    begin = message.find('{', end);
  }
  return found;
}

std::string fill_in(const std::string& message, int64_t shown,
                    const std::function<Scalar(const std::string&)>& scalar) {
  std::string filled = message;
  replace_first(filled, "%", shown);
  for (const std::string_view text : expressions_in(message)) {
    const Expr e = parse_expr(text, [&](std::string_view name) { return scalar(std::string(name)).kind; });
    replace_first(filled, "{" + std::string(text) + "}", evaluate(e, scalar).as_int());
  }
  return filled;
}

}  // namespace npugraph::loop
