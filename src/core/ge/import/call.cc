// SPDX-License-Identifier: Apache-2.0
#include "ge/import/call.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "ge/data_types.h"
#include "ge/import/operand.h"

namespace npugraph::ge {

namespace {

// A number of the IR's text: "1e-5", "DT_INT32", "1.f/8".
double parse_number(std::string_view text) {
  if (text.starts_with("DT_")) {
    const auto* row = std::ranges::find(kDataTypes, text, &DataTypeRow::name);
    return row == kDataTypes.end() ? 0 : static_cast<double>(row->number);
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  NG_CHECK(error == std::errc(), "'", text, "' is no number");
  std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (rest.starts_with('f')) rest.remove_prefix(1);
  return rest.starts_with('/') ? number / parse_number(rest.substr(1)) : number;
}

// "{1,1,1,1}"
std::vector<int64_t> parse_integers(std::string_view text) {
  std::vector<int64_t> numbers;
  while (text.starts_with('{') || text.starts_with(',') || text.starts_with(' ')) {
    text.remove_prefix(1);
    if (text.starts_with('}') || text.starts_with(' ')) continue;
    const size_t end = std::min(text.find_first_of(",}"), text.size());
    numbers.push_back(static_cast<int64_t>(parse_number(text.substr(0, end))));
    text.remove_prefix(end);
  }
  return numbers;
}

}  // namespace

Call::Call(Context& context, const OpDef& def, const IrOperator& ir, std::vector<Operand*> operands)
    : context_(context), def_(def), ir_(ir), operands_(std::move(operands)) {
  place_operands();
  check_types();
  for (const IrAttr& attr : ir.attrs) {
    const bool counts = attr.name == "N";  // follows from the inputs
    if (attr.required && !counts && find_attr(def.attrs, attr.name) == nullptr)
      fail(cat("it has no attribute '", attr.name, "'"));
  }
}

void Call::check_types() const {
  for (size_t i = 0; i < ir_.inputs.size(); ++i) {
    for (size_t k = 0; k < places_[i].size; ++k) {
      const Operand* operand = operands_[places_[i].begin + k];
      if (operand == nullptr) continue;
      if (operand->text != nullptr) {
        if (ir_.inputs[i].types.find("string") != std::string::npos) continue;
        fail(cat("the type of its input '", ir_.inputs[i].name, "' is one of ", ir_.inputs[i].types, ", got a text"));
      }
      const DType dtype = context_.type_of(*operand);
      if (ir_.inputs[i].allows(dtype)) continue;
      fail(cat("the type of its input '", ir_.inputs[i].name, "' is one of ", ir_.inputs[i].types, ", got ",
               row_of(dtype).name));
    }
  }
}

// An input takes the next operand. A dynamic input takes those that its descriptors x0, x1, ... name, or, without
// descriptors, all that the inputs after it leave.
void Call::place_operands() {
  size_t next = 0;
  for (size_t i = 0; i < ir_.inputs.size(); ++i) {
    const IrTensor& input = ir_.inputs[i];
    Place place{.begin = next};
    if (input.arity == Arity::kDynamic) {
      const size_t after = ir_.inputs.size() - i - 1;
      const bool is_described = def_.input_descs.size() >= operands_.size() && next < def_.input_descs.size() &&
                                def_.input_descs[next].name == input.name + "0";
      if (is_described) {
        while (next + place.size < operands_.size() &&
               def_.input_descs[next + place.size].name == cat(input.name, place.size))
          ++place.size;
      } else {
        place.size = operands_.size() - std::min(operands_.size(), next + after);
      }
      for (size_t k = 0; k < place.size; ++k) {
        if (operands_[next + k] == nullptr) fail(cat("tensor ", k, " of its input '", input.name, "' is absent"));
      }
    } else {
      place.size = next < operands_.size() ? 1 : 0;
      const bool is_missing = place.size == 0 || operands_[next] == nullptr;
      if (is_missing && input.arity == Arity::kRequired) fail(cat("it has no input '", input.name, "'"));
    }
    next += place.size;
    places_.push_back(place);
  }
  if (next < operands_.size()) fail(cat("it takes ", next, " inputs, got ", operands_.size()));
}

void Call::fail(const std::string& reason) { throw UserError(reason); }

size_t Call::input_index(std::string_view name) const {
  const auto found = std::ranges::find(ir_.inputs, name, &IrTensor::name);
  NG_CHECK(found != ir_.inputs.end(), ir_.name, " has no input ", name);
  return static_cast<size_t>(found - ir_.inputs.begin());
}

const Operand* Call::operand(std::string_view name) const {
  const Place& place = places_[input_index(name)];
  return place.size == 0 ? nullptr : operands_[place.begin];
}

ir::ValueId Call::value(std::string_view name) const {
  const Place& place = places_[input_index(name)];
  NG_CHECK(place.size == 1, def_.name, " has no ", name);
  return context_.value_of(*operands_[place.begin]);
}

Attr Call::argument(std::string_view name) const {
  if (!has(name)) return None{};
  return TensorRef{value(name)};
}

std::vector<Operand*> Call::list(std::string_view name) const {
  const Place& place = places_[input_index(name)];
  const auto begin = operands_.begin() + static_cast<std::ptrdiff_t>(place.begin);
  return {begin, begin + static_cast<std::ptrdiff_t>(place.size)};
}

const Numbers* Call::find_numbers(std::string_view name) const {
  const Operand* found = operand(name);
  return found == nullptr || !found->numbers ? nullptr : &*found->numbers;
}

const Text& Call::text(std::string_view name) const {
  const Operand* found = operand(name);
  if (found == nullptr || found->text == nullptr) fail(cat("its input '", name, "' is not made by StringFormat"));
  return *found->text;
}

const Numbers& Call::numbers(std::string_view name) const {
  const Numbers* found = find_numbers(name);
  if (found == nullptr) fail(cat("the elements of its input '", name, "' are known only when the graph runs"));
  return *found;
}

std::vector<int64_t> Call::integers(std::string_view name) const {
  std::vector<int64_t> integers;
  for (const Expr& element : numbers(name).elements) {
    if (!element.as_int()) fail(cat("its input '", name, "' has to be constant, got ", element.str()));
    integers.push_back(*element.as_int());
  }
  return integers;
}

const Expr& Call::scalar(std::string_view name) const {
  const std::vector<Expr>& all = numbers(name).elements;
  if (all.size() != 1) fail(cat("its input '", name, "' has one element, got ", all.size()));
  return all.front();
}

int64_t Call::integer(std::string_view name) const {
  const auto integer = scalar(name).as_int();
  if (!integer) fail(cat("its input '", name, "' has to be constant, got ", scalar(name).str()));
  return *integer;
}

const IrAttr& Call::attr(std::string_view name) const {
  const auto found = std::ranges::find(ir_.attrs, name, &IrAttr::name);
  NG_CHECK(found != ir_.attrs.end(), ir_.name, " has no attribute ", name);
  return *found;
}

template <typename T>
const T* Call::stated(std::string_view name) const {
  const AttrValue* found = find_attr(def_.attrs, name);
  if (found == nullptr) return nullptr;
  const T* value = found->get<T>();
  if (value == nullptr) fail(cat("its attribute '", name, "' is no ", name_of(attr(name).kind)));
  return value;
}

int64_t Call::attr_int(std::string_view name) const {
  const int64_t* found = stated<int64_t>(name);
  return found != nullptr ? *found : static_cast<int64_t>(parse_number(attr(name).default_text));
}

double Call::attr_float(std::string_view name) const {
  const float* found = stated<float>(name);
  return found != nullptr ? decimal(*found) : parse_number(attr(name).default_text);
}

bool Call::attr_bool(std::string_view name) const {
  const bool* found = stated<bool>(name);
  return found != nullptr ? *found : attr(name).default_text == "true";
}

std::string Call::attr_string(std::string_view name) const {
  if (const auto* found = stated<std::string_view>(name)) return std::string(*found);
  const std::string& text = attr(name).default_text;
  return text.size() >= 2 && text.front() == '"' ? text.substr(1, text.size() - 2) : text;
}

std::vector<int64_t> Call::attr_ints(std::string_view name) const {
  if (const auto* found = stated<ListValue>(name)) return found->i;
  return parse_integers(attr(name).default_text);
}

std::optional<DType> Call::output_type(size_t output) const {
  if (output >= def_.output_descs.size()) return std::nullopt;
  const DataTypeRow* row = find_type(def_.output_descs[output].dtype);
  return row == nullptr ? std::nullopt : row->dtype;
}

}  // namespace npugraph::ge
