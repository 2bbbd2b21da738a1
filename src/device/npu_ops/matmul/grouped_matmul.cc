// SPDX-License-Identifier: Apache-2.0
// npu_grouped_matmul: a list of products, or products of groups of rows or columns of one matrix.
#include <limits>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/call_arguments.h"
#include "device/npu_ops/matmul/grouped_products.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

constexpr const char* kGroupedMatmul = "npu_grouped_matmul";
constexpr int64_t kGroupPairs = -1, kGroupRows = 0, kGroupSums = 2;  // values of group_type

// The arguments, as kernel and meta function need them.
struct GroupedCall {
  Tensors x;
  GroupedProduct product;
  TensorsOf per_token_scale;
  OptionalTensor group_list;                    // its values are known only to the kernel
  std::optional<std::vector<int64_t>> numbers;  // group_list as a list of ints
  int64_t group_type, group_list_type;
  bool is_one;  // whether there is one result for all groups

  bool has_groups() const { return group_list || numbers; }
  c10::SymInt groups() const {
    return numbers ? c10::SymInt(static_cast<int64_t>(numbers->size())) : group_list->sym_size(0);
  }
  std::vector<Segment> segments(int64_t limit) const {
    if (numbers) return segments_of(kGroupedMatmul, *numbers, group_list_type, limit);
    return segments_of(kGroupedMatmul, *group_list, group_list_type, limit);
  }
  OptionalTensor per_token_of(int64_t i) const { return of_group(per_token_scale, i, false); }
};

void check_call(const GroupedCall& call) {
  TORCH_CHECK(!call.x.empty() && !call.product.weight.empty(), kGroupedMatmul, ": x and weight have ", call.x.size(),
              " and ", call.product.weight.size(), " tensors, allowed is at least one");
  const c10::SymInt groups = call.product.groups();
  const auto number = static_cast<int64_t>(call.x.size());
  TORCH_CHECK(number == 1 || number == groups, kGroupedMatmul, ": x has ", number, " tensors, allowed are 1 and ",
              groups, ", the number of weights");
  TORCH_CHECK(call.group_type == kGroupPairs || call.group_type == kGroupRows || call.group_type == kGroupSums,
              kGroupedMatmul, ": group_type is ", call.group_type,
              ", allowed are -1 (none), 0 (rows) and 2 (the size to sum over)");
  for (const Tensor& x : call.x)
    TORCH_CHECK(call.group_type == kGroupSums || x.sym_size(-1) != 0, kGroupedMatmul, ": x has shape ", x.sym_sizes(),
                ", and there is nothing to sum over");
  const bool by_list = call.group_type != kGroupPairs && number == 1;
  TORCH_CHECK(!by_list || call.has_groups(), kGroupedMatmul, ": group_type is ", call.group_type,
              ", and group_list is not given");
  TORCH_CHECK(!call.numbers || call.group_list_type != 2, kGroupedMatmul,
              ": group_list_type is 2, for which group_list is a tensor, and it is a list");
}

GroupedProduct product_of(const CallArguments& call) {
  const auto listed = [&](const char* name) {
    Tensors tensors = call.tensors({name});
    return tensors.empty() ? std::nullopt : TensorsOf(std::move(tensors));
  };
  const Tensors x = call.tensors({"x"});
  GroupedProduct out{without_fractals(call.tensors({"weight"})),
                     listed("bias"),
                     listed("scale"),
                     listed("offset"),
                     listed("antiquant_scale"),
                     listed("antiquant_offset"),
                     call.optional_integer({"x_dtype"}),
                     call.optional_integer({"weight_dtype"}),
                     call.optional_integer({"scale_dtype"}),
                     call.optional_integer({"per_token_scale_dtype"}),
                     call.integer({"act_type"})};
  const at::ScalarType of_x = x.empty() ? at::kHalf : x[0].scalar_type();
  const at::ScalarType fallback = !out.scale && of_x == at::kChar ? at::kInt : of_x;
  out.type = output_type(kGroupedMatmul, call.optional_integer({"output_dtype"}), fallback);
  return out;
}

