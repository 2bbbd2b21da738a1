// SPDX-License-Identifier: Apache-2.0
#include "lower/kernel_choice.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "libraries/library.h"
#include "lower/arguments.h"
#include "ops/operator_rows.h"
#include "ops/operators.h"
#include "ops/table.h"
#include "tensor/shape.h"

namespace npugraph::lower {

namespace {

// A call of a host operator costs about a microsecond, in which a kernel computes this many elements or
// multiplications.
constexpr int64_t kMaxElements = 16 * 1024;
constexpr int64_t kMaxMultiplications = 16 * 1024;

// Most elements of a product's second factor: larger factors are better read by all threads.
constexpr int64_t kMaxWeights = 16 * 1024;

using ops::KernelTypes;
using ops::SmallKernel;

bool accepts(KernelTypes types, DType dtype) {
  switch (types) {
    case KernelTypes::kF32:
    case KernelTypes::kF32MixedWithI64: return dtype == DType::kF32;
    case KernelTypes::kF32OrI64:
    case KernelTypes::kF32OrI64ToBool:
    case KernelTypes::kF32OrI64OrMixed: return dtype == DType::kF32 || dtype == DType::kI64;
    case KernelTypes::kBool: return dtype == DType::kBool;
  }
  return false;
}

// Whether the number of elements is known and small enough.
bool is_small(const ir::TensorType& type) {
  const auto elements = numel(type.sizes).as_int();
  return elements && *elements <= kMaxElements;
}

// Whether the argument is a number that the kernel can take in place of a tensor of `dtype` without changing
// the result's type.
bool is_plain_number(const Attr& arg, DType dtype) {
  const auto* number = std::get_if<Expr>(&arg);
  if (number == nullptr || !number->is_constant()) return false;
  return number->kind() == ScalarKind::kInt || (number->kind() == ScalarKind::kFloat && dtype == DType::kF32);
}

// Whether one tensor is f32 and the other i64, and the kernel computes them in f32.
bool is_mixed(const ir::Graph& graph, const ir::Node& node, const SmallKernel& kernel) {
  if (kernel.accepts != KernelTypes::kF32MixedWithI64 && kernel.accepts != KernelTypes::kF32OrI64OrMixed) return false;
  const ir::TensorType* a = tensor_type(graph, arg::self(node));
  const ir::TensorType* b = tensor_type(graph, arg::other(node));
  if (a == nullptr || b == nullptr || graph.value(node.results[0]).tensor().dtype != DType::kF32) return false;
  return (a->dtype == DType::kI64 && b->dtype == DType::kF32) || (a->dtype == DType::kF32 && b->dtype == DType::kI64);
}

bool inputs_fit(const ir::Graph& graph, const ir::Node& node, const SmallKernel& kernel) {
  if (is_mixed(graph, node, kernel)) return is_small(graph.value(node.results[0]).tensor());
  const ir::TensorType* first = tensor_type(graph, arg::self(node));
  if (first == nullptr || !accepts(kernel.accepts, first->dtype)) return false;
  const ir::TensorType& result = graph.value(node.results[0]).tensor();
  if (result.dtype != (kernel.accepts == KernelTypes::kF32OrI64ToBool ? DType::kBool : first->dtype)) return false;
  for (size_t i = 0; i < kernel.inputs; ++i) {
    const ir::TensorType* type = tensor_type(graph, node.args[i]);
    if (type == nullptr ? !is_plain_number(node.args[i], first->dtype) : type->dtype != first->dtype) return false;
  }
  for (size_t i = kernel.inputs; i < node.args.size(); ++i) {
    if (node.args[i] != node.op->schema.args[i].default_value) return false;
  }
  return is_small(result);
}

std::optional<KernelChoice> choose_elementwise(const ir::Graph& graph, const ir::Node& node) {
  const SmallKernel* kernel = ops::small_kernel(*node.op);
  if (kernel == nullptr || !inputs_fit(graph, node, *kernel)) return std::nullopt;
  KernelChoice choice{.name = std::string(kernel->name), .args = node.args, .is_elementwise = true};
  choice.args.resize(kernel->inputs);
  return choice;
}

bool is_small_f32(const ir::TensorType* x, const ir::TensorType* w) {
  return x != nullptr && w != nullptr && x->dtype == DType::kF32 && w->dtype == DType::kF32 && is_small_product(*x, *w);
}

std::optional<KernelChoice> choose_product(const ir::Graph& graph, const ir::Node& node) {
  using aten::mm;
  const Attr &x = mm::self.attr(node), &w = mm::mat2.attr(node);
  if (!is_small_f32(tensor_type(graph, x), tensor_type(graph, w))) return std::nullopt;
  return KernelChoice{.name = "kernel.mm_f32", .args = {x, w}};
}

// Only a sum with a row, where both factors (beta and alpha) are 1.
std::optional<KernelChoice> choose_product_and_sum(const ir::Graph& graph, const ir::Node& node) {
  using aten::addmm;
  const Attr &x = addmm::mat1.attr(node), &w = addmm::mat2.attr(node), &bias = addmm::self.attr(node);
  const ir::TensorType *w_type = tensor_type(graph, w), *bias_type = tensor_type(graph, bias);
  if (!is_small_f32(tensor_type(graph, x), w_type)) return std::nullopt;
  const bool is_row = bias_type != nullptr && bias_type->dtype == DType::kF32 && bias_type->sizes.size() == 1 &&
                      bias_type->sizes[0] == w_type->sizes[1];
  if (!is_row || addmm::beta.as_int(node) != 1 || addmm::alpha.as_int(node) != 1) return std::nullopt;
  return KernelChoice{.name = "kernel.mm_f32", .args = {x, w, bias}};
}

// The gradient of a table, of any size: ATen's operator makes its own memory for it.
std::optional<KernelChoice> choose_embedding_gradient(const ir::Graph& graph, const ir::Node& node) {
  using Backward = aten::embedding_dense_backward;
  const ir::TensorType& table = graph.value(node.results[0]).tensor();
  const ir::TensorType* indices = tensor_type(graph, Backward::indices.attr(node));
  const bool is_float = table.dtype == DType::kF32 || table.dtype == DType::kF64;
  const auto by_frequency = ops::as_constant(Backward::scale_grad_by_freq.attr(node));
  if (!is_float || indices == nullptr || !by_frequency || by_frequency->as_bool()) return std::nullopt;
  return KernelChoice{
      .name = "kernel.embedding_dense_backward",
      .args = {Backward::grad_output.attr(node), Backward::indices.attr(node), Backward::padding_idx.attr(node)}};
}

using Choice = std::optional<KernelChoice>;

// A number that the kernel takes: an argument that the operator has, or `otherwise`.
std::optional<Attr> number_or(const Attr* argument, int64_t otherwise) {
  if (argument == nullptr) return Attr(Expr(otherwise));
  return ops::as_number(*argument) == nullptr ? std::nullopt : std::optional(*argument);
}

Choice fill(const Attr& number) {
  if (ops::as_number(number) == nullptr) return std::nullopt;
  return KernelChoice{.name = "kernel.fill", .args = {number}};
}
Choice fill_zeros(const ir::Graph&, const ir::Node&) { return fill(Expr(0)); }
Choice fill_ones(const ir::Graph&, const ir::Node&) { return fill(Expr(1)); }
Choice fill_value(const ir::Graph&, const ir::Node& node) { return fill(arg::fill_value(node)); }
Choice fill_scalar(const ir::Graph&, const ir::Node& node) { return fill(aten::scalar_tensor::s.attr(node)); }

Choice count_up(const ir::Graph&, const ir::Node& node) {
  const auto start = number_or(arg::start.find(node), 0), step = number_or(arg::step.find(node), 1);
  if (!start || !step) return std::nullopt;
  return KernelChoice{.name = "kernel.arange", .args = {*start, *step}};
}

Choice move(const ir::Graph& graph, const ir::Node& node, const Attr& source) {
  const auto *from = tensor_type(graph, source), *to = tensor_type(graph, node.results[0]);
  if (from == nullptr || to == nullptr) return std::nullopt;
  return KernelChoice{.name = from->dtype == to->dtype ? "kernel.copy" : "kernel.cast", .args = {source}};
}
Choice move_self(const ir::Graph& graph, const ir::Node& node) { return move(graph, node, arg::self(node)); }
Choice move_source(const ir::Graph& graph, const ir::Node& node) { return move(graph, node, arg::src(node)); }

using Choose = Choice (*)(const ir::Graph& graph, const ir::Node& node);
constexpr ops::OperatorRow<Choose> kMoving[] = {
    {aten::zeros::kId, fill_zeros},
    {aten::zeros_like::kId, fill_zeros},
    {aten::new_zeros::kId, fill_zeros},
    {aten::ones::kId, fill_ones},
    {aten::ones_like::kId, fill_ones},
    {aten::new_ones::kId, fill_ones},
    {aten::full::kId, fill_value},
    {aten::full_like::kId, fill_value},
    {aten::new_full::kId, fill_value},
    {aten::scalar_tensor::kId, fill_scalar},
    {aten::arange::kId, count_up},
    {aten::arange_start::kId, count_up},
    {aten::arange_start_step::kId, count_up},
    {aten::clone::kId, move_self},
    {aten::_to_copy::kId, move_self},
    {aten::lift_fresh_copy::kId, move_self},
    {aten::copy::kId, move_source},
    {aten::copy_::kId, move_source},
};

// Rows whose elements have an order.
bool has_order(const ir::TensorType* type) {
  return type != nullptr && !is_complex(type->dtype) && !(is_floating(type->dtype) && size_of(type->dtype) == 1) &&
         type->dtype != DType::kU16 && type->dtype != DType::kU32 && type->dtype != DType::kU64;
}
Choice in_order(const ir::Graph& graph, const char* kernel, std::vector<Attr> args) {
  if (!has_order(tensor_type(graph, args.front()))) return std::nullopt;
  return KernelChoice{.name = kernel, .args = std::move(args)};
}
Choice sort(const ir::Graph& graph, const ir::Node& node) {
  return in_order(graph, "kernel.sort", {arg::self(node), arg::dim(node), arg::descending(node)});
}
Choice top(const ir::Graph& graph, const ir::Node& node) {
  using Top = aten::topk;
  return in_order(graph, "kernel.topk",
                  {Top::self.attr(node), Top::dim.attr(node), Top::largest.attr(node), Top::sorted.attr(node)});
}
Choice running_maximum(const ir::Graph& graph, const ir::Node& node) {
  return in_order(graph, "kernel.cummax", {arg::self(node), arg::dim(node)});
}
Choice search(const ir::Graph& graph, const ir::Node& node) {
  using Search = aten::searchsorted_Tensor;
  const Attr &sequence = Search::sorted_sequence.attr(node), &values = Search::self.attr(node);
  const auto *of_sequence = tensor_type(graph, sequence), *of_values = tensor_type(graph, values);
  if (!has_order(of_sequence) || of_values == nullptr || of_values->dtype != of_sequence->dtype) return std::nullopt;
  const auto* side = std::get_if<std::string>(&Search::side.attr(node));
  const Attr right = side == nullptr ? Search::right.attr(node) : Expr::constant(Scalar::of_bool(*side == "right"));
  return KernelChoice{.name = "kernel.searchsorted", .args = {sequence, values, Search::sorter.attr(node), right}};
}
Choice count_in_bins(const ir::Graph& graph, const ir::Node& node) {
  using Count = aten::histc;
  const auto* type = tensor_type(graph, Count::self.attr(node));
  if (type == nullptr || (type->dtype != DType::kF32 && type->dtype != DType::kF64)) return std::nullopt;
  return KernelChoice{.name = "kernel.histc",
                      .args = {Count::self.attr(node), Count::min.attr(node), Count::max.attr(node)}};
}
Choice multiply_groups(const ir::Graph& graph, const ir::Node& node) {
  using Product = aten::_grouped_mm;
  const Attr &x = Product::self.attr(node), &w = Product::mat2.attr(node), &ends = Product::offs.attr(node);
  const auto *of_x = tensor_type(graph, x), *of_w = tensor_type(graph, w), *of_ends = tensor_type(graph, ends);
  const DType result = graph.value(node.results[0]).tensor().dtype;
  const bool has_bias = !std::holds_alternative<None>(Product::bias.attr(node));
  if (of_x == nullptr || of_w == nullptr || of_ends == nullptr || has_bias) return std::nullopt;
  const bool fits = of_x->sizes.size() == 2 && of_w->sizes.size() == 3 && of_w->dtype == of_x->dtype &&
                    result == of_x->dtype && is_floating(result) && (size_of(result) == 2 || result == DType::kF32);
  return fits ? Choice(KernelChoice{.name = "kernel.grouped_mm", .args = {x, w, ends}}) : std::nullopt;
}

Choice dump(const ir::Graph&, const ir::Node& node) { return KernelChoice{.name = "kernel.dump", .args = node.args}; }

constexpr ops::OperatorRow<Choose> kArranging[] = {
    {aten::sort::kId, sort},
    {aten::sort_stable::kId, sort},
    {aten::topk::kId, top},
    {aten::cummax::kId, running_maximum},
    {aten::searchsorted_Tensor::kId, search},
    {aten::histc::kId, count_in_bins},
    {aten::_grouped_mm::kId, multiply_groups},
    {own::dump::kId, dump},
};

// Whether the kernels that move elements take the tensors of the node: for other than copies, its type.
bool fits_move_kernel(const ir::Graph& graph, const ir::Node& node, const KernelChoice& choice) {
  constexpr size_t kMaxRank = 8;
  const auto fits = [&](const ir::TensorType& type) {
    const bool converts = choice.name != "kernel.copy";
    const bool has_numbers = !is_complex(type.dtype) && !(is_floating(type.dtype) && size_of(type.dtype) == 1);
    return type.sizes.size() <= kMaxRank && (!converts || has_numbers);
  };
  const auto* source = choice.args.empty() ? nullptr : tensor_type(graph, choice.args.front());
  return fits(graph.value(node.results[0]).tensor()) && (source == nullptr || fits(*source));
}

bool has_tensors(const ir::Graph& graph, const ir::Node& node) {
  return node.defines.empty() && std::ranges::all_of(node.results, [&](ir::ValueId id) {
           return id != ir::kNone && graph.value(id).is_tensor();
         });
}
bool has_one_tensor(const ir::Graph& graph, const ir::Node& node) {
  return node.results.size() == 1 && has_tensors(graph, node);
}

}  // namespace

bool is_small_product(const ir::TensorType& a, const ir::TensorType& b) {
  // Products of npu, which also run in eager mode and with sizes that the compiler does not know, are all generated.
  if (a.device.type != "cpu") return false;
  const auto weights = numel(b.sizes).as_int(), work = (numel(a.sizes) * b.sizes.back()).as_int();
  return weights && work && *weights <= kMaxWeights && *work <= kMaxMultiplications;
}

std::optional<KernelChoice> choose_kernel(const ir::Graph& graph, const ir::Node& node) {
  if (!has_one_tensor(graph, node) || node.args.empty()) return std::nullopt;
  if (auto choice = choose_elementwise(graph, node)) return choice;
  if (aten::mm::is(node)) return choose_product(graph, node);
  if (aten::embedding_dense_backward::is(node)) return choose_embedding_gradient(graph, node);
  return aten::addmm::is(node) ? choose_product_and_sum(graph, node) : std::nullopt;
}

std::optional<KernelChoice> choose_any_kernel(const ir::Graph& graph, const ir::Node& node) {
  if (auto choice = choose_kernel(graph, node)) return choice;
  static const ops::OperatorRows<Choose> rows = {kMoving}, arranging = {kArranging};
  const Choose* arrange = has_tensors(graph, node) ? arranging.find(*node.op) : nullptr;
  if (arrange != nullptr) return (*arrange)(graph, node);
  const Choose* choose = has_one_tensor(graph, node) ? rows.find(*node.op) : nullptr;
  auto choice = choose == nullptr ? std::nullopt : (*choose)(graph, node);
  return choice && fits_move_kernel(graph, node, *choice) ? choice : std::nullopt;
}

std::optional<KernelChoice> choose_library_kernel(const ir::Node& node) {
  const ir::Op& op = *node.op;
  const libraries::Kernel* kernel = libraries::find(op.name);
  if (kernel == nullptr || !node.defines.empty() || std::ranges::count(node.results, ir::kNone) > 0)
    return std::nullopt;
  if (!libraries::same(kernel->schema, op.schema))
    throw UserError(cat("the kernel of ", op.name, " in '", kernel->library, "' is for the schema\n  ",
                        kernel->schema.text, "\nbut the operator has\n  ", op.schema.text));
  return KernelChoice{.name = op.name, .args = node.args, .any_strides = false, .schema = op.schema.text};
}

}  // namespace npugraph::lower
