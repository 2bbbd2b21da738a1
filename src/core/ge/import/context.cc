// SPDX-License-Identifier: Apache-2.0
#include "ge/import/context.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "ge/import/operand.h"
#include "ir/bounds.h"
#include "ops/operators.h"
#include "ops/table.h"
#include "tensor/shape.h"

namespace npugraph::ge {

namespace {

constexpr size_t kAlignment = 64;

// The value of `symbol` at which `difference` is 0, if that is linear in it and the value is certainly whole.
std::optional<Expr> solve(const Expr& difference, const std::string& symbol) {
  const auto at = [&](const Expr& value) {
    return substitute(difference, [&](const Expr& s) { return s.symbol_name() == symbol ? value : s; });
  };
  const Expr rest = at(0), coefficient = at(1) - rest;
  if (!coefficient.as_int() || coefficient.is_int(0) || at(2) - at(1) != coefficient) return std::nullopt;
  const Expr value = Expr::make(ExprOp::kFloorDiv, {Expr(0) - rest, coefficient});
  return at(value).is_int(0) ? std::optional(value) : std::nullopt;
}

bool mentions(const Expr& expr, const Expr& symbol) {
  return expr == symbol || std::ranges::any_of(expr.args(), [&](const Expr& arg) { return mentions(arg, symbol); });
}

// The numbers by which `symbol`, or something that it is part of, is divided somewhere in `expr`.
void collect_divisors(const Expr& expr, const Expr& symbol, std::vector<int64_t>& divisors) {
  const bool divides = expr.op() == ExprOp::kFloorDiv || expr.op() == ExprOp::kMod;
  const auto divisor = divides && mentions(expr.args()[0], symbol) ? expr.args()[1].as_int() : std::nullopt;
  if (divisor) divisors.push_back(*divisor);
  for (const Expr& arg : expr.args()) collect_divisors(arg, symbol, divisors);
}

// The symbol as a multiple of a number, if `difference` is then 0: n // 2 == n - n // 2 says that n is even.
std::optional<Expr> solve_by_multiple(const Expr& difference, const std::string& name) {
  const Expr symbol = Expr::symbol(name);
  std::vector<int64_t> divisors;
  collect_divisors(difference, symbol, divisors);
  for (const int64_t divisor : divisors) {
    const Expr multiple = ir::multiple_of(divisor, symbol);
    const auto at = substitute(difference, [&](const Expr& s) { return s == symbol ? multiple : s; });
    if (divisor > 1 && at.is_int(0)) return multiple;
  }
  return std::nullopt;
}

// If `smaller` is min(c, size) for a symbol `size` and a constant c, they are equal where size is at most c: c.
std::optional<int64_t> upper_bound(const Expr& smaller, const Expr& size) {
  if (smaller.op() != ExprOp::kMin || size.op() != ExprOp::kSymbol || smaller.args().size() != 2) return std::nullopt;
  const Expr &a = smaller.args()[0], &b = smaller.args()[1];
  return b == size ? a.as_int() : a == size ? b.as_int() : std::nullopt;
}

void refuse_negative_sizes(const ir::Op& op, const ir::TensorType& type) {
  for (const Expr& size : type.sizes) {
    if (size.as_int().value_or(0) < 0)
      throw UserError(cat("a result of ", op.name, " would have the size ", size.str()));
  }
}

// "f32[d0, 4] and i64[d0]"
std::string operands_text(const ir::Graph& graph, const ir::Node& node) {
  std::string text;
  for (const ir::ValueId operand : ir::operands(node)) {
    const auto* type = std::get_if<ir::TensorType>(&graph.value(operand).type);
    if (type == nullptr) continue;
    text += cat(text.empty() ? "" : " and ", name_of(type->dtype), "[");
    for (size_t d = 0; d < type->sizes.size(); ++d) text += cat(d == 0 ? "" : ", ", type->sizes[d].str());
    text += "]";
  }
  return text.empty() ? "no tensors" : text;
}

}  // namespace

Expr Context::size_symbol(const std::string& name) {
  const auto known = substitutions_.find(name);
  const Expr size = known == substitutions_.end() ? Expr::symbol(name) : known->second;
  const auto stated = bounds_.find(name);
  const bool is_multiple = ir::tells(size, Expr::symbol(name));
  if (size.op() != ExprOp::kSymbol && !is_multiple) return size;
  ir::Symbol& symbol = declared(is_multiple ? name : size.symbol_name());
  if (stated == bounds_.end()) return size;
  symbol.min = std::max(symbol.min, stated->second.min);
  symbol.max = std::min(symbol.max, stated->second.max);
  return size;
}

ir::Symbol& Context::declared(const std::string& name) {
  const auto found = std::ranges::find(graph_.symbols, name, &ir::Symbol::name);
  if (found != graph_.symbols.end()) return *found;
  return graph_.symbols.emplace_back(ir::Symbol{.name = name, .kind = ScalarKind::kInt, .min = 0});
}

Expr Context::new_size() { return size_symbol(cat("d", num_sizes_++)); }

Expr Context::parse_size(std::string_view text) {
  const Expr size = parse_expr(text, [](std::string_view) { return ScalarKind::kInt; });
  return substitute(size, [&](const Expr& symbol) { return size_symbol(symbol.symbol_name()); });
}

void Context::require_equal(const Expr& given_a, const Expr& given_b) {
  const Expr a = ir::simplify(given_a, graph_.symbols), b = ir::simplify(given_b, graph_.symbols);
  if (a == b) return;
  const Expr difference = a - b;
  if (difference.is_constant()) throw UserError(cat("sizes ", a.str(), " and ", b.str(), " have to be equal"));
  if (const auto bound = upper_bound(a, b)) throw SizeMustBeAtMost{b.symbol_name(), *bound};
  if (const auto bound = upper_bound(b, a)) throw SizeMustBeAtMost{a.symbol_name(), *bound};
  std::vector<std::string> symbols;
  collect_symbols(difference, symbols);
  // The latest symbol is replaced, so that sizes of early inputs name those of later ones.
  std::ranges::reverse(symbols);
  for (const std::string& symbol : symbols) {
    const auto solved = solve(difference, symbol);
    if (solved && solved->as_int().value_or(0) < 0)
      throw UserError(cat("sizes ", a.str(), " and ", b.str(), " have to be equal, and no size is ", solved->str()));
    if (solved) throw SizesMustBeEqual{symbol, *solved};
  }
  for (const std::string& symbol : symbols) {
    if (const auto multiple = solve_by_multiple(difference, symbol)) throw SizesMustBeEqual{symbol, *multiple};
  }
  throw UserError(cat("sizes ", a.str(), " and ", b.str(), " have to be equal, which no size of an input can say"));
}

void Context::require_broadcast(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  const size_t common = std::min(a.size(), b.size());
  for (size_t i = 1; i <= common; ++i) {
    const Expr &of_a = a[a.size() - i], &of_b = b[b.size() - i];
    if (!of_a.is_int(1) && !of_b.is_int(1)) require_equal(of_a, of_b);
  }
}

void Context::set_origin(std::string name, std::string source) { origin_ = {std::move(name), std::move(source)}; }

std::vector<ir::ValueId> Context::add_all(const ir::Op& op, std::vector<Attr> args) {
  NG_CHECK(args.size() <= op.schema.args.size(), op.name, " takes ", op.schema.args.size(), " arguments");
  for (Attr& arg : args) for_each_expr(arg, [&](Expr& e) { e = ir::simplify(e, graph_.symbols); });
  while (args.size() < op.schema.args.size()) args.push_back(op.schema.args[args.size()].default_value);
  ir::Node node{.op = &op, .args = std::move(args), .origin = origin_};
  auto inferred = ops::infer_results(graph_, node, ops::OpenStrides::kRowMajor);
  if (!inferred)
    throw UserError(cat("sizes of the result of ", op.name, " of ", operands_text(graph_, node),
                        " do not follow from sizes of inputs"));
  node.views = std::move(inferred->views);
  std::vector<ir::Type> types;
  for (const auto& type : inferred->types) {
    types.push_back(type.value_or(ir::OpaqueType{}));
    if (const auto* tensor = std::get_if<ir::TensorType>(&types.back())) refuse_negative_sizes(op, *tensor);
  }
  return graph_.node(graph_.append(std::move(node), std::move(types), origin_.node)).results;
}

std::vector<ir::ValueId> Context::add_typed(const ir::Op& op, std::vector<Attr> args, std::vector<ir::Type> types) {
  ir::Node node{.op = &op, .args = std::move(args), .origin = origin_};
  return graph_.node(graph_.append(std::move(node), std::move(types), origin_.node)).results;
}

ir::ValueId Context::add(const ir::Op& op, std::vector<Attr> args) { return add_all(op, std::move(args)).front(); }

Operand Context::constant(const TensorValue& tensor, DType dtype) {
  int64_t elements = 1;
  for (const int64_t size : tensor.desc.dims) {
    if (size < 0) throw UserError(cat("a size of a constant is at least 0, got ", size));
    if (__builtin_mul_overflow(elements, size, &elements)) throw UserError("a constant has too many elements");
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, size_of(dtype), &bytes) || bytes != static_cast<int64_t>(tensor.data.size()))
    throw UserError(
        cat("a constant of ", elements, " elements of ", name_of(dtype), " has ", tensor.data.size(), " bytes"));
  Operand operand{.constant = &tensor, .dtype = dtype};
  const bool is_small = elements <= kMostNumbers && !is_complex(dtype);
  if (is_small && (tensor.desc.dims.empty() || is_integral(dtype)))
    operand.numbers = Numbers{dtype, tensor.desc.dims, read_elements(tensor.data, dtype)};
  return operand;
}

