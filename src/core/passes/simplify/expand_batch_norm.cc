// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/expand_batch_norm.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "ops/operators.h"
#include "ops/table.h"
#include "passes/rewrite.h"
#include "tensor/convert.h"
#include "tensor/shape.h"

namespace npugraph::passes {
namespace {

using Norm = aten::_native_batch_norm_legit_no_training;
using Step = aten::_native_batch_norm_legit_functional;
using Gradients = aten::native_batch_norm_backward;

class BatchNormExpander {
 public:
  BatchNormExpander(ir::Graph& graph, Replacements& replacements)
      : graph_(graph), replacements_(replacements), uses_(ir::find_uses(graph)) {}

  bool expand_given(ir::NodeId id) {
    const ir::Node node = graph_.node(id);
    at_ = id;
    return Norm::is(node) && fits_norm(node) && expand_norm(node);
  }

  bool expand_training(ir::NodeId id) {
    const ir::Node node = graph_.node(id);
    at_ = id;
    if (Step::is(node)) return fits_step(node) && expand_step(node);
    return Gradients::is(node) && fits_gradients(node) && expand_gradients(node);
  }

 private:
  static TensorRef of(ir::ValueId id) { return TensorRef{id}; }
  const ir::TensorType& type(ir::ValueId id) const { return graph_.value(id).tensor(); }

  bool expand_norm(const ir::Node& node) {
    const ir::ValueId x = Norm::input(node), weight = Norm::weight(node), bias = Norm::bias(node);
    set_images(x, node.results[0]);
    const ir::ValueId variance = widened(Norm::running_var(node));
    const ir::ValueId root =
        insert<aten::rsqrt>({of(insert<aten::add_Scalar>({of(variance), Norm::eps.attr(node), Expr(1)}))});
    const ir::ValueId scale = weight == ir::kNone ? root : insert<aten::mul_Tensor>({of(root), of(weight)});
    const ir::ValueId moved = insert<aten::mul_Tensor>({of(widened(Norm::running_mean(node))), of(scale)});
    const ir::ValueId summand =
        bias == ir::kNone ? insert<aten::neg>({of(moved)}) : insert<aten::sub_Tensor>({of(bias), of(moved), Expr(1)});
    const ir::ValueId scaled = insert_image<aten::mul_Tensor>({of(x), of(by_channels(scale))});
    put(node.results[0], insert_image<aten::add_Tensor>({of(scaled), of(by_channels(summand)), Expr(1)}));
    return true;
  }

  bool expand_step(const ir::Node& node) {
    const ir::ValueId x = Step::input(node), weight = Step::weight(node), bias = Step::bias(node);
    set_images(x, node.results[0]);
    const ir::ValueId wide = widened_image(x), mean = insert<aten::mean_dim>(over_rows(wide));
    const ir::ValueId centred = insert_image<aten::sub_Tensor>({of(wide), of(by_channels(mean)), Expr(1)});
    const ir::ValueId squares = insert_image<aten::pow_Tensor_Scalar>({of(centred), Expr(2)});
    const ir::ValueId variance = insert<aten::mean_dim>(over_rows(squares));
    const ir::ValueId rstd =
        insert<aten::rsqrt>({of(insert<aten::add_Tensor>({of(variance), Step::eps.attr(node), Expr(1)}))});
    ir::ValueId y = insert_image<aten::mul_Tensor>({of(centred), of(by_channels(rstd))});
    if (weight != ir::kNone) y = insert_image<aten::mul_Tensor>({of(y), of(by_channels(widened(weight)))});
    if (bias != ir::kNone) y = insert_image<aten::add_Tensor>({of(y), of(by_channels(widened(bias))), Expr(1)});
    const auto moved = [&](ir::ValueId running, ir::ValueId value) {
      const Expr& momentum = *Step::momentum(node);
      const ir::ValueId kept = insert<aten::mul_Tensor>({of(running), Expr(1) - momentum});
      const ir::ValueId added = insert<aten::mul_Tensor>({of(as(value, type(running).dtype)), momentum});
      return insert<aten::add_Tensor>({of(kept), of(added), Expr(1)});
    };
    const ir::ValueId running_mean = moved(Step::running_mean(node), mean);
    const Expr unbiased = Expr::make(ExprOp::kTrueDiv, {count(), count() - 1});
    const ir::ValueId running_var =
        moved(Step::running_var(node), insert<aten::mul_Tensor>({of(variance), factor(unbiased)}));
    const std::array made = {y, mean, rstd, running_mean, running_var};
    for (size_t i = 0; i < made.size(); ++i) put(node.results[i], made[i]);
    return true;
  }

