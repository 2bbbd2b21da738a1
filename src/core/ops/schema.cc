// SPDX-License-Identifier: Apache-2.0
// Operator schemas in torch's notation.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "ops/table.h"

namespace npugraph::ops {
namespace {

// The type with this number in c10::ScalarType, which torch writes for default dtypes; nullopt if DType has none.
std::optional<DType> dtype_of_number(int64_t number) {
  switch (number) {
    case 0: return DType::kU8;
    case 1: return DType::kI8;
    case 2: return DType::kI16;
    case 3: return DType::kI32;
    case 4: return DType::kI64;
    case 5: return DType::kF16;
    case 6: return DType::kF32;
    case 7: return DType::kF64;
    case 8: return DType::kC32;
    case 9: return DType::kC64;
    case 10: return DType::kC128;
    case 11: return DType::kBool;
    case 15: return DType::kBF16;
    case 23: return DType::kF8E5M2;
    case 24: return DType::kF8E4M3FN;
    case 25: return DType::kF8E5M2FNUZ;
    case 26: return DType::kF8E4M3FNUZ;
    case 27: return DType::kU16;
    case 28: return DType::kU32;
    case 29: return DType::kU64;
    case 44: return DType::kF8E8M0FNU;
    default: return std::nullopt;
  }
}

class SchemaParser {
 public:
  explicit SchemaParser(std::string_view text) : text_(text) {}

  ir::Schema parse() {
    ir::Schema schema;
    schema.text = std::string(text_);
    schema.name = parse_name();
    expect("(");
    bool keyword_only = false;
    while (!accept(")")) {
      if (!schema.args.empty() || keyword_only) expect(",");
      if (accept("*")) {
        if (keyword_only) fail("one '*'");
        keyword_only = true;
        continue;
      }
      schema.args.push_back(parse_arg());
      schema.args.back().keyword_only = keyword_only;
    }
    expect("->");
    parse_returns(schema.returns);
    skip_space();
    if (position_ != text_.size()) fail("the end");
    return schema;
  }

 private:
  struct ParsedType {
    std::string type;
    std::string alias;
    bool is_write = false;
  };

  [[noreturn]] void fail(std::string_view expected) const {
    throw UserError(cat("operator schema, at column ", position_ + 1, ": expected ", expected, " in \"", text_, "\""));
  }

  void skip_space() {
    while (position_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[position_]))) ++position_;
  }

  bool at(std::string_view token) {
    skip_space();
    return text_.substr(position_).starts_with(token);
  }

  bool accept(std::string_view token) {
    if (!at(token)) return false;
    position_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail(cat("'", token, "'"));
  }