GroupedCall read_call(const CallArguments& call) {
  for (const char* name : {"activation_input", "activation_quant_scale", "activation_quant_offset"})
    TORCH_CHECK(call.tensors({name}).empty(), kGroupedMatmul,
                ": activation_input, activation_quant_scale and activation_quant_offset are reserved, allowed is None");
  const int64_t split = call.integer({"split_item"});
  TORCH_CHECK(split >= 0 && split <= 3, kGroupedMatmul, ": split_item is ", split, ", allowed are 0 to 3");
  GroupedCall out{.x = call.tensors({"x"}), .product = product_of(call)};
  Tensors tokens = call.tensors({"per_token_scale"});
  if (!tokens.empty()) out.per_token_scale = std::move(tokens);
  if (call.is_tensor({"group_list"}))
    out.group_list = call.tensor({"group_list"});
  else
    out.numbers = call.integers({"group_list"});
  out.group_type = call.integer({"group_type"}, out.has_groups() ? kGroupRows : kGroupPairs);
  const bool have_one_x = out.x.size() == 1 && out.product.weight.size() > 1;
  if (out.group_type == kGroupPairs && have_one_x && out.has_groups()) out.group_type = kGroupRows;
  out.group_list_type = call.integer({"group_list_type"});
  out.is_one = split >= 2;
  check_call(out);
  TORCH_CHECK(out.numbers || call.optional_integer({"group_type"}), kGroupedMatmul,
              ": group_type is None, which is allowed with a list of ints as group_list alone");
  return out;
}

Tensors products_of_pairs(const GroupedCall& call) {
  Tensors out;
  for (size_t i = 0; i < call.x.size(); ++i)
    out.push_back(product_of_group(kGroupedMatmul, call.product, call.x[i], i, call.per_token_of(i)));
  return out;
}

Tensors products_by_rows(const GroupedCall& call) {
  if (call.x.size() > 1) return call.is_one ? Tensors{at::cat(products_of_pairs(call))} : products_of_pairs(call);
  const Tensor& x = call.x[0];
  const auto segments = call.segments(x.size(0));
  const OptionalTensor tokens = call.per_token_of(0);
  if (call.is_one) return {product_of_rows(kGroupedMatmul, call.product, x, segments, tokens)};
  Tensors out;
  for (const auto& [group, begin, end] : segments) {
    const auto scales = tokens ? OptionalTensor(tokens->slice(0, begin, end)) : std::nullopt;
    out.push_back(product_of_group(kGroupedMatmul, call.product, x.slice(0, begin, end), group, scales));
  }
  return out;
}

// Group g sums over its part of the columns of the single x, and over the same part of the rows of the single weight,
// or over all rows of a weight of its own.
Tensors sums_of_segments(const GroupedCall& call) {
  const Tensor& x = call.x[0];
  check_dims(kGroupedMatmul, "x (with group_type 2)", x, 2, 2);
  const GroupedProduct& all = call.product;
  const bool have_own = all.is_stacked() || all.weight.size() > 1;
  Tensors out;
  for (const auto& [group, begin, end] : call.segments(x.size(1))) {
    const auto own = [&, group = group](const TensorsOf& tensors) {
      const OptionalTensor found = of_group(tensors, group, true);
      return found ? TensorsOf({*found}) : std::nullopt;
    };
    TORCH_CHECK(!have_own || (group >= 0 && group < all.groups()), kGroupedMatmul, ": group_list names group ", group,
                ", and there are ", all.groups(), " weights");
    GroupedProduct one = all;
    one.weight = {have_own ? all.weight_of(group) : all.weight[0].slice(0, begin, end)};
    for (TensorsOf* each : {&one.bias, &one.scale, &one.offset, &one.antiquant_scale, &one.antiquant_offset})
      *each = own(*each);
    out.push_back(
        product_of_group(kGroupedMatmul, one, x.slice(1, begin, end), 0, of_group(call.per_token_scale, group, true)));
  }
  return out;
}

