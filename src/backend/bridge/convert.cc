// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/convert.h"

#include <algorithm>
#include <array>
#include <utility>

#include <ATen/core/jit_type.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>

#include "backend/bridge/host_device.h"
#include "base/error.h"
#include "tensor/shape.h"

namespace npugraph::bridge {

namespace {

using c10::TypeKind;

// Indexed by DType.
constexpr std::array<at::ScalarType, kNumDTypes> kScalarTypes = {
    at::kBool,          at::kByte,          at::kChar,          at::kShort,           at::kInt,
    at::kLong,          at::kHalf,          at::kBFloat16,      at::kFloat,           at::kDouble,
    at::kComplexHalf,   at::kComplexFloat,  at::kComplexDouble, at::kUInt16,          at::kUInt32,
    at::kUInt64,        at::kFloat8_e4m3fn, at::kFloat8_e5m2,   at::kFloat8_e4m3fnuz, at::kFloat8_e5m2fnuz,
    at::kFloat8_e8m0fnu};

// Indexed by Layout and MemoryFormat.
constexpr std::array kLayouts = {at::kStrided,   at::kSparse,    at::kSparseCsr, at::kSparseCsc,
                                 at::kSparseBsr, at::kSparseBsc, at::kMkldnn,    at::kJagged};
constexpr std::array kMemoryFormats = {at::MemoryFormat::Contiguous, at::MemoryFormat::Preserve,
                                       at::MemoryFormat::ChannelsLast, at::MemoryFormat::ChannelsLast3d};

bool is_int(TypeKind kind) { return kind == TypeKind::IntType || kind == TypeKind::SymIntType; }
bool is_float(TypeKind kind) { return kind == TypeKind::FloatType || kind == TypeKind::SymFloatType; }
bool is_bool(TypeKind kind) { return kind == TypeKind::BoolType || kind == TypeKind::SymBoolType; }

// Converts one argument; holds what every step needs.
class Converter {
 public:
  Converter(const c10::Argument& argument, const ArgumentSource& source) : argument_(argument), source_(source) {}

  c10::IValue convert(const Attr& attr, const c10::Type& type) const {
    if (type.kind() == TypeKind::OptionalType) {
      if (std::holds_alternative<None>(attr)) return {};
      return convert(attr, *type.castRaw<c10::OptionalType>()->getElementType());
    }
    if (type.kind() == TypeKind::ListType) return list(attr, *type.castRaw<c10::ListType>()->getElementType());
    return std::visit([&](const auto& value) { return single(value, type); }, attr);
  }

 private:
  [[noreturn]] void fail() const {
    throw UserError(
        cat("argument ", argument_.name(), " takes ", argument_.real_type()->str(), " and was given something else"));
  }

  Scalar value_of(const Expr& e) const { return e.is_constant() ? e.value() : source_.scalar(e); }

  c10::IValue single(const None&, const c10::Type& type) const {
    if (type.kind() == TypeKind::TensorType) return at::Tensor();
    fail();
  }
  c10::IValue single(const TensorRef& ref, const c10::Type& type) const {
    if (type.kind() != TypeKind::TensorType) fail();
    return ref.id == TensorRef::kAbsent ? at::Tensor() : source_.tensor(ref);
  }
  c10::IValue single(const Expr& e, const c10::Type& type) const {
    const Scalar value = value_of(e);
    const TypeKind kind = type.kind();
    if (is_int(kind)) return value.as_int();
    if (is_float(kind)) return value.as_float();
    if (is_bool(kind)) return value.as_bool();
    if (kind == TypeKind::NumberType) return to_torch(value);
    if (kind == TypeKind::TensorType) return wrapped_number(to_torch(value));
    fail();
  }
  c10::IValue single(const std::complex<double>& value, const c10::Type& type) const {
    const c10::complex<double> number(value.real(), value.imag());
    if (type.kind() == TypeKind::TensorType) return wrapped_number(number);
    if (type.kind() == TypeKind::NumberType || type.kind() == TypeKind::ComplexType) return number;
    fail();
  }
  c10::IValue single(const std::string& value, const c10::Type& type) const {
    if (type.kind() != TypeKind::StringType) fail();
    return value;
  }
  c10::IValue single(DType value, const c10::Type& type) const {
    if (type.kind() != TypeKind::ScalarTypeType && !is_int(type.kind())) fail();
    return to_torch(value);
  }
  c10::IValue single(Layout value, const c10::Type& type) const {
    if (type.kind() != TypeKind::LayoutType && !is_int(type.kind())) fail();
    return to_torch(value);
  }
  c10::IValue single(MemoryFormat value, const c10::Type& type) const {
    if (type.kind() != TypeKind::MemoryFormatType && !is_int(type.kind())) fail();
    return to_torch(value);
  }
  c10::IValue single(const Device& value, const c10::Type& type) const {
    if (type.kind() != TypeKind::DeviceObjType) fail();
    const c10::Device device = to_torch(value);
    return source_.keeps_devices || !is_host_device(device) ? device : c10::Device(c10::kCPU);
  }
  template <typename T>
  c10::IValue single(const std::vector<T>&, const c10::Type&) const {
    fail();
  }

