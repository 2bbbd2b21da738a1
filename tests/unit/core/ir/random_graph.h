// SPDX-License-Identifier: Apache-2.0
// Random valid graphs: operators of the table with the types that their rules give, views, writes, sizes that nodes
// define, streams, origins, opaque values, constants. The same seed gives the same graph everywhere.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"
#include "ops/table.h"
#include "tensor/shape.h"

namespace npugraph::ir {

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {}

  // A graph of about `num_nodes` nodes that ir::verify and ops::verify_types accept.
  Graph make(int num_nodes) {
    graph_ = Graph();
    graph_.name = chance(10) ? "a name, \"quoted\"" : "random";
    add_inputs();
    add_constants();
    graph_.sections = {{.stream = 0}, {.stream = 1}, {.stream = 2, .limits = {1, 2}}};
    for (int i = 0; i < num_nodes; ++i) add_node();
    for (int i = 0; i < 3; ++i) graph_.outputs.emplace_back(TensorRef{any_tensor()});
    graph_.outputs.emplace_back(None{});
    graph_.outputs.emplace_back(Expr::symbol("s0") * Expr(4) + Expr(below(3)));
    return std::move(graph_);
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }
  bool chance(int64_t one_in) { return below(one_in) == 0; }
  template <typename T, size_t n>
  T pick(const std::array<T, n>& items) {
    return items[below(n)];
  }

  const TensorType& type(ValueId id) const { return graph_.value(id).tensor(); }

  ValueId any_tensor() {
    while (true) {
      const auto id = static_cast<ValueId>(below(graph_.num_values()));
      if (graph_.value(id).is_tensor()) return id;
    }
  }

  // A tensor for which `holds` is true, or kNone if none is found.
  template <typename Predicate>
  ValueId find_tensor(Predicate holds) {
    for (int i = 0; i < 20; ++i) {
      const ValueId id = any_tensor();
      if (holds(type(id))) return id;
    }
    return kNone;
  }

  static Attr ref(ValueId id) { return TensorRef{id}; }
  static bool is_float(const TensorType& t) { return is_floating(t.dtype); }

