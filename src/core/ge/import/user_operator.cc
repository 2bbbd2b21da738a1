// SPDX-License-Identifier: Apache-2.0
#include "ge/import/user_operator.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "ge/data_types.h"
#include "ge/import/inputs.h"
#include "libraries/library.h"
#include "ops/operators.h"
#include "ops/table.h"
#include "tensor/shape.h"

namespace npugraph::ge {
namespace {

Expr of_bool(bool value) { return Expr::constant(Scalar::of_bool(value)); }
Expr of_float(double value) { return Expr::constant(Scalar::of_float(value)); }

std::optional<Attr> element_type(int64_t number) {
  const DataTypeRow* row = find_type_by_number(number);
  return row == nullptr || !row->dtype ? std::nullopt : std::optional<Attr>(*row->dtype);
}

// The number that a text is. Attributes of Ascend IR have the precision of f32, and texts state doubles.
std::optional<Attr> double_of(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return of_float(number);
}

// The value of an attribute as an argument of that type, without "?"; nullopt if it has another type.
std::optional<Attr> argument(const AttrValue& value, std::string_view type) {
  const auto* whole = value.get<int64_t>();
  if (const auto* list = value.get<ListValue>(); list != nullptr && type.ends_with(']')) {
    std::vector<Expr> numbers;
    for (const int64_t number : list->i) numbers.emplace_back(number);
    for (const float number : list->f) numbers.push_back(of_float(number));
    for (const bool flag : list->b) numbers.push_back(of_bool(flag));
    return numbers;
  }
  if (type == "ScalarType") {
    if (const auto* named = value.get<TypeNumber>()) return element_type(named->number);
    return whole == nullptr ? std::nullopt : element_type(*whole);
  }
  if (const auto* text = value.get<std::string_view>()) {
    if (type == "str") return std::string(*text);
    return type == "float" || type == "Scalar" ? double_of(*text) : std::nullopt;
  }
  if (const auto* flag = value.get<bool>(); flag != nullptr && type != "str") return of_bool(*flag);
  if (whole != nullptr && type != "str" && type != "bool") return Expr(*whole);
  if (const auto* number = value.get<float>(); number != nullptr && (type == "float" || type == "Scalar"))
    return of_float(*number);
  return std::nullopt;
}

bool all_digits(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

// Builds the arguments of one call.
class UserCall {
 public:
  UserCall(Context& context, const OpDef& op, const ir::Schema& schema, const std::vector<Operand*>& operands)
      : context_(context),
        op_(op),
        schema_(schema),
        operands_(operands),
        arguments_(find_attr<ListValue>(op.attrs, attr::kArguments)),
        by_name_(arguments_ != nullptr || have_names_of_arguments()) {}

  std::vector<Operand> run() {
    for (const ir::SchemaArg& arg : schema_.args) args_.push_back(value_of(arg));
    if (!by_name_ && next_ < operands_.size())
      throw UserError(cat(schema_.name, " takes ", next_, " inputs, got ", operands_.size()));
    const ir::Op& op = *ops::registry().intern(schema_.text, static_cast<ir::Traits>(ir::Trait::kForeign));
    const std::vector<size_t> outputs = outputs_of_results();
    // Most rows of the operator table say what they return. Of other operators only the graph knows it.
    const bool says = op.id >= 0 && !op.is(ir::Trait::kForeign) && ops::infer_types(context_.graph(), op, args_);
    const std::vector<ir::ValueId> made = says ? context_.add_all(op, std::move(args_))
                                               : context_.add_typed(op, std::move(args_), types_of_results(outputs));
    if (outputs.size() > made.size())
      throw UserError(cat("it has ", outputs.size(), " outputs, and ", op.name, " makes ", made.size()));
    std::vector<Operand> results(op_.output_descs.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (const ir::ValueId* written = find_written(op_.output_descs[i].name)) results[i] = Operand::of(*written);
    }
    for (size_t i = 0; i < outputs.size(); ++i) results[outputs[i]] = Operand::of(made[i]);
    return results;
  }

 private:
  Attr value_of(const ir::SchemaArg& arg) {
    const bool is_optional = arg.type.ends_with('?');
    const std::string_view type = std::string_view(arg.type).substr(0, arg.type.size() - (is_optional ? 1 : 0));
    if (type == "Tensor") return tensor(arg, is_optional);
    if (type.starts_with("Tensor")) return tensors(arg);
    if (type == "Device") return context_.device();
    if (arguments_ != nullptr && place_of(arg.name) < operands_.size()) return numbers(arg);
    const std::string name = arguments_ != nullptr ? cat(attr::kArgumentPrefix, arg.name) : arg.name;
    if (const AttrValue* stated = find_attr(op_.attrs, name)) {
      if (auto value = argument(*stated, type)) return *std::move(value);
      throw UserError(cat("its attribute '", name, "' is no ", type, ", which ", schema_.text, " takes"));
    }
    if (arg.has_default) return arg.default_value;
    if (is_optional) return None{};
    throw UserError(cat("it has no attribute '", name, "', which ", schema_.text, " takes"));
  }

  Attr tensor(const ir::SchemaArg& arg, bool is_optional) {
    const size_t place = by_name_ ? place_of(arg.name) : next_++;
    const bool is_given = place < operands_.size() && operands_[place] != nullptr;
    if (!is_given && !is_optional)
      throw UserError(cat("it has no input for the argument '", arg.name, "' of ", schema_.text));
    if (!is_given) return None{};
    return TensorRef{operand(arg, place)};
  }

  // The inputs whose descriptors are called x0, x1, ... By place, x is the name that the next input has.
  Attr tensors(const ir::SchemaArg& arg) {
    if (arguments_ != nullptr) return stated_tensors(arg);
    const std::string_view next = name_of_input(next_);
    const bool is_list = by_name_ || next.ends_with('0');
    const std::string stem = by_name_ ? arg.name : std::string(next.substr(0, next.size() - (is_list ? 1 : 0)));
    std::vector<TensorRef> refs;
    while (is_list) {
      const size_t place = place_of(cat(stem, refs.size()));
      if (place >= operands_.size() || operands_[place] == nullptr) break;
      refs.push_back({operand(arg, place)});
      ++next_;
    }
    return refs;
  }

  // Numbers that sizes of inputs say, for an argument that is a list of numbers in the schema and an input in the IR.
  Attr numbers(const ir::SchemaArg& arg) const {
    const Operand* operand = operands_[place_of(arg.name)];
    if (operand == nullptr || !operand->numbers || !arg.type.starts_with("SymInt["))
      throw UserError(cat("its input for the argument '", arg.name, "' is no list of numbers that follow from sizes"));
    return operand->numbers->elements;
  }

  Attr stated_tensors(const ir::SchemaArg& arg) {
    std::vector<TensorRef> refs;
    for (size_t place = 0; place < operands_.size(); ++place) {
      if (operands_[place] != nullptr && argument_of_input(place) == arg.name) refs.push_back({operand(arg, place)});
    }
    if (refs.empty() && arg.type.ends_with('?')) return None{};
    return refs;
  }

  // The place of the input with this name; the number of operands if there is none.
  size_t place_of(std::string_view name) const {
    size_t place = 0;
    while (place < operands_.size() && argument_of_input(place) != name) ++place;
    return place;
  }

  // The argument that an input is; unless the operator states it, the input has its name.
  std::string_view argument_of_input(size_t place) const {
    if (arguments_ == nullptr) return name_of_input(place);
    return place < arguments_->s.size() ? arguments_->s[place] : std::string_view();
  }

  // Whether each input has the name of an argument, or of a part of a list. Inputs of other names go by their places.
  bool have_names_of_arguments() const {
    const auto is_argument = [&](const TensorDesc& desc) {
      return std::ranges::any_of(schema_.args, [&](const ir::SchemaArg& arg) {
        if (!arg.type.starts_with("Tensor") || !desc.name.starts_with(arg.name)) return false;
        const std::string_view rest = std::string_view(desc.name).substr(arg.name.size());
        return arg.type.find('[') == arg.type.npos ? rest.empty() : all_digits(rest);
      });
    };
    return op_.input_descs.size() >= operands_.size() && std::ranges::all_of(op_.input_descs, is_argument);
  }

  std::string_view name_of_input(size_t place) const {
    return place < op_.input_descs.size() ? std::string_view(op_.input_descs[place].name) : std::string_view();
  }

  // Tensors of IR graphs are values, so a written one is a copy. Passes remove it where nobody reads the original.
  ir::ValueId operand(const ir::SchemaArg& arg, size_t place) {
    const ir::ValueId value = context_.value_of(*operands_[place]);
    if (!arg.is_write) return value;
    const ir::ValueId copy = context_.add(aten::clone::op(), {TensorRef{value}});
    written_.emplace_back(name_of_input(place), copy);
    return copy;
  }

  const ir::ValueId* find_written(std::string_view name) const {
    const auto found = std::ranges::find(written_, name, &Written::first);
    return found == written_.end() ? nullptr : &found->second;
  }

  // For each new tensor of the schema, the output that it is.
  std::vector<size_t> outputs_of_results() const {
    std::vector<size_t> outputs;
    if (const auto* stated = find_attr<ListValue>(op_.attrs, attr::kResults)) {
      for (const int64_t output : stated->i) {
        if (output < 0 || static_cast<size_t>(output) >= op_.output_descs.size())
          throw UserError(cat("it states a result as output ", output, ", and has ", op_.output_descs.size()));
        outputs.push_back(static_cast<size_t>(output));
      }
      return outputs;
    }
    for (size_t i = 0; i < op_.output_descs.size(); ++i) {
      if (find_written(op_.output_descs[i].name) == nullptr) outputs.push_back(i);
    }
    return outputs;
  }

  std::vector<ir::Type> types_of_results(const std::vector<size_t>& outputs) {
    std::vector<ir::Type> types;
    for (const size_t number : outputs) {
      const TensorDesc& output = op_.output_descs[number];
      ir::TensorType type{.dtype = ge::element_type(output),
                          .sizes = sizes_of(context_, output),
                          .strides = {},
                          .device = context_.device()};
      type.strides = stated_strides(context_, output).value_or(contiguous_strides(type.sizes));
      types.emplace_back(std::move(type));
    }
    const bool is_list = schema_.returns.size() == 1 && schema_.returns[0].type == "Tensor[]";
    if (is_list && arguments_ != nullptr) return types;
    const auto expected = std::ranges::count_if(schema_.returns, [](const auto& result) { return !result.is_write; });
    if (static_cast<std::ptrdiff_t>(types.size()) != expected)
      throw UserError(
          cat(schema_.name, " makes ", expected, " tensors, got ", types.size(), " outputs that are no inputs"));
    if (static_cast<size_t>(expected) != schema_.returns.size())
      throw UserError(cat("the operator returns an argument that it writes: ", schema_.text));
    return types;
  }

  using Written = std::pair<std::string, ir::ValueId>;  // the name of an input, and its copy

  Context& context_;
  const OpDef& op_;
  const ir::Schema& schema_;
  const std::vector<Operand*>& operands_;
  const ListValue* const arguments_;  // of each input, if the operator states it
  const bool by_name_;                // whether arguments find their operands by name, and not in order
  size_t next_ = 0;                   // of the operands, in order
  std::vector<Attr> args_;
  std::vector<Written> written_;
};

}  // namespace

std::optional<ir::Schema> schema_of(const OpDef& op, bool has_rule, const HostSchemas& host) {
  if (const std::string name = text_attr(op, attr::kOperator); !name.empty()) {
    if (const libraries::Kernel* kernel = libraries::find(name)) return kernel->schema;
    if (const std::string text = host ? host(name) : ""; !text.empty()) return ops::parse_schema(text);
    throw UserError(
        cat("it needs the kernel of ", name, ", which no library that is loaded has; ", libraries::kHowToLoad));
  }
  if (has_rule) return std::nullopt;
  const auto kernels = libraries::find_ir(op.type);
  if (kernels.size() > 1)
    throw UserError(cat("the kernels of ", kernels[0]->schema.name, " and ", kernels[1]->schema.name,
                        " both have its type as their name in Ascend IR"));
  return kernels.empty() ? std::nullopt : std::optional(kernels.front()->schema);
}

std::vector<Operand> call_operator(Context& context, const OpDef& op, const ir::Schema& schema,
                                   const std::vector<Operand*>& operands) {
  return UserCall(context, op, schema, operands).run();
}

}  // namespace npugraph::ge