  static at::Tensor wrapped_number(const at::Scalar& value) {
    at::Tensor tensor = at::scalar_tensor(value, value.type());
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
  }

  // An empty list does not tell its element type, and a number stands for a
  // list of the declared length ("int[2] stride=1").
  c10::IValue list(const Attr& attr, const c10::Type& element) const {
    switch (element.kind()) {
      case TypeKind::TensorType: return tensors(attr);
      case TypeKind::OptionalType: return optional_tensors(attr, element);
      case TypeKind::NumberType: {
        c10::impl::GenericList numbers(c10::NumberType::get());
        for (const Expr& e : exprs(attr)) numbers.emplace_back(to_torch(value_of(e)));
        return numbers;
      }
      case TypeKind::StringType:
        return std::holds_alternative<std::vector<std::string>>(attr) ? std::get<std::vector<std::string>>(attr)
                                                                      : no_items<std::string>(attr);
      default: break;
    }
    if (is_int(element.kind())) return numbers<int64_t>(attr, [](const Scalar& s) { return s.as_int(); });
    if (is_float(element.kind())) return numbers<double>(attr, [](const Scalar& s) { return s.as_float(); });
    if (is_bool(element.kind())) return numbers<bool>(attr, [](const Scalar& s) { return s.as_bool(); });
    fail();
  }

  static bool is_empty_list(const Attr& attr) {
    return std::visit(
        [](const auto& value) {
          if constexpr (requires { value.begin(); }) return value.empty();
          return false;
        },
        attr);
  }

  template <typename T>
  std::vector<T> no_items(const Attr& attr) const {
    if (!is_empty_list(attr)) fail();
    return {};
  }

  std::vector<Expr> exprs(const Attr& attr) const {
    if (const auto* items = std::get_if<std::vector<Expr>>(&attr)) return *items;
    if (const auto* item = std::get_if<Expr>(&attr)) {
      return std::vector<Expr>(static_cast<size_t>(argument_.N().value_or(1)), *item);
    }
    return no_items<Expr>(attr);
  }

  template <typename T, typename Read>
  c10::IValue numbers(const Attr& attr, Read read) const {
    c10::List<T> items;
    for (const Expr& e : exprs(attr)) items.push_back(read(value_of(e)));
    return items;
  }

  std::vector<TensorRef> refs(const Attr& attr) const {
    if (const auto* items = std::get_if<std::vector<TensorRef>>(&attr)) return *items;
    if (const auto* item = std::get_if<TensorRef>(&attr)) return {*item};
    return no_items<TensorRef>(attr);
  }

  c10::IValue tensors(const Attr& attr) const {
    c10::List<at::Tensor> items;
    for (const TensorRef& ref : refs(attr)) {
      if (ref.id == TensorRef::kAbsent) fail();
      items.push_back(source_.tensor(ref));
    }
    return items;
  }

  c10::IValue optional_tensors(const Attr& attr, const c10::Type& element) const {
    if (element.castRaw<c10::OptionalType>()->getElementType()->kind() != TypeKind::TensorType) fail();
    c10::List<std::optional<at::Tensor>> items;
    for (const TensorRef& ref : refs(attr)) {
      items.push_back(ref.id == TensorRef::kAbsent ? std::nullopt : std::make_optional(source_.tensor(ref)));
    }
    return items;
  }

  const c10::Argument& argument_;
  const ArgumentSource& source_;
};

bool is_convertible_type(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::TensorType:
    case TypeKind::NumberType:
    case TypeKind::ComplexType:
    case TypeKind::StringType:
    case TypeKind::ScalarTypeType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
    case TypeKind::DeviceObjType: return true;
    case TypeKind::OptionalType: return true;  // at least as None
    case TypeKind::ListType: {
      const c10::Type& element = *type.castRaw<c10::ListType>()->getElementType();
      if (element.kind() == TypeKind::OptionalType) {
        return element.castRaw<c10::OptionalType>()->getElementType()->kind() == TypeKind::TensorType;
      }
      return element.kind() != TypeKind::ListType && is_convertible_type(element);
    }
    default: return is_int(type.kind()) || is_float(type.kind()) || is_bool(type.kind());
  }
}

}  // namespace