  void add_inputs() {
    graph_.symbols.push_back({"s0", ScalarKind::kInt, 2, 1024});
    graph_.symbols.push_back({"f0", ScalarKind::kFloat, INT64_MIN, INT64_MAX});
    graph_.inputs.push_back({kNone, Expr::symbol("s0"), InputKind::kUser, "s0"});
    graph_.inputs.push_back({kNone, Expr::symbol("f0", ScalarKind::kFloat), InputKind::kUser, ""});
    graph_.inputs.push_back({kNone, Expr(below(9)), InputKind::kUser, "L['n']"});
    const Expr s0 = Expr::symbol("s0");
    const std::array<std::vector<Expr>, 6> shapes = {{{4, 6}, {s0, 6}, {2, s0, 4}, {6}, {}, {2, 3, 4}}};
    const std::array kinds = {InputKind::kUser, InputKind::kParameter, InputKind::kBuffer, InputKind::kStatic};
    for (const auto& shape : shapes) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64, DType::kBool}) {
        if (chance(3) && dtype != DType::kF32) continue;
        TensorType t{dtype, shape, contiguous_strides(shape), {}};
        const ValueId id = graph_.add_value(std::move(t), chance(2) ? "arg.0" : "x");
        graph_.inputs.push_back({id, {}, pick(kinds), chance(4) ? "" : "L['x']"});
      }
    }
    const ValueId opaque = graph_.add_value(OpaqueType{"sparse_coo f32[4, 4]"}, "sparse");
    graph_.inputs.push_back({opaque, {}, InputKind::kUser, "L['s']"});
  }

  void add_constants() {
    const std::array dtypes = {DType::kF32, DType::kI64, DType::kBool, DType::kF16,
                               DType::kC64, DType::kI8,  DType::kBF16, DType::kF64};
    for (const DType dtype : dtypes) {
      const int64_t elements = below(4) == 0 ? 65 : below(5);
      auto bytes = std::make_shared<std::vector<uint8_t>>(elements * size_of(dtype));
      for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(below(2));
      auto data = std::make_shared<ConstantData>();
      data->data = bytes->data();
      data->bytes = static_cast<int64_t>(bytes->size());
      data->owner = bytes;
      const ValueId id = graph_.add_value(TensorType{dtype, {elements}, {1}, {}}, "c");
      graph_.constants.push_back({id, std::move(data), chance(2)});
    }
  }

  void add_node() {
    switch (below(12)) {
      case 0: return add_unary();
      case 1:
      case 2: return add_binary();
      case 3:
      case 4: return add_view();
      case 5: return add_write();
      case 6: return add_reduction();
      case 7: return add_product();
      case 8: return add_creation();
      case 9: return add_copy();
      case 10: return add_defining();
      default: return add_foreign();
    }
  }

  // Appends the node if the table's rule knows its types.
  void add(std::string_view name, std::vector<Attr> args) {
    Node node;
    node.op = &ops::require(name);
    for (size_t i = args.size(); i < node.op->schema.args.size(); ++i)
      args.push_back(node.op->schema.args[i].default_value);
    node.args = std::move(args);
    std::optional<std::vector<Type>> types;
    try {
      types = ops::infer_types(graph_, *node.op, node.args);
    } catch (const UserError&) {  // the operands do not fit each other
    }
    if (!types || (types->empty() && !node.op->schema.returns.empty())) return;
    if (node.op->is(Trait::kView)) {
      const auto views = ops::infer_views(graph_, *node.op, node.args);
      for (const auto& view : views.value()) node.views.push_back({view.offset});
    }
    append(std::move(node), std::move(*types));
  }

  void append(Node node, std::vector<Type> types) {
    if (chance(3)) node.origin = {"fx_node", chance(2) ? "" : "model.py:12 in forward"};
    if (chance(5)) node.section = static_cast<int32_t>(below(3));
    const std::string name(node.op->schema.name.substr(node.op->schema.name.find('.') + 1));
    graph_.append(std::move(node), std::move(types), name.substr(0, name.find('.')));
  }

  Attr number() {
    switch (below(5)) {
      case 0: return Expr(below(7) - 3);
      case 1: return Expr::constant(Scalar::of_float(0.5));
      case 2: return Expr::constant(Scalar::of_float(-std::numeric_limits<double>::infinity()));
      case 3: return Expr::symbol("s0");
      default: return Expr::symbol("f0", ScalarKind::kFloat);
    }
  }

  void add_unary() {
    const std::array names = {"aten.relu", "aten.exp",   "aten.neg",  "aten.rsqrt",
                              "aten.silu", "aten.isnan", "aten.tanh", "aten.abs"};
    const ValueId x = find_tensor(is_float);
    if (x != kNone) add(pick(names), {ref(x)});
  }

  void add_binary() {
    const std::array names = {"aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor", "aten.eq.Tensor",
                              "aten.maximum"};
    const ValueId a = any_tensor();
    const ValueId b = find_tensor([&](const TensorType& t) { return t.sizes == type(a).sizes || t.sizes.empty(); });
    const std::string_view name = pick(names);
    if (chance(3) && name != "aten.maximum") return add(name, {ref(a), number()});
    if (b != kNone) add(name, {ref(a), ref(b)});
  }

  void add_view() {
    const ValueId x = find_tensor([](const TensorType& t) { return !t.sizes.empty(); });
    if (x == kNone) return;
    const auto rank = static_cast<int64_t>(type(x).sizes.size());
    const Expr dim = below(rank);
    std::vector<Expr> wide = type(x).sizes;
    wide.insert(wide.begin(), 3);
    switch (below(9)) {
      case 0: return add("aten.transpose.int", {ref(x), dim, Expr(below(rank) - rank)});
      case 1: return add("aten.view", {ref(x), std::vector<Expr>{-1}});
      case 2:
        return add("aten.slice.Tensor",
                   {ref(x), dim, Expr(below(3)), chance(2) ? Expr(INT64_MAX) : Expr(-1), Expr(1 + below(2))});
      case 3:
        return type(x).sizes[dim.as_int().value()].is_int(0) ? void() : add("aten.select.int", {ref(x), dim, Expr(0)});
      case 4: return add("aten.unsqueeze", {ref(x), Expr(below(rank + 1))});
      case 5: return add("aten.expand", {ref(x), wide});
      case 6: return add("aten.split.Tensor", {ref(x), Expr(2), dim});
      case 7: return add("aten.unbind.int", {ref(x), dim});
      default: return add("aten.alias", {ref(x)});
    }
  }

  // Adds a write to a tensor whose elements do not share memory.
  void add_write() {
    const ValueId x = find_tensor([](const TensorType& t) {
      return is_float(t) && std::none_of(t.strides.begin(), t.strides.end(), [](const Expr& s) { return s.is_int(0); });
    });
    if (x == kNone) return;
    switch (below(3)) {
      case 0: return add("aten.mul_.Tensor", {ref(x), number()});
      case 1: return add("aten.relu_", {ref(x)});
      default: break;
    }
    const ValueId y = find_tensor([&](const TensorType& t) { return t.sizes == type(x).sizes; });
    if (y != kNone) add("aten.copy_", {ref(x), ref(y)});
  }

  void add_reduction() {
    const std::array names = {"aten.sum.dim_IntList", "aten.mean.dim", "aten.amax", "aten.any.dims"};
    const ValueId x = find_tensor([](const TensorType& t) { return is_float(t) && !t.sizes.empty(); });
    if (x != kNone) add(pick(names), {ref(x), std::vector<Expr>{-1}, Expr::constant(Scalar::of_bool(chance(2)))});
  }

  void add_product() {
    const auto is_matrix = [](const TensorType& t) { return t.dtype == DType::kF32 && t.sizes.size() == 2; };
    const ValueId a = find_tensor(is_matrix);
    if (a == kNone) return;
    const ValueId b = find_tensor([&](const TensorType& t) { return is_matrix(t) && t.sizes[0] == type(a).sizes[1]; });
    if (b != kNone) add("aten.mm", {ref(a), ref(b)});
  }

  void add_creation() {
    switch (below(4)) {
      case 0: return add("aten.arange", {Expr::symbol("s0")});
      case 1: return add("aten.full", {std::vector<Expr>{4, 6}, Expr(1)});
      case 2: return add("aten.zeros", {std::vector<Expr>(), DType::kF32});
      default: return add("aten.zeros_like", {ref(any_tensor())});
    }
  }

  void add_copy() {
    const ValueId x = any_tensor();
    switch (below(3)) {
      case 0: return add("aten.clone", {ref(x), MemoryFormat::kContiguous});
      case 1: return add("aten._to_copy", {ref(x), DType::kBF16});
      default: return add("aten.cat", {std::vector<TensorRef>{{x}, {x}}, Expr(0)});
    }
  }

  // Adds a node that defines a size or a scalar.
  void add_defining() {
    const ValueId x = any_tensor();
    Node node;
    const std::string symbol = "u" + std::to_string(graph_.symbols.size());
    node.args = {ref(x)};
    if (chance(2)) {
      node.op = &ops::require("aten.nonzero");
      node.defines = {{symbol, ScalarKind::kInt, 0, 0}};
      const auto rank = static_cast<int64_t>(type(x).sizes.size());
      graph_.symbols.push_back({symbol, ScalarKind::kInt, 0, INT64_MAX});
      append(std::move(node), {TensorType{DType::kI64, {Expr::symbol(symbol), rank}, {1, Expr::symbol(symbol)}, {}}});
    } else {
      node.op = &ops::require("aten._local_scalar_dense");
      node.defines = {{symbol, ScalarKind::kFloat, 0, kNone}};
      graph_.symbols.push_back({symbol, ScalarKind::kFloat, INT64_MIN, INT64_MAX});
      append(std::move(node), {});
    }
  }

  // Adds a node with an operator that the table does not know, a callable and an opaque result, an undefined result, or
  // a side effect.
  void add_foreign() {
    const ValueId x = any_tensor();
    Node node;
    switch (below(4)) {
      case 0:
        node.op = ops::registry().intern(
            "test::scale(Tensor x, *, float scale=1.0, str mode=\"a\", Tensor? y=None) -> Tensor", 0);
        node.args = {ref(x), Expr::constant(Scalar::of_float(chance(2) ? 1.0 : 2.5)),
                     std::string(chance(2) ? "a" : "b\n\""), None{}};
        return append(std::move(node), {type(x)});
      case 1:
        node.op = ops::registry().intern("test::call(Tensor[] args) -> Tensor[]", static_cast<Traits>(Trait::kOpaque));
        node.args = {std::vector<TensorRef>()};
        node.callable = static_cast<int32_t>(below(3));
        return append(std::move(node), {type(x), OpaqueType{"dict"}});
      case 2:
        node.op = ops::registry().intern("test::pair(Tensor x, Tensor?[] more) -> (Tensor, Tensor)", 0);
        node.args = {ref(x), std::vector<TensorRef>{{x}, {TensorRef::kAbsent}}};
        node.results = {kNone, 0};
        return append(std::move(node), {type(x)});
      default:
        node.op = &ops::require("aten._assert_async.msg");
        node.args = {ref(x), std::string("must hold")};
        return append(std::move(node), {});
    }
  }

  std::mt19937 random_;
  Graph graph_;
};

}  // namespace npugraph::ir
