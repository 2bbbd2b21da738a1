// SPDX-License-Identifier: Apache-2.0
#include "ge/ir/registry.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/words.h"
#include "ge/ir/operators_text.h"

namespace npugraph::ge {

namespace {

constexpr std::array<std::string_view, 12> kKindNames = {"Int",      "Float",      "Bool",     "String",
                                                         "Type",     "Tensor",     "ListInt",  "ListFloat",
                                                         "ListBool", "ListString", "ListType", "ListListInt"};

// The types that Ascend IR names together; those of other names depend on the operator.
constexpr std::pair<std::string_view, TypeKind> kTypeNames[] = {
    {"IndexNumberType", TypeKind::kInteger},
    {"IntegerDataType", TypeKind::kInteger},
    {"FloatingDataType", TypeKind::kFloat},
    {"RealNumberType", TypeKind::kFloat},
};
// The types of a list by parts of their names, widest first: complex64; float16, hifloat8; uint8, qint8.
constexpr std::pair<std::string_view, TypeKind> kTypeParts[] = {
    {"type", TypeKind::kComplex}, {"complex", TypeKind::kComplex}, {"float", TypeKind::kFloat},
    {"bf16", TypeKind::kFloat},   {"double", TypeKind::kFloat},    {"int", TypeKind::kInteger},
    {"bool", TypeKind::kBool},
};

TypeKind widest_of(std::string_view types) {
  if (!types.starts_with('{')) {
    const auto* named = std::ranges::find(kTypeNames, types, &std::pair<std::string_view, TypeKind>::first);
    return named == std::end(kTypeNames) ? TypeKind::kComplex : named->second;
  }
  for (const auto& [part, kind] : kTypeParts) {
    if (types.find(part) != std::string_view::npos) return kind;
  }
  return TypeKind::kComplex;
}

// Parts of `text` between commas that stand in no brackets and no quotes.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '(' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '}' || c == ']') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  const std::string_view last = trim(text.substr(begin));
  if (!last.empty()) parts.push_back(last);
  return parts;
}

class Parser {
 public:
  explicit Parser(std::string_view line) : line_(line) {}

  IrOperator parse() {
    const size_t open = line_.find('('), arrow = line_.find(") -> (");
    if (open == std::string_view::npos || open == 0 || arrow == std::string_view::npos || arrow < open) fail();
    IrOperator op;
    op.name = line_.substr(0, open);
    op.text = line_;
    op.inputs = tensors(line_.substr(open + 1, arrow - open - 1));
    std::string_view rest = line_.substr(arrow + 6);
    const size_t attrs = rest.rfind(") [");
    if (attrs != std::string_view::npos && rest.ends_with(']')) {
      op.attrs = attributes(rest.substr(attrs + 3, rest.size() - attrs - 4));
      rest = rest.substr(0, attrs + 1);
    }
    if (!rest.ends_with(')')) fail();
    op.outputs = tensors(rest.substr(0, rest.size() - 1));
    return op;
  }

 private:
  [[noreturn]] void fail() const {
    throw UserError(
        cat("an operator of Ascend IR is written as Name(inputs) -> (outputs) [attributes], got '", line_, "'"));
  }

  std::vector<IrTensor> tensors(std::string_view text) const {
    std::vector<IrTensor> tensors;
    for (const std::string_view part : split_list(text)) {
      const size_t colon = part.find(':');
      if (colon == std::string_view::npos || colon == 0) fail();
      IrTensor tensor{.name = std::string(part.substr(0, colon)), .types = std::string(part.substr(colon + 1))};
      if (tensor.name.ends_with('?')) tensor.arity = Arity::kOptional;
      if (tensor.name.ends_with('*')) tensor.arity = Arity::kDynamic;
      if (tensor.arity != Arity::kRequired) tensor.name.pop_back();
      tensor.widest = widest_of(tensor.types);
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

  std::vector<IrAttr> attributes(std::string_view text) const {
    std::vector<IrAttr> attrs;
    for (const std::string_view part : split_list(text)) {
      const size_t colon = part.find(':');
      if (colon == std::string_view::npos || colon == 0) fail();
      IrAttr attr{.name = std::string(part.substr(0, colon))};
      std::string_view rest = part.substr(colon + 1);
      attr.required = rest.ends_with(" required");
      if (attr.required) rest.remove_suffix(9);
      const size_t equals = rest.find('=');
      if (equals != std::string_view::npos) attr.default_text = rest.substr(equals + 1);
      attr.kind = kind(rest.substr(0, equals));
      attrs.push_back(std::move(attr));
    }
    return attrs;
  }

  IrAttrKind kind(std::string_view text) const {
    if (text == "int") return IrAttrKind::kInt;
    const auto found = std::ranges::find(kKindNames, text);
    if (found == kKindNames.end()) fail();
    return static_cast<IrAttrKind>(found - kKindNames.begin());
  }

  std::string_view line_;
};

// The operators by name. Those of operators.txt are parsed when they are first asked for. None is ever removed.
class Registry {
 public:
  static Registry& instance() {
    static auto* made = new Registry;
    return *made;
  }

  const IrOperator* find(std::string_view name) {
    const std::scoped_lock lock(mutex_);
    return find_locked(name);
  }

  void add(std::string_view text) {
    IrOperator op = parse_operator(text);
    const std::scoped_lock lock(mutex_);
    const IrOperator* known = find_locked(op.name);
    if (known != nullptr && known->text != op.text)
      throw UserError(cat("Ascend IR has an operator of this name already:\n  ", known->text, "\ngot\n  ", op.text));
    if (known == nullptr) parsed_.emplace(op.name, std::make_unique<const IrOperator>(op));
  }

  std::vector<std::string> names() {
    const std::scoped_lock lock(mutex_);
    std::set<std::string> names;
    for (const auto& [name, line] : lines_) names.emplace(name);
    for (const auto& [name, op] : parsed_) names.insert(name);
    return {names.begin(), names.end()};
  }

 private:
  Registry() {
    std::string_view text(kOperatorsText, sizeof kOperatorsText - 1);
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      if (!line.empty()) lines_.emplace(line.substr(0, line.find('(')), line);
    }
  }

  const IrOperator* find_locked(std::string_view name) {
    if (const auto found = parsed_.find(name); found != parsed_.end()) return found->second.get();
    const auto line = lines_.find(name);
    if (line == lines_.end()) return nullptr;
    auto op = std::make_unique<const IrOperator>(parse_operator(line->second));
    return parsed_.emplace(name, std::move(op)).first->second.get();
  }

  std::mutex mutex_;
  std::map<std::string_view, std::string_view> lines_;  // of operators.txt
  std::map<std::string, std::unique_ptr<const IrOperator>, std::less<>> parsed_;
};

}  // namespace

bool IrTensor::allows(DType dtype) const {
  const TypeKind kind = is_complex(dtype)       ? TypeKind::kComplex
                        : is_floating(dtype)    ? TypeKind::kFloat
                        : dtype == DType::kBool ? TypeKind::kBool
                                                : TypeKind::kInteger;
  return kind <= widest;
}

std::string_view name_of(IrAttrKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

IrOperator parse_operator(std::string_view line) { return Parser(line).parse(); }

const IrOperator* find_operator(std::string_view name) { return Registry::instance().find(name); }

void add_operator(std::string_view line) { Registry::instance().add(line); }

std::vector<std::string> operator_names() { return Registry::instance().names(); }

}  // namespace npugraph::ge