at::ScalarType to_torch(DType dtype) { return kScalarTypes.at(static_cast<size_t>(dtype)); }

std::optional<DType> from_torch(at::ScalarType dtype) {
  for (size_t i = 0; i < kScalarTypes.size(); ++i) {
    if (kScalarTypes[i] == dtype) return static_cast<DType>(i);
  }
  return std::nullopt;
}

at::Scalar to_torch(const Scalar& value) {
  switch (value.kind) {
    case ScalarKind::kInt: return value.i;
    case ScalarKind::kFloat: return value.f;
    case ScalarKind::kBool: return value.as_bool();
  }
  NG_CHECK(false, "scalar kind ", static_cast<int>(value.kind));
}

c10::Device to_torch(const Device& device) {
  c10::Device result(device.type);
  if (device.index >= 0) result.set_index(static_cast<c10::DeviceIndex>(device.index));
  return result;
}

at::Layout to_torch(Layout layout) { return kLayouts.at(static_cast<size_t>(layout)); }

at::MemoryFormat to_torch(MemoryFormat format) { return kMemoryFormats.at(static_cast<size_t>(format)); }

Layout from_torch(at::Layout layout) {
  const auto at = std::find(kLayouts.begin(), kLayouts.end(), layout);
  if (at == kLayouts.end()) throw UserError(cat("layout ", layout, " is not supported"));
  return static_cast<Layout>(at - kLayouts.begin());
}

MemoryFormat from_torch(at::MemoryFormat format) {
  const auto at = std::find(kMemoryFormats.begin(), kMemoryFormats.end(), format);
  if (at == kMemoryFormats.end()) throw UserError(cat("memory format ", format, " is not supported"));
  return static_cast<MemoryFormat>(at - kMemoryFormats.begin());
}

Device from_torch(const c10::Device& device) {
  return {c10::DeviceTypeName(device.type(), true), device.has_index() ? device.index() : -1};
}

c10::IValue to_ivalue(const Attr& attr, const c10::Argument& argument, const ArgumentSource& source) {
  return Converter(argument, source).convert(attr, *argument.real_type());
}

bool is_convertible(const c10::Argument& argument) { return is_convertible_type(*argument.real_type()); }

std::optional<c10::OperatorHandle> find_operator(std::string_view fx_name) {
  const size_t dot = fx_name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view rest = fx_name.substr(dot + 1);
  const size_t overload_dot = rest.find('.');
  const std::string_view name = rest.substr(0, overload_dot);
  std::string_view overload;
  if (overload_dot != std::string_view::npos) overload = rest.substr(overload_dot + 1);
  if (overload == "default") overload = {};
  return c10::Dispatcher::singleton().findSchema({cat(fx_name.substr(0, dot), "::", name), std::string(overload)});
}

std::string fx_name_of(const c10::OperatorName& name) {
  const size_t colons = name.name.find("::");
  const std::string in_namespace = cat(name.name.substr(0, colons), ".", name.name.substr(colons + 2));
  return name.overload_name.empty() ? in_namespace : cat(in_namespace, ".", name.overload_name);
}

bool is_foreign(std::string_view operator_namespace) { return operator_namespace != "aten"; }

std::shared_ptr<void> share_tensor(at::Tensor tensor) {
  auto holder = std::make_shared<at::Tensor>(std::move(tensor));
  c10::TensorImpl* impl = holder->unsafeGetTensorImpl();
  return {std::move(holder), impl};
}

ir::ConstantData constant_of(at::Tensor tensor) {
  ir::ConstantData constant;
  if (is_host_device(tensor.device())) tensor = host_device()->cpu_alias(tensor);
  if (tensor.layout() == at::kStrided && tensor.device().is_cpu() && from_torch(tensor.scalar_type())) {
    constant.data = tensor.const_data_ptr();
    constant.bytes = extent_bytes(tensor.sizes(), tensor.strides(), *from_torch(tensor.scalar_type()));
  }
  constant.owner = share_tensor(std::move(tensor));
  return constant;
}

at::Tensor tensor_over(const void* data, at::IntArrayRef sizes, at::IntArrayRef strides, DType dtype,
                       std::shared_ptr<void> owner) {
  return at::from_blob(
      const_cast<void*>(data), sizes, strides, [owner = std::move(owner)](void*) {},
      at::TensorOptions().dtype(to_torch(dtype)));
}

}  // namespace npugraph::bridge
