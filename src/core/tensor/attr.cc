// SPDX-License-Identifier: Apache-2.0
#include "tensor/attr.h"

#include <array>

#include "base/error.h"
#include "tensor/lexer.h"

namespace npugraph {
namespace {

constexpr std::array<std::string_view, 8> kLayoutNames = {"layout.strided",    "layout.sparse",     "layout.sparse_csr",
                                                          "layout.sparse_csc", "layout.sparse_bsr", "layout.sparse_bsc",
                                                          "layout.mkldnn",     "layout.jagged"};
constexpr std::array<std::string_view, 4> kMemoryFormatNames = {"memory_format.contiguous", "memory_format.preserve",
                                                                "memory_format.channels_last",
                                                                "memory_format.channels_last_3d"};

template <typename Enum, size_t n>
std::optional<Enum> find_name(const std::array<std::string_view, n>& names, std::string_view name) {
  for (size_t i = 0; i < n; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}

// Words that start an attribute which is no expression.
bool is_attr_word(std::string_view word) {
  return word == "complex" || word == "device" || word == "tensors" || word == "strings" || parse_dtype(word) ||
         find_name<Layout>(kLayoutNames, word) || find_name<MemoryFormat>(kMemoryFormatNames, word);
}

std::string text_of(const Expr& e) {
  std::string text = e.str();
  Lexer lexer(text, "expression");
  const Token& first = lexer.peek();
  bool reads_as_word = first.kind == TokenKind::kIdentifier && is_attr_word(first.text);
  return reads_as_word ? cat("(", text, ")") : text;
}

// "[a, b]", or `empty` for a list without elements.
template <typename T, typename Write>
std::string list_text(const std::vector<T>& items, std::string_view empty, Write write) {
  if (items.empty()) return std::string(empty);
  std::string out = "[";
  for (const T& item : items) {
    if (out.size() > 1) out += ", ";
    out += write(item);
  }
  return out += "]";
}

struct AttrWriter {
  const std::function<std::string(TensorRef)>& tensor_name;

  std::string operator()(None) const { return "none"; }
  std::string operator()(TensorRef ref) const { return ref.id == TensorRef::kAbsent ? "none" : "%" + tensor_name(ref); }
  std::string operator()(const std::vector<TensorRef>& refs) const { return list_text(refs, "tensors[]", *this); }
  std::string operator()(const Expr& e) const { return text_of(e); }
  std::string operator()(const std::vector<Expr>& list) const {
    return list_text(list, "[]", [](const Expr& e) { return e.str(); });
  }
  std::string operator()(std::complex<double> c) const {
    return cat("complex(", Expr::constant(Scalar::of_float(c.real())).str(), ", ",
               Expr::constant(Scalar::of_float(c.imag())).str(), ")");
  }
  std::string operator()(const std::string& text) const { return quote(text); }
  std::string operator()(const std::vector<std::string>& list) const { return list_text(list, "strings[]", quote); }
  std::string operator()(DType dtype) const { return std::string(name_of(dtype)); }
  std::string operator()(Layout layout) const { return std::string(kLayoutNames[static_cast<size_t>(layout)]); }
  std::string operator()(MemoryFormat format) const {
    return std::string(kMemoryFormatNames[static_cast<size_t>(format)]);
  }
  std::string operator()(const Device& device) const {
    return device.index < 0 ? cat("device(", quote(device.type), ")")
                            : cat("device(", quote(device.type), ", ", device.index, ")");
  }
};

// Reads the elements and the closing bracket of a list, after its opening bracket.
template <typename Read>
auto parse_list(Lexer& lexer, Read read) {
  std::vector<decltype(read())> items;
  do items.push_back(read());
  while (lexer.accept(","));
  lexer.expect("]");
  return items;
}

TensorRef parse_tensor(Lexer& lexer, const ParseContext& context) {
  if (lexer.accept("none")) return TensorRef{};
  return context.tensor(lexer.expect_value("a value or none"));
}

Attr parse_bracketed(Lexer& lexer, const ParseContext& context) {
  lexer.expect("[");
  if (lexer.accept("]")) return std::vector<Expr>();
  if (lexer.peek().kind == TokenKind::kValue || lexer.at("none"))
    return parse_list(lexer, [&] { return parse_tensor(lexer, context); });
  if (lexer.peek().kind == TokenKind::kString)
    return parse_list(lexer, [&] { return lexer.expect_string("a string"); });
  return parse_list(lexer, [&] { return parse_expr(lexer, context); });
}

double parse_float(Lexer& lexer, const ParseContext& context) {
  Token start = lexer.peek();
  Expr e = parse_expr(lexer, context);
  if (!e.is_constant()) lexer.fail_at(start, cat("expected a number, found ", e.str()));
  return e.value().as_float();
}

std::complex<double> parse_complex(Lexer& lexer, const ParseContext& context) {
  lexer.expect("(");
  double real = parse_float(lexer, context);
  lexer.expect(",");
  double imaginary = parse_float(lexer, context);
  lexer.expect(")");
  return {real, imaginary};
}

Device parse_device(Lexer& lexer) {
  lexer.expect("(");
  Device device{lexer.expect_string("a device type as a string"), -1};
  if (lexer.accept(",")) {
    Token start = lexer.peek();
    int64_t index = lexer.expect_integer("a device index");
    if (index < 0 || index > INT32_MAX) lexer.fail_at(start, cat("the device index ", index, " is out of range"));
    device.index = static_cast<int32_t>(index);
  }
  lexer.expect(")");
  return device;
}

// Parses the attribute whose first token is the next one, a word for which is_attr_word() holds.
Attr parse_word(Lexer& lexer, const ParseContext& context) {
  const std::string word = lexer.next().text;
  if (word == "complex") return parse_complex(lexer, context);
  if (word == "device") return parse_device(lexer);
  if (auto dtype = parse_dtype(word)) return *dtype;
  if (auto layout = find_name<Layout>(kLayoutNames, word)) return *layout;
  if (auto format = find_name<MemoryFormat>(kMemoryFormatNames, word)) return *format;
  lexer.expect("[");
  lexer.expect("]");
  if (word == "tensors") return std::vector<TensorRef>();
  return std::vector<std::string>();
}

template <typename Variant, typename Fn>
void visit_tensors(Variant& attr, const Fn& fn) {
  if (auto* ref = std::get_if<TensorRef>(&attr)) {
    if (ref->id != TensorRef::kAbsent) fn(*ref);
  } else if (auto* refs = std::get_if<std::vector<TensorRef>>(&attr)) {
    for (auto& item : *refs)
      if (item.id != TensorRef::kAbsent) fn(item);
  }
}

template <typename Variant, typename Fn>
void visit_exprs(Variant& attr, const Fn& fn) {
  if (auto* e = std::get_if<Expr>(&attr)) {
    fn(*e);
  } else if (auto* list = std::get_if<std::vector<Expr>>(&attr)) {
    for (auto& item : *list) fn(item);
  }
}

}  // namespace

std::string to_text(const Attr& attr, const std::function<std::string(TensorRef)>& tensor_name) {
  return std::visit(AttrWriter{tensor_name}, attr);
}

Attr parse_attr(Lexer& lexer, const ParseContext& context) {
  if (lexer.accept("none")) return None();
  const Token& token = lexer.peek();
  if (token.kind == TokenKind::kValue) return parse_tensor(lexer, context);
  if (token.kind == TokenKind::kString) return lexer.next().text;
  if (lexer.at("[")) return parse_bracketed(lexer, context);
  if (token.kind == TokenKind::kIdentifier && is_attr_word(token.text)) return parse_word(lexer, context);
  return parse_expr(lexer, context);
}

void for_each_tensor(const Attr& attr, const std::function<void(TensorRef)>& fn) { visit_tensors(attr, fn); }
void for_each_tensor(Attr& attr, const std::function<void(TensorRef&)>& fn) { visit_tensors(attr, fn); }
void for_each_expr(const Attr& attr, const std::function<void(const Expr&)>& fn) { visit_exprs(attr, fn); }
void for_each_expr(Attr& attr, const std::function<void(Expr&)>& fn) { visit_exprs(attr, fn); }

}  // namespace npugraph