DType Context::type_of(const Operand& operand) const {
  if (operand.value != ir::kNone) return type(operand.value).dtype;
  return operand.constant != nullptr ? operand.dtype : operand.numbers->dtype;
}

ir::ValueId Context::value_of(Operand& operand) {
  if (operand.value != ir::kNone) return operand.value;
  if (operand.text != nullptr) throw UserError("a text is read by PrintV2 alone");
  // Passes know the numbers of nodes, and loops need no memory for them.
  const bool is_number = operand.constant == nullptr || (operand.numbers && operand.numbers->is_scalar());
  operand.value = is_number ? from_numbers(*operand.numbers) : from_constant(*operand.constant, operand.dtype);
  return operand.value;
}

// Kernels read aligned memory, and a file has constants at any place.
ir::ValueId Context::from_constant(const TensorValue& tensor, DType dtype) {
  ir::TensorType type{.dtype = dtype, .sizes = {tensor.desc.dims.begin(), tensor.desc.dims.end()}, .device = device_};
  type.strides = contiguous_strides(type.sizes);
  auto data = std::make_shared<ir::ConstantData>();
  data->bytes = static_cast<int64_t>(tensor.data.size());
  if (reinterpret_cast<uintptr_t>(tensor.data.data()) % kAlignment == 0) {
    data->owner = std::const_pointer_cast<void>(owner_);
    data->data = tensor.data.data();
  } else {
    void* copy = ::operator new(tensor.data.size(), std::align_val_t(kAlignment));
    data->owner = std::shared_ptr<void>(copy, [](void* p) { ::operator delete(p, std::align_val_t(kAlignment)); });
    std::memcpy(copy, tensor.data.data(), tensor.data.size());
    data->data = copy;
  }
  const ir::ValueId value = graph_.add_value(std::move(type), origin_.node);
  graph_.constants.push_back({.value = value, .data = std::move(data)});
  return value;
}

ir::ValueId Context::from_numbers(const Numbers& numbers) {
  std::vector<TensorRef> elements;
  for (const Expr& element : numbers.elements)
    elements.push_back({add(aten::scalar_tensor::op(), {element, numbers.dtype, None{}, device_})});
  if (numbers.dims.empty()) return elements.front().id;
  const ir::ValueId list = elements.empty()
                               ? add(aten::full::op(), {std::vector<Expr>{0}, Expr(0), numbers.dtype, None{}, device_})
                               : add(aten::stack::op(), {std::move(elements)});
  if (numbers.dims.size() == 1) return list;
  return add(aten::view::op(), {TensorRef{list}, std::vector<Expr>(numbers.dims.begin(), numbers.dims.end())});
}

}  // namespace npugraph::ge
