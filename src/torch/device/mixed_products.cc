// SPDX-License-Identifier: Apache-2.0
// Products of operands of different floating-point types, which cpu refuses:
// the operands are converted to their common type.
#include <optional>
#include <type_traits>

#include <ATen/Operators.h>

#include "torch/device/native_kernels.h"
#include "torch/device/unboxed_kernel.h"

namespace npugraph::device {
namespace {

namespace op = at::_ops;

bool is_promoted(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 || type == at::kFloat || type == at::kDouble;
}

// The common type of the tensors among `arguments`, if they have different types that can be promoted. Otherwise
// nullopt: the kernel handles them, or reports an error.
template <typename... Args>
std::optional<at::ScalarType> common_type(const std::remove_reference_t<Args>&... arguments) {
  std::optional<at::ScalarType> common;
  bool differ = false, promoted = true;
  auto note = [&]<typename Arg>(std::type_identity<Arg>, const auto& argument) {
    if constexpr (std::is_same_v<Arg, const at::Tensor&>) {
      const at::ScalarType type = argument.scalar_type();
      promoted = promoted && is_promoted(type);
      differ = differ || (common && *common != type);
      if (!common || (differ && promoted)) common = common ? c10::promoteTypes(*common, type) : type;
    }
  };
  (note(std::type_identity<Args>{}, arguments), ...);
  return differ && promoted ? common : std::nullopt;
}

template <typename Arg>
decltype(auto) in_type(std::remove_reference_t<Arg>& argument, at::ScalarType type) {
  if constexpr (std::is_same_v<Arg, const at::Tensor&>)
    return argument.to(type);
  else
    return static_cast<Arg>(argument);
}

template <typename Op, typename Schema = typename Op::schema>
struct Product;

template <typename Op, typename Result, typename... Args>
struct Product<Op, Result(Args...)> {
  static Result run(Args... arguments) {
    if (const auto type = common_type<Args...>(arguments...)) [[unlikely]]
      return Op::call(in_type<Args>(arguments, *type)...);
    return UnboxedKernel<Op>::run(std::forward<Args>(arguments)...);
  }
};

template <typename... Ops>
void register_all(torch::Library& library) {
  (library.impl(schema_name<Ops>().c_str(), &Product<Ops>::run), ...);
}

}  // namespace

void register_products(torch::Library& library) {
  register_all<op::mm, op::mm_out, op::addmm, op::addmm_out, op::bmm, op::bmm_out, op::baddbmm, op::mv, op::dot,
               op::vdot>(library);
}

}  // namespace npugraph::device