  bool expand_gradients(const ir::Node& node) {
    const ir::ValueId x = Gradients::input(node), weight = Gradients::weight(node);
    set_images(x, asked(node, 0));
    const ir::ValueId grads = widened_image(Gradients::grad_out(node)), wide = widened_image(x);
    const ir::ValueId mean = widened(Gradients::save_mean(node)), rstd = widened(Gradients::save_invstd(node));
    const ir::ValueId centred = insert_image<aten::sub_Tensor>({of(wide), of(by_channels(mean)), Expr(1)});
    const ir::ValueId normal = insert_image<aten::mul_Tensor>({of(centred), of(by_channels(rstd))});
    const ir::ValueId products = insert_image<aten::mul_Tensor>({of(grads), of(normal)});
    const ir::ValueId of_weight = insert<aten::sum_dim_IntList>(over_rows(products));
    const ir::ValueId of_bias = insert<aten::sum_dim_IntList>(over_rows(grads));
    const auto mean_of = [&](ir::ValueId sum) {
      return by_channels(insert<aten::div_Tensor>({of(sum), factor(count())}));
    };
    const ir::ValueId shifted = insert_image<aten::sub_Tensor>({of(grads), of(mean_of(of_bias)), Expr(1)});
    const ir::ValueId along = insert_image<aten::mul_Tensor>({of(normal), of(mean_of(of_weight))});
    const ir::ValueId inner = insert_image<aten::sub_Tensor>({of(shifted), of(along), Expr(1)});
    ir::ValueId scale = by_channels(rstd);
    if (weight != ir::kNone) scale = insert<aten::mul_Tensor>({of(scale), of(by_channels(widened(weight)))});
    put(asked(node, 0), insert_image<aten::mul_Tensor>({of(scale), of(inner)}));
    put(asked(node, 1), of_weight);
    put(asked(node, 2), of_bias);
    return true;
  }

  static bool is_float(DType dtype) { return is_floating(dtype) && !is_float8(dtype); }

  bool is_unread(ir::ValueId id) const {
    return id == ir::kNone || (uses_.users[id].empty() && uses_.output_uses[id] == 0);
  }

  bool fits_norm(const ir::Node& node) const {
    if (!is_unread(node.results[1]) || !is_unread(node.results[2])) return false;
    const DType computes = compute_type(type(Norm::input(node)).dtype);
    const auto fits_others = [&](const ops::TensorArgument& operand) {
      const ir::ValueId id = operand(node);
      return id == ir::kNone || (is_float(type(id).dtype) && compute_type(type(id).dtype) == computes);
    };
    constexpr ops::TensorArgument kOperands[] = {Norm::input, Norm::weight, Norm::bias, Norm::running_mean,
                                                 Norm::running_var};
    return Norm::eps.as_constant(node) && Norm::running_mean(node) != ir::kNone &&
           Norm::running_var(node) != ir::kNone && std::ranges::all_of(kOperands, fits_others);
  }

  bool fits_step(const ir::Node& node) const {
    return trains(Step::training(node), Step::input(node)) && Step::momentum(node) != nullptr &&
           Step::running_mean(node) != ir::kNone && Step::running_var(node) != ir::kNone;
  }

  bool fits_gradients(const ir::Node& node) const {
    // A result that is not asked for is undefined, which only the operator itself can return.
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (asked(node, i) == ir::kNone && !is_unread(node.results[i])) return false;
    }
    return trains(Gradients::train(node), Gradients::input(node)) && Gradients::save_mean(node) != ir::kNone &&
           Gradients::save_invstd(node) != ir::kNone;
  }

  // The gradient at `i`; kNone if the mask leaves it out.
  static ir::ValueId asked(const ir::Node& node, size_t i) {
    const auto* mask = std::get_if<std::vector<Expr>>(&Gradients::output_mask.attr(node));
    const bool is_left_out =
        mask != nullptr && i < mask->size() && (*mask)[i].is_constant() && !(*mask)[i].value().as_bool();
    return is_left_out ? ir::kNone : node.results[i];
  }

  // Whether the flag is set, and channels of x have more than one element.
  bool trains(const Expr* flag, ir::ValueId x) const {
    if (flag == nullptr || !flag->is_constant() || !flag->value().as_bool()) return false;
    const auto& sizes = type(x).sizes;
    if (!is_float(type(x).dtype) || sizes.size() < 2 || sizes[1].is_int(0)) return false;
    const auto elements = count_in(sizes).as_int();
    return !elements || *elements > 1;
  }