  std::string_view word() {
    skip_space();
    const size_t begin = position_;
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') break;
      ++position_;
    }
    if (begin == position_) fail("a name");
    return text_.substr(begin, position_ - begin);
  }

  // "aten::add.Tensor" becomes "aten.add.Tensor"; an overload called "default" is not written.
  std::string parse_name() {
    std::string name(word());
    expect("::");
    name.append(".").append(word());
    if (name.ends_with(".default")) name.resize(name.size() - 8);
    return name;
  }

  // Text up to the parenthesis that closes the one that was just read.
  std::string_view until_closing() {
    const size_t begin = position_;
    for (int depth = 1; position_ < text_.size(); ++position_) {
      if (text_[position_] == '(') ++depth;
      if (text_[position_] == ')' && --depth == 0) return text_.substr(begin, position_++ - begin);
    }
    fail("')'");
  }

  // "(a)", "(a!)", "(a -> *)", "(a|b)" behind a type; the set before the arrow is kept.
  void parse_alias(ParsedType& parsed) {
    if (position_ >= text_.size() || text_[position_] != '(') return;
    ++position_;
    std::string_view set = until_closing();
    set = set.substr(0, set.find("->"));
    parsed.is_write = set.find('!') != std::string_view::npos;
    for (const char c : set) {
      if (c != '!' && c != ' ') parsed.alias.push_back(c);
    }
  }

  ParsedType parse_type() {
    ParsedType parsed;
    if (accept("(")) {
      parsed.type = cat("(", until_closing(), ")");
    } else {
      parsed.type = word();
      if ((parsed.type == "Dict" || parsed.type == "Future" || parsed.type == "Await" || parsed.type == "RRef") &&
          accept("(")) {
        parsed.type = cat(parsed.type, "(", until_closing(), ")");
      }
    }
    parse_alias(parsed);
    while (position_ < text_.size() && (text_[position_] == '[' || text_[position_] == '?')) {
      const size_t end = text_[position_] == '?' ? position_ : text_.find(']', position_);
      if (end == std::string_view::npos) fail("']'");
      parsed.type.append(text_.substr(position_, end + 1 - position_));
      position_ = end + 1;
      if (parsed.alias.empty()) parse_alias(parsed);
    }
    return parsed;
  }

  ir::SchemaArg parse_arg() {
    ir::SchemaArg arg;
    ParsedType parsed = parse_type();
    arg.type = std::move(parsed.type);
    arg.alias = std::move(parsed.alias);
    arg.is_write = parsed.is_write;
    arg.name = std::string(word());
    if (accept("=")) {
      arg.has_default = true;
      arg.default_value = parse_default(arg.type);
    }
    return arg;
  }

  void parse_returns(std::vector<ir::SchemaReturn>& returns) {
    const auto one = [&] {
      ParsedType parsed = parse_type();
      returns.push_back({std::move(parsed.type), std::move(parsed.alias), parsed.is_write});
    };
    if (!accept("(")) return one();
    while (!accept(")")) {
      if (!returns.empty()) expect(",");
      one();
      if (!at(",") && !at(")")) word();  // the name of the return
    }
  }

  Attr parse_default(std::string_view type) {
    if (accept("None")) return None{};
    if (type.ends_with('?')) type.remove_suffix(1);
    const size_t bracket = type.find('[');
    if (bracket == std::string_view::npos) return parse_scalar_default(type);
    const std::string_view element = type.substr(0, bracket);
    const std::string_view length = type.substr(bracket + 1, type.size() - bracket - 2);
    if (element.starts_with("Tensor")) {
      expect("[");
      expect("]");
      return std::vector<TensorRef>();
    }
    std::vector<Expr> list;
    if (!accept("[")) {
      // One number stands for all elements of a list of fixed length.
      size_t count = 1;
      std::from_chars(length.data(), length.data() + length.size(), count);
      list.assign(std::min<size_t>(count, 8), expression_default(element));
      return list;
    }
    while (!accept("]")) {
      if (!list.empty()) expect(",");
      list.push_back(expression_default(element));
    }
    return list;
  }

  Attr parse_scalar_default(std::string_view type) {
    if (type == "str" || at("\"") || at("'")) return string_default();
    const Expr value = expression_default(type);
    const auto number = value.as_int();
    if (type == "MemoryFormat" && number && *number >= 0 && *number <= 3) return static_cast<MemoryFormat>(*number);
    if (type == "Layout" && number == 0) return Layout::kStrided;
    if (type == "ScalarType" && number) {
      if (const auto dtype = dtype_of_number(*number)) return *dtype;
      fail("the number of an element type");
    }
    return value;
  }

  Expr expression_default(std::string_view type) {
    if (accept("True")) return Expr::constant(Scalar::of_bool(true));
    if (accept("False")) return Expr::constant(Scalar::of_bool(false));
    constexpr std::array<std::pair<std::string_view, int64_t>, 8> kNames = {{{"contiguous_format", 0},
                                                                             {"preserve_format", 1},
                                                                             {"channels_last_3d", 3},
                                                                             {"channels_last", 2},
                                                                             {"strided", 0},
                                                                             {"Mean", 1},
                                                                             {"Sum", 2},
                                                                             {"long", 4}}};
    for (const auto& [name, number] : kNames) {
      if (accept(name)) return number;
    }
    if (accept("inf")) return Expr::constant(Scalar::of_float(std::numeric_limits<double>::infinity()));
    if (accept("-inf")) return Expr::constant(Scalar::of_float(-std::numeric_limits<double>::infinity()));
    return number_default(type);
  }

  Expr number_default(std::string_view type) {
    skip_space();
    const size_t end = std::min(text_.find_first_not_of("+-0123456789.eE", position_), text_.size());
    const std::string_view digits = text_.substr(position_, end - position_);
    int64_t integer = 0;
    double real = 0;
    const char* last = digits.data() + digits.size();
    if (std::from_chars(digits.data(), last, integer).ptr == last && !digits.empty()) {
      position_ = end;
      return type == "float" ? Expr::constant(Scalar::of_float(static_cast<double>(integer))) : Expr(integer);
    }
    if (digits.empty() || std::from_chars(digits.data(), last, real).ptr != last) fail("a default value");
    position_ = end;
    return Expr::constant(Scalar::of_float(real));
  }

  std::string string_default() {
    const char quote = accept("\"") ? '"' : '\'';
    if (quote == '\'') expect("'");
    std::string value;
    for (; position_ < text_.size() && text_[position_] != quote; ++position_) {
      char c = text_[position_];
      if (c == '\\' && position_ + 1 < text_.size()) c = unescape(text_[++position_]);
      value.push_back(c);
    }
    if (position_ == text_.size()) fail("the end of the string");
    ++position_;
    return value;
  }

  static char unescape(char c) {
    switch (c) {
      case 'n': return '\n';
      case 't': return '\t';
      case 'r': return '\r';
      case 'f': return '\f';
      case 'v': return '\v';
      default: return c;
    }
  }

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace

ir::Schema parse_schema(std::string_view text) { return SchemaParser(text).parse(); }

ir::Traits traits_of(const ir::Schema& schema) {
  ir::Traits traits = 0;
  const ir::SchemaArg* first_tensor = nullptr;
  for (const ir::SchemaArg& arg : schema.args) {
    if (!arg.type.starts_with("Tensor")) continue;
    if (first_tensor == nullptr) first_tensor = &arg;
    if (arg.is_write) traits = traits | ir::Trait::kMutates;
  }
  const auto is_view = [&](const ir::SchemaReturn& r) {
    return r.type.starts_with("Tensor") && !r.is_write && !r.alias.empty() && first_tensor->alias == r.alias;
  };
  if (first_tensor != nullptr && !schema.returns.empty() &&
      std::all_of(schema.returns.begin(), schema.returns.end(), is_view)) {
    traits = traits | ir::Trait::kView;
  }
  return traits;
}

}  // namespace npugraph::ops
