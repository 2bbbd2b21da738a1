// SPDX-License-Identifier: Apache-2.0
#include "passes/attention/key_mask.h"

#include <algorithm>
#include <limits>

#include "ops/operators.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

constexpr int kMostNodes = 256;  // nodes that are read for one mask
constexpr double kLow = -1e30;   // lower numbers may count as -infinity: scores are far above

// Integers that count up by 1 along the keys (the last dimension), along the queries (the one before) or along neither.
struct Positions {
  bool along_keys = false;
  bool along_queries = false;
  Expr first;                    // the first integer, less `base`
  ir::ValueId base = ir::kNone;  // one i64 in memory that is added; kNone: 0
};

const ir::Node* producer(const ir::Graph& graph, ir::ValueId id) {
  return id == ir::kNone || graph.value(id).def == ir::kNone ? nullptr : &graph.node(graph.value(id).def);
}

const ir::TensorType* tensor(const ir::Graph& graph, ir::ValueId id) {
  return id == ir::kNone ? nullptr : std::get_if<ir::TensorType>(&graph.value(id).type);
}

bool is_size_one(const Expr& size) { return size.is_int(1); }

// The number that all elements equal, or nullopt if the node that makes them does not tell.
std::optional<Scalar> constant_elements(const ir::Graph& graph, const Attr& attr) {
  if (ops::as_number(attr) != nullptr) return ops::as_constant(attr);
  const ir::Node* node = producer(graph, ops::as_value(attr));
  if (aten::zeros::is(node)) return Scalar::of_int(0);
  if (ops::is_any<aten::ones, aten::new_ones>(node)) return Scalar::of_int(1);
  if (aten::scalar_tensor::is(node)) return aten::scalar_tensor::s.as_constant(*node);
  if (aten::full::is(node)) return aten::full::fill_value.as_constant(*node);
  return {};
}

class Reader {
 public:
  Reader(const ir::Graph& graph, const Expr& queries, const Expr& keys)
      : graph_(graph), queries_(queries), keys_(keys) {}

  std::optional<KeyMask> read(ir::ValueId mask) {
    mask = through_views(mask);
    const ir::TensorType* type = tensor(graph_, mask);
    if (type == nullptr) return {};
    KeyMask said;
    if (type->dtype == DType::kBool) return add(mask, said) && said.rest != mask ? std::optional(said) : std::nullopt;
    const ir::Node* where = producer(graph_, mask);
    if (!aten::where_self::is(where)) return {};
    const auto seen = constant_elements(graph_, aten::where_self::self.attr(*where));
    const auto hidden = constant_elements(graph_, aten::where_self::other.attr(*where));
    const ir::ValueId condition = aten::where_self::condition(*where);
    if (!seen || !hidden || seen->as_float() != 0 || !add(condition, said) || said.rest == condition) return {};
    const bool infinite = hidden->as_float() == -std::numeric_limits<double>::infinity();
    if (!infinite && !(hidden->as_float() < kLow && sees_first_key(said))) return {};
    return said;
  }

 private:
  // Whether each query certainly sees the first key.
  bool sees_first_key(const KeyMask& said) const {
    if (said.rest != ir::kNone || said.position != ir::kNone || said.before) return false;
    return keys_.as_int().value_or(0) > 0 && (!said.after || said.after->as_int().value_or(-1) >= 0);
  }

  // Follows views that only repeat or add outer dimensions, back to their base.
  ir::ValueId through_views(ir::ValueId id) const {
    for (const ir::Node* node = producer(graph_, id); node != nullptr && is_free_view(*node);
         node = producer(graph_, id)) {
      const ir::ValueId base = ir::operands(*node).front();
      const ir::TensorType *from = tensor(graph_, base), *to = tensor(graph_, id);
      if (from == nullptr || to == nullptr || !node->views[0].offset.is_int(0) || !has_same_end(*from, *to)) break;
      id = base;
    }
    return id;
  }

  // Whether the last two dimensions are equal and the outer ones of `from` have size 1. A vector counts as one row.
  static bool has_same_end(const ir::TensorType& from, const ir::TensorType& to) {
    const size_t rank = from.sizes.size();
    if (rank < 1 || to.sizes.size() < 2 || from.dtype != to.dtype) return false;
    for (size_t d = 0; d + 2 < rank; ++d) {
      if (!is_size_one(from.sizes[d])) return false;
    }
    for (size_t d = 1; d <= 2; ++d) {
      const Expr& other = to.sizes[to.sizes.size() - d];
      if (d > rank) return is_size_one(other);
      if (from.sizes[rank - d] != other) return false;
      if (!is_size_one(other) && from.strides[rank - d] != to.strides[to.sizes.size() - d]) return false;
    }
    return true;
  }

