// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/expand_pointwise_convolutions.h"

#include <algorithm>

#include "ops/operators.h"
#include "ops/table.h"
#include "passes/rewrite.h"
#include "tensor/shape.h"

namespace npugraph::passes {
namespace {

using Conv = aten::convolution;

class ConvolutionExpander {
 public:
  ConvolutionExpander(ir::Graph& graph, Replacements& replacements) : graph_(graph), replacements_(replacements) {}

  bool expand(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (!Conv::is(node) || !fits(node)) return false;
    at_ = id;
    const ir::ValueId x = Conv::input(node), weight = Conv::weight(node), bias = Conv::bias(node),
                      result = node.results[0];
    const std::vector<Expr> image = type(x).sizes, kernel = type(weight).sizes;
    const ir::ValueId pixels = insert<aten::permute>({of(x), ints({0, 2, 3, 1})});
    const ir::ValueId rows =
        insert<aten::view>({of(pixels), std::vector<Expr>{image[0] * image[2] * image[3], image[1]}});
    const ir::ValueId matrix = insert<aten::view>({of(weight), std::vector<Expr>{kernel[0], kernel[1]}});
    const ir::ValueId columns = insert<aten::permute>({of(matrix), ints({1, 0})});
    const ir::ValueId product = bias == ir::kNone
                                    ? insert<aten::mm>({of(rows), of(columns)})
                                    : insert<aten::addmm>({of(bias), of(rows), of(columns), Expr(1), Expr(1)});
    const ir::ValueId placed =
        insert<aten::view>({of(product), std::vector<Expr>{image[0], image[2], image[3], kernel[0]}});
    const ir::ValueId y = insert<aten::permute>({of(placed), ints({0, 3, 1, 2})});
    if (y == ir::kNone || graph_.value(y).type != graph_.value(result).type) return false;
    replacements_.replace(result, y);
    return true;
  }

 private:
  static TensorRef of(ir::ValueId id) { return TensorRef{id}; }
  static std::vector<Expr> ints(std::initializer_list<int64_t> numbers) { return {numbers.begin(), numbers.end()}; }
  const ir::TensorType& type(ir::ValueId id) const { return graph_.value(id).tensor(); }

  bool fits(const ir::Node& node) const {
    const ir::ValueId x = Conv::input(node), weight = Conv::weight(node), bias = Conv::bias(node);
    if (x == ir::kNone || weight == ir::kNone || node.results[0] == ir::kNone) return false;
    const DType dtype = type(x).dtype;
    const bool is_product = dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
    if (!is_product || type(weight).dtype != dtype || (bias != ir::kNone && type(bias).dtype != dtype)) return false;
    const auto& kernel = type(weight).sizes;
    return kernel.size() == 4 && kernel[2].is_int(1) && kernel[3].is_int(1) && is_plain(node) &&
           is_channels_last(type(x)) && is_channels_last(type(node.results[0])) && has_dense_rows(type(weight));
  }

  // Whether each pixel of the result is made from one of the image, in all channels.
  static bool is_plain(const ir::Node& node) {
    const auto are_all = [](const std::vector<Expr>* list, int64_t number) {
      return list != nullptr && std::ranges::all_of(*list, [&](const Expr& e) { return e.is_int(number); });
    };
    const auto transposed = Conv::transposed.as_constant(node), groups = Conv::groups.as_constant(node);
    return are_all(Conv::stride(node), 1) && are_all(Conv::padding(node), 0) && transposed && !transposed->as_bool() &&
           groups && groups->as_int() == 1;
  }

  // Whether these are dense images whose channels, more than one, are neighbours in memory.
  static bool is_channels_last(const ir::TensorType& type) {
    if (type.sizes.size() != 4 || type.sizes[1].is_int(1)) return false;
    Expr stride = 1;
    for (const size_t d : {1, 3, 2, 0}) {
      if (type.strides[d] != stride) return false;
      stride = stride * type.sizes[d];
    }
    return true;
  }

  // Whether the weights of each channel of the result are dense, one channel after the other.
  static bool has_dense_rows(const ir::TensorType& type) {
    return type.strides[0] == type.sizes[1] && type.strides[1].is_int(1);
  }

  // kNone if an operand is kNone, or the operator's rules do not give the result.
  template <typename Operator>
  ir::ValueId insert(std::vector<Attr> args) {
    const bool misses = std::ranges::any_of(args, [](const Attr& arg) {
      const auto* operand = std::get_if<TensorRef>(&arg);
      return operand != nullptr && operand->id == ir::kNone;
    });
    return misses ? ir::kNone : insert_before(graph_, at_, Operator::op(), std::move(args), "pixels");
  }

  ir::Graph& graph_;
  Replacements& replacements_;
  ir::NodeId at_ = ir::kNone;
};

}  // namespace

int expand_pointwise_convolutions(ir::Graph& graph, PassContext& context) {
  if (!context.fuses) return 0;
  Replacements replacements(graph);
  ConvolutionExpander expander(graph, replacements);
  return rewrite_each(graph, replacements, context, "is a product of pixels and weights",
                      [&](ir::NodeId id) { return expander.expand(id); });
}

}  // namespace npugraph::passes
