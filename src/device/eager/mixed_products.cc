// SPDX-License-Identifier: Apache-2.0
// Products, also of operands of different floating-point types, which cpu refuses: those are converted to their common
// type.
#include <optional>
#include <type_traits>

#include <ATen/Operators.h>

#include "backend/own_kernels/generated_product.h"
#include "device/eager/register.h"
#include "device/eager/unboxed_kernel.h"

namespace npugraph::eager {
namespace {

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

// Operators whose kernel on cpu tensors is one of our own.
struct Mm : op::mm {
  static at::Tensor redispatch(c10::DispatchKeySet, const at::Tensor& self, const at::Tensor& mat2) {
    return own::mm_as_compiled(self, mat2);
  }
};
struct MmOut : op::mm_out {
  static at::Tensor& redispatch(c10::DispatchKeySet, const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
    return own::mm_out_as_compiled(self, mat2, out);
  }
};
struct Bmm : op::bmm {
  static at::Tensor redispatch(c10::DispatchKeySet, const at::Tensor& self, const at::Tensor& mat2) {
    return own::bmm_as_compiled(self, mat2);
  }
};
struct BmmOut : op::bmm_out {
  static at::Tensor& redispatch(c10::DispatchKeySet, const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
    return own::bmm_out_as_compiled(self, mat2, out);
  }
};
struct Addmm : op::addmm {
  static at::Tensor redispatch(c10::DispatchKeySet, const at::Tensor& self, const at::Tensor& mat1,
                               const at::Tensor& mat2, const at::Scalar& beta, const at::Scalar& alpha) {
    return own::addmm_as_compiled(self, mat1, mat2, beta, alpha);
  }
};
struct AddmmOut : op::addmm_out {
  static at::Tensor& redispatch(c10::DispatchKeySet, const at::Tensor& self, const at::Tensor& mat1,
                                const at::Tensor& mat2, const at::Scalar& beta, const at::Scalar& alpha,
                                at::Tensor& out) {
    return own::addmm_out_as_compiled(self, mat1, mat2, beta, alpha, out);
  }
};
struct AddmmInPlace : op::addmm_ {
  static at::Tensor& redispatch(c10::DispatchKeySet, at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                const at::Scalar& beta, const at::Scalar& alpha) {
    return own::addmm_out_as_compiled(self, mat1, mat2, beta, alpha, self);
  }
};

template <typename... Ops>
void register_products_of(torch::Library& library) {
  (library.impl(schema_name<Ops>().c_str(), &Product<Ops>::run), ...);
}

}  // namespace

void register_products(torch::Library& library) {
  register_products_of<Mm, MmOut, Addmm, AddmmOut, Bmm, BmmOut, op::baddbmm, op::mv, op::dot, op::vdot>(library);
  register_unboxed<AddmmInPlace>(library);
}

}  // namespace npugraph::eager