  // Adds the conditions that booleans are made of. False if they have too many nodes, or more than one other condition.
  bool add(ir::ValueId id, KeyMask& said) {
    if (++nodes_ > kMostNodes) return false;
    id = through_views(id);
    const ir::Node* node = producer(graph_, id);
    const auto all = constant_elements(graph_, TensorRef{id});
    if (all && all->as_bool()) return true;
    if (ops::is_any<aten::bitwise_and_Tensor, aten::logical_and>(node)) {
      const ir::ValueId left = ops::as_value(arg::self(*node)), right = ops::as_value(arg::other(*node));
      if (left != ir::kNone && right != ir::kNone) return add(left, said) && add(right, said);
    }
    if (node != nullptr && add_comparison(*node, said)) return true;
    if (said.rest != ir::kNone && said.rest != id) return false;
    said.rest = id;
    return tensor(graph_, id) != nullptr;
  }

  bool add_comparison(const ir::Node& node, KeyMask& said) {
    const bool less = ops::is_any<aten::le_Tensor, aten::lt_Tensor, aten::le_Scalar, aten::lt_Scalar>(node);
    const bool strict = ops::is_any<aten::lt_Tensor, aten::gt_Tensor, aten::lt_Scalar, aten::gt_Scalar>(node);
    if (!less && !ops::is_any<aten::ge_Tensor, aten::gt_Tensor, aten::ge_Scalar, aten::gt_Scalar>(node)) return false;
    const Attr &left = arg::self(node), &right = arg::other(node);
    auto low = positions(left), high = positions(right);
    if (!low) separate(left, low, high);
    if (!high) separate(right, high, low);
    if (!low || !high) return false;
    if (!less) std::swap(low, high);
    if (strict) low->first = low->first + Expr(1);
    const Expr room = high->first - low->first;
    if (!low->along_keys && !high->along_keys) return is_always(*low, *high, room);
    // A bound that is the same for all queries is a bound on positions if there is one query.
    const auto bounds = [&](const Positions& keys, const Positions& other) {
      return keys.along_keys && !keys.along_queries && keys.base == ir::kNone && !other.along_keys &&
             (other.along_queries || is_size_one(queries_));
    };
    if (bounds(*low, *high)) return add_bound(said.after, room, high->base, said);
    if (bounds(*high, *low)) return add_bound(said.before, room, low->base, said);
    return false;
  }

  // Compares a difference of positions, which counts along keys and queries, with a number: moves the subtrahend to the
  // side of the number.
  void separate(const Attr& difference, std::optional<Positions>& from, std::optional<Positions>& number) {
    const ir::Node* node = producer(graph_, through_views(ops::as_value(difference)));
    if (!aten::sub_Tensor::is(node) || !has_unit_alpha(*node)) return;
    if (!number || number->along_keys || number->along_queries || number->base != ir::kNone) return;
    const auto left = positions(aten::sub_Tensor::self.attr(*node));
    const auto right = positions(aten::sub_Tensor::other.attr(*node));
    if (!left || !right) return;
    from = left;
    number->along_keys = right->along_keys;
    number->along_queries = right->along_queries;
    number->base = right->base;
    number->first = number->first + right->first;
  }

  // Whether low <= high for all queries. `high` may count up along them, which never makes it smaller.
  static bool is_always(const Positions& low, const Positions& high, const Expr& room) {
    return !low.along_queries && low.base == ir::kNone && high.base == ir::kNone && room.as_int().value_or(-1) >= 0;
  }

  // Adds a bound, or keeps a stricter one. False if bounds cannot be compared, or count from different bases.
  static bool add_bound(std::optional<Expr>& bound, const Expr& number, ir::ValueId base, KeyMask& said) {
    if ((said.before || said.after) && said.position != base) return false;
    if (bound) {
      const auto more = (number - *bound).as_int();
      if (!more) return false;
      if (*more >= 0) return true;
    }
    bound = number;
    said.position = base;
    return true;
  }

  std::optional<Positions> positions(const Attr& attr) {
    if (const Expr* number = ops::as_number(attr)) {
      if (number->is_constant() && number->value().kind != ScalarKind::kInt) return {};
      return Positions{.first = *number};
    }
    return positions(ops::as_value(attr));
  }

