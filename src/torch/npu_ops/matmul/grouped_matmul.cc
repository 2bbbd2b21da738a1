// SPDX-License-Identifier: Apache-2.0
// npu_grouped_matmul: a list of products, or products of groups of rows or columns of one matrix.
#include "torch/npu_ops/matmul/families.h"
#include "torch/npu_ops/matmul/grouped_products.h"

namespace npugraph::npu_ops {
namespace {

using Code = std::optional<int64_t>;
using Tensors = std::vector<Tensor>;
using OptionalTensors = std::optional<at::TensorList>;

constexpr const char* kOp = "npu_grouped_matmul";
constexpr int64_t kPairs = -1, kRows = 0, kSums = 2;  // values of group_type

TensorsOf listed(const OptionalTensors& tensors) {
  return tensors && !tensors->empty() ? TensorsOf(tensors->vec()) : std::nullopt;
}

// The arguments, as kernel and meta function need them.
struct Call {
  Tensors x;
  GroupedProduct product;
  TensorsOf per_token_scale;
  OptionalTensor group_list;
  int64_t group_type, group_list_type;
  bool is_one;  // result

  OptionalTensor per_token_of(int64_t i) const { return of_group(per_token_scale, i, false); }
};

void check_call(const Call& call) {
  TORCH_CHECK(!call.x.empty() && !call.product.weight.empty(), kOp, ": x and weight have ", call.x.size(), " and ",
              call.product.weight.size(), " tensors, allowed is at least one");
  const c10::SymInt groups = call.product.groups();
  const auto number = static_cast<int64_t>(call.x.size());
  TORCH_CHECK(number == 1 || number == groups, kOp, ": x has ", number, " tensors, allowed are 1 and ", groups,
              ", the number of weights");
  TORCH_CHECK(call.group_type == kPairs || call.group_type == kRows || call.group_type == kSums, kOp,
              ": group_type is ", call.group_type, ", allowed are -1 (none), 0 (rows) and 2 (the size to sum over)");
  const bool by_list = call.group_type == kSums || (call.group_type == kRows && number == 1);
  TORCH_CHECK(!by_list || call.group_list, kOp, ": group_type is ", call.group_type, ", and group_list is not given");
  TORCH_CHECK(call.group_type != kSums || number == 1, kOp, ": x has ", number,
              " tensors, allowed with group_type 2 is 1");
}

Call read_call(at::TensorList x, at::TensorList weight, const OptionalTensors& bias, const OptionalTensors& scale,
               const OptionalTensors& offset, const OptionalTensors& antiquant_scale,
               const OptionalTensors& antiquant_offset, const OptionalTensors& per_token_scale,
               const OptionalTensor& group_list, const OptionalTensors& activation_input,
               const OptionalTensors& activation_quant_scale, const OptionalTensors& activation_quant_offset,
               Code split_item, Code group_type, Code group_list_type, Code act_type, at::OptionalIntArrayRef,
               Code output_dtype, Code x_dtype, Code weight_dtype, Code scale_dtype, Code per_token_scale_dtype) {
  TORCH_CHECK(!listed(activation_input) && !listed(activation_quant_scale) && !listed(activation_quant_offset), kOp,
              ": activation_input, activation_quant_scale and activation_quant_offset are reserved, allowed is None");
  const int64_t split = split_item.value_or(0);
  TORCH_CHECK(split >= 0 && split <= 3, kOp, ": split_item is ", split, ", allowed are 0 to 3");
  const at::ScalarType of_x = x.empty() ? at::kHalf : x[0].scalar_type();
  const at::ScalarType fallback = !listed(scale) && of_x == at::kChar ? at::kInt : of_x;
  GroupedProduct product{weight.vec(),
                         listed(bias),
                         listed(scale),
                         listed(offset),
                         listed(antiquant_scale),
                         listed(antiquant_offset),
                         x_dtype,
                         weight_dtype,
                         scale_dtype,
                         per_token_scale_dtype,
                         act_type.value_or(0),
                         output_type(kOp, output_dtype, fallback)};
  Call out{x.vec(),
           std::move(product),
           listed(per_token_scale),
           group_list,
           group_type.value_or(group_list ? kRows : kPairs),
           group_list_type.value_or(0),
           split >= 2};
  check_call(out);
  return out;
}

Tensors pairs(const Call& call) {
  Tensors out;
  for (size_t i = 0; i < call.x.size(); ++i)
    out.push_back(product_of_group(kOp, call.product, call.x[i], i, call.per_token_of(i)));
  return out;
}

Tensors by_rows(const Call& call) {
  if (call.x.size() > 1) return call.is_one ? Tensors{at::cat(pairs(call))} : pairs(call);
  const Tensor& x = call.x[0];
  const auto segments = segments_of(kOp, *call.group_list, call.group_list_type, x.size(0));
  const OptionalTensor tokens = call.per_token_of(0);
  if (call.is_one) return {product_of_rows(kOp, call.product, x, segments, tokens)};
  Tensors out;
  for (const auto& [group, begin, end] : segments) {
    const auto scales = tokens ? OptionalTensor(tokens->slice(0, begin, end)) : std::nullopt;
    out.push_back(product_of_group(kOp, call.product, x.slice(0, begin, end), group, scales));
  }
  return out;
}

// Group g sums over its part of the columns of x and the rows of the one weight.
Tensors by_sums(const Call& call) {
  const Tensor &x = call.x[0], &weight = call.product.weight[0];
  check_dims(kOp, "x (with group_type 2)", x, 2, 2);
  Tensors out;
  for (const auto& [group, begin, end] : segments_of(kOp, *call.group_list, call.group_list_type, x.size(1))) {
    GroupedProduct one = call.product;
    const bool stacked = one.is_stacked() || one.weight.size() > 1;
    one.weight = {stacked ? one.weight_of(group) : weight.slice(0, begin, end)};
    one.scale = of_group(call.product.scale, group, true) ? TensorsOf({*of_group(call.product.scale, group, true)})
                                                          : std::nullopt;
    const Tensor sums =
        product_of_group(kOp, one, x.slice(1, begin, end), 0, of_group(call.per_token_scale, group, true));
    out.push_back(sums);
  }
  return call.is_one ? Tensors{at::stack(out)} : out;
}

Tensors compute(const Call& call) {
  if (call.group_type == kPairs) return pairs(call);
  return call.group_type == kRows ? by_rows(call) : by_sums(call);
}

Tensor like(const Call& call, const Tensor& x, c10::SymIntArrayRef size) {
  return x.new_empty_symint(size, x.options().dtype(call.product.type));
}

Tensors shapes(const Call& call) {
  const Tensor& x = call.x[0];
  if (call.group_type == kSums) {
    const c10::SymInt n = call.product.weight[0].sym_size(-1), groups = call.group_list->sym_size(0);
    if (call.is_one) return {like(call, x, {groups, x.sym_size(0), n})};
    Tensors out;
    for (int64_t i = 0; i < groups.expect_int(); ++i) out.push_back(like(call, x, {x.sym_size(0), n}));
    return out;
  }
  const c10::SymInt n = call.product.columns(kOp, x);
  const bool one_x = call.group_type == kRows && call.x.size() == 1;
  TORCH_CHECK(!one_x || call.is_one, kOp, ": with one x and split_item 0 or 1 the sizes of results are values of ",
              "group_list, which are not known here; allowed are 2 and 3");
  Tensors out;
  c10::SymInt rows = 0;
  for (const Tensor& each : call.x) {
    std::vector<c10::SymInt> size = each.sym_sizes().vec();
    const int64_t number = one_x ? 0 : static_cast<int64_t>(out.size());
    GroupedProduct own = call.product;
    if (!own.is_stacked()) own.weight = {own.weight_of(number)};
    size.back() = own.columns(kOp, each);
    rows = rows + size[0];
    out.push_back(like(call, each, size));
  }
  return call.group_type == kRows && call.is_one ? Tensors{like(call, x, {rows, n})} : out;
}

template <Tensors (*run)(const Call&)>
Tensors grouped_matmul(at::TensorList x, at::TensorList weight, OptionalTensors bias, OptionalTensors scale,
                       OptionalTensors offset, OptionalTensors antiquant_scale, OptionalTensors antiquant_offset,
                       OptionalTensors per_token_scale, const OptionalTensor& group_list,
                       OptionalTensors activation_input, OptionalTensors activation_quant_scale,
                       OptionalTensors activation_quant_offset, Code split_item, Code group_type, Code group_list_type,
                       Code act_type, at::OptionalIntArrayRef tuning_config, Code output_dtype, Code x_dtype,
                       Code weight_dtype, Code scale_dtype, Code per_token_scale_dtype) {
  return run(read_call(x, weight, bias, scale, offset, antiquant_scale, antiquant_offset, per_token_scale, group_list,
                       activation_input, activation_quant_scale, activation_quant_offset, split_item, group_type,
                       group_list_type, act_type, tuning_config, output_dtype, x_dtype, weight_dtype, scale_dtype,
                       per_token_scale_dtype));
}

}  // namespace

void define_grouped_matmul(Definitions& npu) {
  npu.computed(
      "npu_grouped_matmul", &grouped_matmul<&compute>, &grouped_matmul<&shapes>,
      "group_type -1: x[i] @ weight[i]; 0: rows of x by group_list, each group with its weight, rows of no group "
      "zero; 2: groups of columns of x with rows of weight. group_list_type 0: cumulative ends, 1: counts, 2: pairs "
      "of group and count. split_item 2 and 3: one result. Quantised as npu_quant_matmul, or with antiquant_scale as "
      "npu_weight_quant_batchmatmul; then act_type: 1 relu, 2 gelu (tanh), 3 gelu, 4 x * sigmoid(1.702 x), 5 silu. "
      "bias "
      "is not added for int8 x with int4 weights, for which it is a correction that the device needs");
}

}  // namespace npugraph::npu_ops