Tensors products_by_sums(const GroupedCall& call) {
  Tensors out = call.x.size() > 1 ? products_of_pairs(call) : sums_of_segments(call);
  if (!call.is_one) return out;
  if (!out.empty()) return {at::stack(out)};
  const Tensor& x = call.x[0];
  return {x.new_empty({0, x.size(0), call.product.weight[0].size(-1)}, x.options().dtype(call.product.type))};
}

Tensors compute(const GroupedCall& call) {
  if (call.group_type == kGroupPairs) return products_of_pairs(call);
  return call.group_type == kGroupRows ? products_by_rows(call) : products_by_sums(call);
}

Tensor empty_result(const GroupedCall& call, const Tensor& x, c10::SymIntArrayRef size) {
  return x.new_empty_symint(size, x.options().dtype(call.product.type));
}

// Number of columns of result `number`. If a single x is split for several weights, its columns are more than
// the rows of one weight.
c10::SymInt columns_of_sums(const GroupedCall& call, int64_t number) {
  GroupedProduct own = call.product;
  const bool have_own = own.is_stacked() || own.weight.size() > 1;
  if (have_own) own.weight = {own.weight_of(number)};
  return have_own && call.x.size() == 1
             ? own.weight[0].sym_size(-1)
             : own.columns(kGroupedMatmul, call.x.size() > 1 ? call.x.at(number) : call.x[0]);
}

Tensors shapes_of_sums(const GroupedCall& call) {
  const Tensor& x = call.x[0];
  const auto number = static_cast<int64_t>(call.x.size());
  const c10::SymInt groups = number > 1 ? c10::SymInt(number) : call.groups();
  if (call.is_one) return {empty_result(call, x, {groups, x.sym_size(0), columns_of_sums(call, 0)})};
  Tensors out;
  for (int64_t i = 0; i < groups.guard_int(__FILE__, __LINE__); ++i) {
    const Tensor& own = number > 1 ? call.x[i] : x;
    out.push_back(empty_result(call, own, {own.sym_size(0), columns_of_sums(call, i)}));
  }
  return out;
}

// One x, and a result for each group.
Tensors shapes_of_segments(const GroupedCall& call) {
  const Tensor& x = call.x[0];
  TORCH_CHECK(call.numbers, kGroupedMatmul, ": with one x and split_item 0 or 1 the sizes of results are values of ",
              "group_list, which are not known here; allowed are 2 and 3, or a list of ints");
  Tensors out;
  const int64_t rows = x.sym_size(0).maybe_as_int().value_or(std::numeric_limits<int64_t>::max());
  for (const Segment& segment : call.segments(rows)) {
    GroupedProduct own = call.product;
    own.weight = {own.weight_of(segment.group)};
    out.push_back(empty_result(call, x, {segment.end - segment.begin, own.columns(kGroupedMatmul, x)}));
  }
  return out;
}

Tensors shapes(const GroupedCall& call) {
  if (call.group_type == kGroupSums) return shapes_of_sums(call);
  const Tensor& x = call.x[0];
  const bool one_x = call.group_type == kGroupRows && call.x.size() == 1;
  if (one_x && !call.is_one) return shapes_of_segments(call);
  const c10::SymInt n = call.product.columns(kGroupedMatmul, x);
  Tensors out;
  c10::SymInt rows = 0;
  for (const Tensor& each : call.x) {
    std::vector<c10::SymInt> size = each.sym_sizes().vec();
    const int64_t number = one_x ? 0 : static_cast<int64_t>(out.size());
    GroupedProduct own = call.product;
    if (!own.is_stacked()) own.weight = {own.weight_of(number)};
    size.back() = own.columns(kGroupedMatmul, each);
    rows = rows + size[0];
    out.push_back(empty_result(call, each, size));
  }
  return call.group_type == kGroupRows && call.is_one ? Tensors{empty_result(call, x, {rows, n})} : out;
}