  static Expr count_in(const std::vector<Expr>& sizes) {
    Expr count = sizes[0];
    for (size_t d = 2; d < sizes.size(); ++d) count = count * sizes[d];
    return count;
  }

  // Elements of a channel.
  Expr count() const { return count_in(images_.sizes); }

  // A number as an operand. Generated code reads one that only a run knows as a tensor.
  Attr factor(const Expr& number) {
    if (number.is_constant()) return number;
    ir::Node node = with_defaults(aten::scalar_tensor::op());
    aten::scalar_tensor::s.attr(node) = number;
    aten::scalar_tensor::dtype.attr(node) = images_.dtype;
    aten::scalar_tensor::device.attr(node) = images_.device;
    return of(insert<aten::scalar_tensor>(std::move(node.args)));
  }

  // Nodes of the sizes of x get the type of `result` in the compute type. Their rules cannot infer the strides for
  // symbolic sizes.
  void set_images(ir::ValueId x, ir::ValueId result) {
    images_ = type(result == ir::kNone ? x : result);
    if (result == ir::kNone) images_.strides = contiguous_strides(images_.sizes);
    images_.dtype = compute_type(images_.dtype);
  }

  template <typename Operator>
  ir::ValueId insert_image(std::vector<Attr> args) {
    return insert_before(graph_, at_, Operator::op(), std::move(args), images_, "norm");
  }
  template <typename Operator>
  ir::ValueId insert(std::vector<Attr> args) {
    const ir::ValueId made = insert_before(graph_, at_, Operator::op(), std::move(args), "norm");
    NG_CHECK(made != ir::kNone, Operator::op().name, " has no rule for its type");
    return made;
  }

  static std::vector<Attr> conversion(ir::ValueId id, DType dtype) {
    using aten::_to_copy;
    ir::Node node = with_defaults(_to_copy::op());
    _to_copy::self.attr(node) = of(id);
    _to_copy::dtype.attr(node) = dtype;
    return std::move(node.args);
  }
  ir::ValueId as(ir::ValueId id, DType dtype) {
    return type(id).dtype == dtype ? id : insert<aten::_to_copy>(conversion(id, dtype));
  }
  // A value of the channels, and one of the sizes of x, in the compute type.
  ir::ValueId widened(ir::ValueId id) { return as(id, images_.dtype); }
  ir::ValueId widened_image(ir::ValueId id) {
    return type(id).dtype == images_.dtype ? id : insert_image<aten::_to_copy>(conversion(id, images_.dtype));
  }

  // Arguments of a mean or sum over all dimensions but that of the channels.
  std::vector<Attr> over_rows(ir::ValueId id) const {
    std::vector<Expr> dims{0};
    for (size_t d = 2; d < images_.sizes.size(); ++d) dims.emplace_back(static_cast<int64_t>(d));
    return {of(id), dims, Expr::constant(Scalar::of_bool(false)), None{}};
  }

  // Views [channels] as [channels, 1, ...], with one dimension of size 1 for each of x after the channels.
  ir::ValueId by_channels(ir::ValueId id) {
    std::vector<Expr> sizes(images_.sizes.size() - 1, Expr(1));
    sizes[0] = type(id).sizes[0];
    return sizes.size() == 1 ? id : insert<aten::view>({of(id), sizes});
  }

  // `made` becomes the result, in its type.
  void put(ir::ValueId result, ir::ValueId made) {
    if (result == ir::kNone) return;
    if (type(made).dtype != type(result).dtype)
      made =
          insert_before(graph_, at_, aten::_to_copy::op(), conversion(made, type(result).dtype), type(result), "norm");
    replacements_.replace(result, made);
  }

  ir::Graph& graph_;
  Replacements& replacements_;
  ir::Uses uses_;
  ir::NodeId at_ = ir::kNone;
  ir::TensorType images_;
};

}  // namespace

int expand_batch_norm(ir::Graph& graph, PassContext& context) {
  if (!context.fuses) return 0;
  Replacements replacements(graph);
  BatchNormExpander expander(graph, replacements);
  return rewrite_each(graph, replacements, context, "factor and summand of each channel computed first",
                      [&](ir::NodeId id) { return expander.expand_given(id); });
}

int expand_batch_norm_training(ir::Graph& graph, PassContext& context) {
  if (!context.fuses) return 0;
  Replacements replacements(graph);
  BatchNormExpander expander(graph, replacements);
  return rewrite_each(graph, replacements, context, "taken apart into elementwise operators and sums",
                      [&](ir::NodeId id) { return expander.expand_training(id); });
}

}  // namespace npugraph::passes