  std::optional<Positions> positions(ir::ValueId id) {
    const ir::TensorType* type = tensor(graph_, id);
    if (type == nullptr || type->dtype != DType::kI64 || ++nodes_ > kMostNodes) return {};
    const bool one = std::all_of(type->sizes.begin(), type->sizes.end(), is_size_one);
    const Positions itself{.first = Expr(0), .base = id};
    const auto made = made_positions(id);
    // A copy of a base is used as a base itself: it is not written when a cache advances its position.
    const ir::Node* node = producer(graph_, id);
    const bool copy = made && made->base != ir::kNone && made->first.is_int(0) && !is_free_view(*node);
    return one && (!made || copy) ? itself : made;
  }

  std::optional<Positions> made_positions(ir::ValueId id) {
    const ir::Node* node = producer(graph_, id);
    if (node == nullptr) return {};
    if (is_free_view(*node)) return view_positions(*node, *tensor(graph_, id));
    if (ops::is_any<aten::arange, aten::arange_start, aten::arange_start_step>(node))
      return counted_positions(*node, *tensor(graph_, id));
    const bool sum = aten::add_Tensor::is(node);
    if (!sum && !aten::sub_Tensor::is(node)) return {};
    const auto left = positions(arg::self(*node)), right = positions(arg::other(*node));
    if (!left || !right || !has_unit_alpha(*node)) return {};
    if ((left->along_keys && right->along_keys) || (left->along_queries && right->along_queries)) return {};
    if (!sum && (right->along_keys || right->along_queries || right->base != ir::kNone)) return {};
    if (left->base != ir::kNone && right->base != ir::kNone) return {};
    return Positions{.along_keys = left->along_keys || right->along_keys,
                     .along_queries = left->along_queries || right->along_queries,
                     .first = sum ? left->first + right->first : left->first - right->first,
                     .base = left->base == ir::kNone ? right->base : left->base};
  }

  static std::optional<Positions> counted_positions(const ir::Node& arange, const ir::TensorType& type) {
    const Attr* start = arg::start.find(arange);
    const Attr* step = arg::step.find(arange);
    if (step != nullptr && ops::as_int(*step) != 1) return {};
    const Expr* number = ops::as_number(start == nullptr ? arg::end(arange) : *start);
    if (number == nullptr || (number->is_constant() && number->value().kind != ScalarKind::kInt)) return {};
    return Positions{.along_keys = !is_size_one(type.sizes[0]), .first = start == nullptr ? Expr(0) : *number};
  }

  // A view counts along the dimension whose steps in memory are those in which its base counts.
  std::optional<Positions> view_positions(const ir::Node& node, const ir::TensorType& type) {
    const ir::ValueId base = ir::operands(node).front();
    const auto from = positions(base);
    const ir::TensorType* base_type = tensor(graph_, base);
    if (!from || base_type == nullptr || base_type->dtype != type.dtype || (from->along_keys && from->along_queries))
      return {};
    Positions to{.first = from->first, .base = from->base};
    if (!from->along_keys && !from->along_queries) return to;
    const size_t rank = base_type->sizes.size();
    const size_t counted = from->along_keys ? rank - 1 : rank - 2;
    // Steps through memory must stay in the counted dimension: the others have size 1 or stride 0.
    for (size_t d = 0; d < rank; ++d) {
      if (d != counted && !is_size_one(base_type->sizes[d]) && !base_type->strides[d].is_int(0)) return {};
    }
    if (!base_type->strides[counted].is_int(1)) return {};
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      if (is_size_one(type.sizes[d]) || type.strides[d].is_int(0)) continue;
      const size_t from_end = type.sizes.size() - d;
      if (!type.strides[d].is_int(1) || from_end > 2) return {};
      (from_end == 1 ? to.along_keys : to.along_queries) = true;
    }
    if (to.along_keys && to.along_queries) return {};
    to.first = to.first + node.views[0].offset;
    return to;
  }

  const ir::Graph& graph_;
  const Expr& queries_;
  const Expr& keys_;
  int nodes_ = 0;
};

}  // namespace

std::optional<KeyMask> read_key_mask(const ir::Graph& graph, ir::ValueId mask, const Expr& queries, const Expr& keys) {
  return Reader(graph, queries, keys).read(mask);
}

}  // namespace npugraph::passes
