// SPDX-License-Identifier: Apache-2.0
// Translation between our types and torch's. Stateless and thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/util/FunctionRef.h>

#include "backend/own_kernels/export.h"
#include "ir/graph.h"
#include "tensor/attr.h"

namespace npugraph::bridge {

NPUGRAPH_EXPORT at::ScalarType to_torch(DType dtype);
// Returns nullopt for element types without a DType (quantised ones, bits).
NPUGRAPH_EXPORT std::optional<DType> from_torch(at::ScalarType dtype);

at::Scalar to_torch(const Scalar& value);
c10::Device to_torch(const Device& device);
at::Layout to_torch(Layout layout);
at::MemoryFormat to_torch(MemoryFormat format);
// UserError for a layout or memory format without a counterpart here.
Layout from_torch(at::Layout layout);
MemoryFormat from_torch(at::MemoryFormat format);
NPUGRAPH_EXPORT Device from_torch(const c10::Device& device);

// How an argument's references are looked up. Called in the order of for_each_tensor and for_each_expr; `scalar` is
// called only for expressions that are not constant.
struct ArgumentSource {
  c10::function_ref<at::Tensor(TensorRef)> tensor;
  c10::function_ref<Scalar(const Expr&)> scalar;
  bool keeps_devices = false;  // false: a device of host memory becomes cpu
};

// The value that an operator takes for `argument` of its schema. A number for a Tensor argument becomes a wrapped
// number, as in Python. UserError that names the argument when `attr` does not fit its type.
c10::IValue to_ivalue(const Attr& attr, const c10::Argument& argument, const ArgumentSource& source);

// The inverse of to_ivalue. `tensor` gives the reference of a tensor that is defined. Returns nullopt for values that a
// Program cannot hold, such as generators.
NPUGRAPH_EXPORT std::optional<Attr> to_attr(const c10::IValue& value, const c10::Argument& argument,
                                            c10::function_ref<TensorRef(const at::Tensor&)> tensor);
NPUGRAPH_EXPORT Attr number_attr(const at::Scalar& value);

// Whether to_ivalue knows the type. Generators, streams and script classes are taken as None only.
bool is_convertible(const c10::Argument& argument);

// The operator of an FX name, "aten.mm.out", "aten.mm.default", "aten.mm" or "my_ns.op.default"; nullopt if the
// dispatcher has none.
NPUGRAPH_EXPORT std::optional<c10::OperatorHandle> find_operator(std::string_view fx_name);
// "aten::mm.out" -> "aten.mm.out"; the default overload has no suffix.
NPUGRAPH_EXPORT std::string fx_name_of(const c10::OperatorName& name);
// Whether the operators of a namespace come from outside of torch: see program::Task::foreign.
NPUGRAPH_EXPORT bool is_foreign(std::string_view operator_namespace);

// Shares ownership of a tensor. get() is its c10::TensorImpl, as opaque constants require.
std::shared_ptr<void> share_tensor(at::Tensor tensor);
// A constant over the memory of a strided tensor on cpu or the host device; any other tensor becomes opaque. Nothing is
// copied.
NPUGRAPH_EXPORT ir::ConstantData constant_of(at::Tensor tensor);
// The strided tensor over `data`, which `owner` keeps alive for as long as the tensor lives.
at::Tensor tensor_over(const void* data, at::IntArrayRef sizes, at::IntArrayRef strides, DType dtype,
                       std::shared_ptr<void> owner);

}  // namespace npugraph::bridge
