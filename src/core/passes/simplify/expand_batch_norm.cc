// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/expand_batch_norm.h"

#include <algorithm>

#include "base/error.h"
#include "ops/operators.h"
#include "passes/rewrite.h"
#include "tensor/convert.h"

namespace npugraph::passes {
namespace {

using Norm = aten::_native_batch_norm_legit_no_training;

class BatchNormExpander {
 public:
  BatchNormExpander(ir::Graph& graph, Replacements& replacements)
      : graph_(graph), replacements_(replacements), uses_(ir::find_uses(graph)) {}

  bool expand(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (!Norm::is(node) || !fits(node)) return false;
    at_ = id;
    const ir::ValueId x = Norm::input(node), weight = Norm::weight(node), bias = Norm::bias(node),
                      result = node.results[0];
    const ir::ValueId variance = widened(Norm::running_var(node));
    const ir::ValueId root =
        insert<aten::rsqrt>({of(insert<aten::add_Scalar>({of(variance), Norm::eps.attr(node), Expr(1)}))});
    const ir::ValueId factor = weight == ir::kNone ? root : insert<aten::mul_Tensor>({of(root), of(weight)});
    const ir::ValueId moved = insert<aten::mul_Tensor>({of(widened(Norm::running_mean(node))), of(factor)});
    const ir::ValueId summand =
        bias == ir::kNone ? insert<aten::neg>({of(moved)}) : insert<aten::sub_Tensor>({of(bias), of(moved), Expr(1)});
    // The types are given, because rules cannot infer the strides for symbolic sizes.
    ir::TensorType wide = type(result);
    wide.dtype = compute_type(wide.dtype);
    const ir::ValueId scaled = insert<aten::mul_Tensor>({of(x), of(by_channels(factor, x))}, wide);
    const ir::ValueId y =
        as(insert<aten::add_Tensor>({of(scaled), of(by_channels(summand, x)), Expr(1)}, wide), type(result).dtype);
    replacements_.replace(result, y);
    return true;
  }

 private:
  static TensorRef of(ir::ValueId id) { return TensorRef{id}; }
  const ir::TensorType& type(ir::ValueId id) const { return graph_.value(id).tensor(); }

  static bool is_float(DType dtype) { return is_floating(dtype) && !is_float8(dtype); }

  bool fits(const ir::Node& node) const {
    const auto is_unread = [&](ir::ValueId id) {
      return id == ir::kNone || (uses_.users[id].empty() && uses_.output_uses[id] == 0);
    };
    if (!std::all_of(node.results.begin() + 1, node.results.end(), is_unread)) return false;
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

  template <typename Operator>
  ir::ValueId insert(std::vector<Attr> args, const ir::TensorType& made) {
    return insert_before(graph_, at_, Operator::op(), std::move(args), made, "norm");
  }
  template <typename Operator>
  ir::ValueId insert(std::vector<Attr> args) {
    const ir::ValueId made = insert_before(graph_, at_, Operator::op(), std::move(args), "norm");
    NG_CHECK(made != ir::kNone, Operator::op().name, " has no rule for its type");
    return made;
  }
  ir::ValueId as(ir::ValueId id, DType dtype) {
    if (type(id).dtype == dtype) return id;
    using aten::_to_copy;
    ir::Node node = with_defaults(_to_copy::op());
    _to_copy::self.attr(node) = of(id);
    _to_copy::dtype.attr(node) = dtype;
    ir::TensorType made = type(id);
    made.dtype = dtype;
    return insert<_to_copy>(std::move(node.args), made);
  }
  ir::ValueId widened(ir::ValueId id) { return as(id, compute_type(type(id).dtype)); }
  // Views [channels] as [channels, 1, ...], with one dimension of size 1 for each of x after the channels.
  ir::ValueId by_channels(ir::ValueId id, ir::ValueId x) {
    std::vector<Expr> sizes(type(x).sizes.size() - 1, Expr(1));
    sizes[0] = type(id).sizes[0];
    return sizes.size() == 1 ? id : insert<aten::view>({of(id), sizes});
  }

  ir::Graph& graph_;
  Replacements& replacements_;
  ir::Uses uses_;
  ir::NodeId at_ = ir::kNone;
};

}  // namespace

int expand_batch_norm(ir::Graph& graph, PassContext& context) {
  if (!context.fuses) return 0;
  Replacements replacements(graph);
  BatchNormExpander expander(graph, replacements);
  return rewrite_each(graph, replacements, context, "factor and summand of each channel computed first",
                      [&](ir::NodeId id) { return expander.expand(id); });
}

}  // namespace npugraph::passes