template <Tensors (*run)(const GroupedCall&)>
void grouped_matmul(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  call.give(run(read_call(call)));
}

}  // namespace

void define_grouped_matmul(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_grouped_matmul(Tensor[] x, Tensor[] weight, *, Tensor[]? bias=None, Tensor[]? scale=None, "
                "Tensor[]? offset=None, Tensor[]? antiquant_scale=None, Tensor[]? antiquant_offset=None, Tensor[]? "
                "per_token_scale=None, Tensor? group_list=None, Tensor[]? activation_input=None, Tensor[]? "
                "activation_quant_scale=None, Tensor[]? activation_quant_offset=None, int? split_item=0, int? "
                "group_type=None, int? group_list_type=0, int? act_type=0, int[]? tuning_config=None, int? "
                "output_dtype=None, int? x_dtype=None, int? weight_dtype=None, int? scale_dtype=None, int? "
                "per_token_scale_dtype=None) -> Tensor[]",
      .kernel = whole(boxed<&grouped_matmul<&compute>>(), boxed<&grouped_matmul<&shapes>>()),
      .definition = "Grouped GEMM: a matrix product for each group, such as for each expert of a mixture of experts. "
                    "group_type 0 splits the rows of x by group_list and multiplies group g by weight[g], or by "
                    "weight[0][g] if weight is one tensor [G, K, N]; rows of no group become zeros. group_type 2 "
                    "splits the columns of x, and the rows of weight unless each group has a weight of its own. "
                    "group_type -1 multiplies pairs, x[i] @ weight[i], as all do if x has several tensors; it means 0 "
                    "for one x with several weights and a group_list. group_type must be given. group_list has "
                    "cumulative ends (group_list_type 0), counts (1), or pairs of group and count (2). split_item 0 "
                    "and 1 give a result for each group. 2 and 3 give one for group_type 0, with all rows, and for "
                    "group_type 2, [G, M, N]. The values of each group are scaled as by npu_quant_matmul (scale, "
                    "offset, per_token_scale) or npu_weight_quant_batchmatmul (antiquant_scale, antiquant_offset). "
                    "bias is not added for int8 x with int4 weights, for which it is a correction that only the "
                    "device needs. act_type is an activation of the results: 1 relu, 2 gelu (tanh), 3 gelu, 4 x * "
                    "sigmoid(1.702 * x), 5 silu. Weights may be in NZ layout, [..., N / n0, K / k0, k0, n0]. "
                    "activation_input, activation_quant_scale and activation_quant_offset must be None; tuning_config "
                    "is ignored. Results are in output_dtype, by default in the type of x, or in int32 for int8 x "
                    "without scale.",
  });
  library.add({
      .schema = "npu::npu_grouped_matmul.List(Tensor[] x, Tensor[] weight, *, Tensor[]? bias=None, Tensor[]? "
                "scale=None, Tensor[]? offset=None, Tensor[]? antiquant_scale=None, Tensor[]? antiquant_offset=None, "
                "Tensor[]? per_token_scale=None, int[]? group_list=None, Tensor[]? activation_input=None, Tensor[]? "
                "activation_quant_scale=None, Tensor[]? activation_quant_offset=None, int? split_item=0, int? "
                "group_type=None, int? group_list_type=0, int? act_type=0, int[]? tuning_config=None, int? "
                "output_dtype=None, int? x_dtype=None, int? weight_dtype=None, int? scale_dtype=None, int? "
                "per_token_scale_dtype=None) -> Tensor[]",
      .kernel = whole(boxed<&grouped_matmul<&compute>>(), boxed<&grouped_matmul<&shapes>>()),
      .definition = "npu_grouped_matmul with group_list as a list of ints, for which group_type is 0 by default and "
                    "group_list_type 2 is not allowed.",
  });
}

}  // namespace npugraph::npu_ops
