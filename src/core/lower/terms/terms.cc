// SPDX-License-Identifier: Apache-2.0
#include "lower/terms/terms.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "lower/arguments.h"
#include "lower/contains.h"
#include "lower/generated/generated_node.h"
#include "lower/generated/quant.h"
#include "lower/kernel_choice.h"
#include "lower/terms/writer.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Combine;
using loop::Value;

int TermWriter::add(Term term) {
  terms_.terms_.push_back(std::move(term));
  return terms_.size() - 1;
}

std::vector<int> TermWriter::aligned(ir::ValueId value) const {
  const size_t rank = graph_.value(value).tensor().sizes.size();
  const size_t missing = terms_.space_.size() - rank;
  std::vector<int> dims(rank);
  for (size_t d = 0; d < rank; ++d) dims[d] = static_cast<int>(missing + d);
  return dims;
}

// `dims` as the nodes number them.
TermAccess TermWriter::access(ir::ValueId value, const std::vector<int>& dims) const {
  const auto& sizes = graph_.value(value).tensor().sizes;
  TermAccess access{.value = value, .dims = std::vector<int>(dims.size(), ir::kNone)};
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != ir::kNone && !sizes[d].is_int(1)) access.dims[d] = terms_.places_[dims[d]];
  }
  return access;
}

int TermWriter::add_load(TermAccess access) {
  const auto in_row = [&](int dim) { return terms_.is_in_row(dim); };
  const auto is_full = [&](int term) { return term != ir::kNone && !terms_.terms_[term].row; };
  const bool runs = std::any_of(access.dims.begin(), access.dims.end(), in_row);
  const bool moves = std::any_of(access.indices.begin(), access.indices.end(),
                                 [&](const TermAccess::Index& index) { return is_full(index.term); });
  const bool row = !terms_.changes_in_row(runs || moves || is_full(access.inside));
  if (!row) access.part = part_;
  int level = access.inside == ir::kNone ? 0 : terms_.terms_[access.inside].level;
  for (const TermAccess::Index& index : access.indices) level = std::max(level, terms_.terms_[index.term].level);
  return add({.kind = Term::Kind::kLoad, .row = row, .level = level, .access = std::move(access)});
}

int TermWriter::load(ir::ValueId value) {
  int known = terms_.find(value, part_);
  if (known != ir::kNone) return known;
  // A row term is the same at all places of its row, and so in all parts.
  if (part_ != ir::kNone) known = terms_.find(value, ir::kNone);
  if (known != ir::kNone && terms_.terms_[known].row) return known;
  if (const auto node = terms_.part_nodes_.find(value); node != terms_.part_nodes_.end()) {
    write_terms(*this, graph_, *node->second);
    return terms_.find(value, part_);
  }
  return name(value, add_load(access(value, aligned(value))));
}

int TermWriter::lanes() const {
  const auto& places = terms_.places_;
  return static_cast<int>(std::ranges::find(places, static_cast<int>(places.size()) - 1) - places.begin());
}

int TermWriter::load_along(ir::ValueId value, std::vector<int> dims) { return add_load(access(value, dims)); }

TermAccess TermWriter::indexed(ir::ValueId value, std::vector<int> dims, std::vector<TermAccess::Index> indices) const {
  for (const TermAccess::Index& index : indices) dims[index.dim] = ir::kNone;
  TermAccess at = access(value, dims);
  at.indices = std::move(indices);
  return at;
}

int TermWriter::load_indexed(ir::ValueId value, std::vector<int> dims, std::vector<TermAccess::Index> indices,
                             int inside) {
  TermAccess at = indexed(value, std::move(dims), std::move(indices));
  at.inside = inside;
  return add_load(std::move(at));
}

int TermWriter::load_stepped(ir::ValueId value, const std::vector<Step>& steps, int inside, double outside) {
  TermAccess at = access(value, aligned(value));
  for (size_t d = 0; d < steps.size(); ++d) {
    // A dimension of size 1 is read at its only element, whatever the place.
    const bool moves = at.dims[d] != ir::kNone;
    at.scales.push_back(moves ? steps[d].scale : 0);
    at.shifts.push_back(moves ? steps[d].shift : 0);
  }
  at.inside = inside;
  at.outside = outside;
  return add_load(std::move(at));
}

int TermWriter::map(std::vector<int> args, int cost, Term::Formula formula) {
  Term term{.kind = Term::Kind::kMap, .row = true, .cost = cost};
  for (const int arg : args) {
    term.row = term.row && terms_.terms_[arg].row;
    term.level = std::max(term.level, terms_.terms_[arg].level);
    term.cost += terms_.terms_[arg].row ? 0 : terms_.terms_[arg].cost;
  }
  term.args = std::move(args);
  term.formula = std::move(formula);
  return add(std::move(term));
}

int TermWriter::spread(int term) {
  if (!terms_.terms_[term].row) return term;
  std::vector<int> args = {term};
  for (const int dim : row_dims()) args.push_back(place(dim));
  return map(std::move(args), 0, [](Builder&, Values v) { return v[0]; });
}

std::vector<int> TermWriter::row_dims() const {
  std::vector<int> dims;
  for (size_t d = 0; d < terms_.places_.size(); ++d) {
    if (terms_.is_in_row(terms_.places_[d])) dims.push_back(static_cast<int>(d));
  }
  return dims;
}

std::vector<int> TermWriter::other_dims() const {
  std::vector<int> dims;
  for (size_t d = 0; d < terms_.places_.size(); ++d) {
    if (!terms_.is_in_row(terms_.places_[d])) dims.push_back(static_cast<int>(d));
  }
  return dims;
}

int TermWriter::reduce(Combine combine, int arg) {
  NG_CHECK(!terms_.terms_[arg].row, "what is the same in a whole row is not combined over it");
  const int level = terms_.terms_[arg].level + 1;
  return add({.kind = Term::Kind::kReduce, .row = true, .level = level, .args = {arg}, .combine = combine});
}

int TermWriter::reduce_to_place(Combine combine, int arg) {
  const int term = reduce(combine, arg);
  terms_.terms_[term].to_place = true;
  return term;
}

// High enough that later walks read the value from memory instead of computing the scan again (NestShape::keep_cost).
constexpr int kScanCost = 16;

int TermWriter::scan(Combine combine, int arg) {
  const Term& from = terms_.terms_[arg];
  return add({.kind = Term::Kind::kScan,
              .level = from.level,
              .cost = from.cost + kScanCost,
              .args = {arg},
              .combine = combine});
}

int TermWriter::place(int dim) {
  const int place = place_in_space(dim);
  const Expr first = first_of_part(dim);
  if (first.is_int(0)) return place;
  return map({place}, 1, [first](Builder& b, Values v) { return v[0] - b.index(first); });
}

Expr TermWriter::first_of_part(int dim) const {
  Expr first = 0;
  for (int part = part_; part != ir::kNone; part = terms_.parts_[part].around) {
    if (terms_.parts_[part].dim == terms_.places_[dim]) first = first + terms_.parts_[part].first;
  }
  return first;
}

int TermWriter::place_in_space(int dim) {
  const int at = terms_.places_[dim];
  const auto is_it = [&](const Term& term) { return term.kind == Term::Kind::kPlace && term.dim == at; };
  const auto known = std::find_if(terms_.terms_.begin(), terms_.terms_.end(), is_it);
  if (known != terms_.terms_.end()) return static_cast<int>(known - terms_.terms_.begin());
  const bool row = !terms_.changes_in_row(terms_.is_in_row(at));
  return add({.kind = Term::Kind::kPlace, .row = row, .cost = 1, .dim = at});
}

int TermWriter::in_float(ir::ValueId value) {
  const DType compute = graph_.value(value).tensor().dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return map({load(value)}, 0, [compute](Builder&, Values v) { return loop::cast(v[0], compute); });
}

int TermWriter::sums() { return add({.kind = Term::Kind::kLoad}); }

int TermWriter::count(DType dtype) {
  const Expr n = terms_.row_length();
  reads(n);
  return map({}, 0, [n, dtype](Builder& b, Values) { return loop::cast(b.index(n), dtype); });
}

void TermWriter::check(TermCheck check) {
  reads(check.limit);
  terms_.checks_.push_back(std::move(check));
}

int TermWriter::add_part(int dim, const Expr& first, const Expr& size) {
  reads(first);
  reads(size);
  std::vector<int> args = {place_in_space(dim)};
  if (part_ != ir::kNone) args.push_back(terms_.parts_[part_].inside);
  const Expr whole = terms_.space_[terms_.places_[dim]];
  // `first` is relative to the part around; the place is one in the whole space.
  const Expr begin = first_of_part(dim) + first;
  const int inside = map(std::move(args), 2, [begin, size, whole](Builder& b, Values v) {
    const Expr end = begin + size;
    Value in = end == whole ? b.constant(DType::kBool, Scalar::of_bool(true)) : v[0] < b.index(end);
    if (!begin.is_int(0)) in = end == whole ? v[0] >= b.index(begin) : in & (v[0] >= b.index(begin));
    return v.size() > 1 ? in & v[1] : in;
  });
  terms_.parts_.push_back({.around = part_, .dim = terms_.places_[dim], .first = first, .inside = inside});
  return static_cast<int>(terms_.parts_.size()) - 1;
}

int TermWriter::rounded(ir::ValueId value, int term) {
  const DType dtype = graph_.value(value).tensor().dtype;
  return map({term}, 0, [dtype](Builder&, Values v) { return loop::cast(v[0], dtype); });
}

int TermWriter::name(ir::ValueId value, int term) {
  terms_.known_.push_back({.value = value, .part = part_, .term = term});
  return term;
}

void TermWriter::result(ir::ValueId value, int term) {
  if (value == ir::kNone) return;
  name(value, rounded(value, term));
  terms_.known_.back().store = access(value, aligned(value));
}

void TermWriter::result_without_row(ir::ValueId value, int term) {
  name(value, rounded(value, term));
  terms_.known_.back().store = access(value, other_dims());
}

void TermWriter::add_write(ir::ValueId operand, ir::ValueId value, int term, TermAccess store) {
  term = rounded(operand, term);
  terms_.written_.push_back({.value = operand, .term = term, .store = std::move(store)});
  if (value != ir::kNone) name(value, term);
}

void TermWriter::write(ir::ValueId operand, ir::ValueId value, int term) {
  add_write(operand, value, term, access(operand, aligned(operand)));
}

void TermWriter::write_without_row(ir::ValueId operand, ir::ValueId value, int term) {
  add_write(operand, value, term, access(operand, other_dims()));
}

void TermWriter::write_indexed(ir::ValueId operand, int term, std::vector<int> dims,
                               std::vector<TermAccess::Index> indices) {
  add_write(operand, ir::kNone, term, indexed(operand, std::move(dims), std::move(indices)));
}

Terms::Terms(std::vector<Expr> space, int lanes, const std::vector<int>& walk) : places_(space.size()) {
  const int rank = static_cast<int>(space.size());
  if (lanes == ir::kNone) lanes = rank - 1;
  const auto walks = [&](int d) { return std::find(walk.begin(), walk.end(), d) != walk.end(); };
  by_columns_ = !walk.empty() && !walks(lanes);
  row_rank_ = std::max<size_t>(walk.size(), 1);
  std::vector<int> order;
  const auto append = [&](bool in_walk) {
    for (int d = 0; d < rank; ++d) {
      if (d != lanes && walks(d) == in_walk) order.push_back(d);
    }
  };
  append(false);
  if (by_columns_) order.push_back(lanes);
  append(true);
  if (!by_columns_) order.push_back(lanes);
  for (const int d : order) {
    places_[d] = static_cast<int>(space_.size());
    space_.push_back(space[d]);
  }
}

Expr Terms::row_length() const {
  Expr length = 1;
  for (size_t d = space_.size() - row_rank_; d < space_.size(); ++d) length = length * space_[d];
  return length;
}

int Terms::find(ir::ValueId value, int part) const {
  const auto is_it = [&](const TermResult& known) { return known.value == value && known.part == part; };
  const auto at = std::find_if(known_.begin(), known_.end(), is_it);
  return at == known_.end() ? ir::kNone : at->term;
}

const TermResult& Terms::result(ir::ValueId value) const {
  for (const auto* results : {&written_, &known_}) {
    for (const TermResult& result : *results) {
      if (result.value == value && result.part == ir::kNone && result.store.value != ir::kNone) return result;
    }
  }
  NG_CHECK(false, "no term for value ", value);
}

bool Terms::has_reductions() const {
  return std::any_of(terms_.begin(), terms_.end(), [](const Term& t) { return t.kind == Term::Kind::kReduce; });
}

bool Terms::walks_rows() const {
  const auto is_scan = [](const Term& t) { return t.kind == Term::Kind::kScan; };
  return has_reductions() || std::any_of(terms_.begin(), terms_.end(), is_scan);
}

bool Terms::is_ordered() const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [](const Term& t) { return t.kind == Term::Kind::kScan || t.to_place; });
}

bool Terms::is_plain() const {
  const auto is_shifted = [](const Term& t) {
    return t.kind == Term::Kind::kPlace || (t.kind == Term::Kind::kLoad && !t.access.is_plain());
  };
  return written_.empty() && checks_.empty() && std::none_of(terms_.begin(), terms_.end(), is_shifted);
}

void Terms::add(const ir::Graph& graph, const ir::Node& node) {
  const auto own = space_of(graph, node);
  const auto size_in = [&](size_t d) -> const Expr& { return space_[places_[d]]; };
  bool fits = !own || own->size() == space_.size();
  for (size_t d = 0; fits && own && d < own->size(); ++d) {
    fits = (*own)[d] == size_in(d) || (is_in_row(places_[d]) && (*own)[d].is_int(1));
  }
  if (!fits) {
    part_nodes_.emplace(node.results.front(), &node);
    return;
  }
  TermWriter writer(*this, graph);
  write_terms(writer, graph, node);
}

namespace {

// Whether all rows of a matrix, or of several matrices, are one dimension.
bool has_even_rows(const ir::TensorType& type) {
  for (size_t d = 0; d + 2 < type.sizes.size(); ++d) {
    if (!is_step_over(type.strides[d], type.sizes[d + 1], type.strides[d + 1])) return false;
  }
  return true;
}

}  // namespace

bool is_product(const ir::Graph& graph, const ir::Node& node) {
  if (is_quantised_product(graph, node) || is_int8_product(graph, node) || is_int4_product(graph, node) ||
      is_integer_product(graph, node))
    return true;
  const bool adds = aten::addmm::is(node);
  if (!adds && !ops::is_any<aten::mm, aten::bmm>(node)) return false;
  const auto is_one = [&](const ops::NumberArgument& factor) {
    const auto number = factor.as_constant(node);
    return number && number->as_float() == 1.0;
  };
  const ir::ValueId first = node.results.front();
  const auto* result = graph.value(first).is_tensor() ? &graph.value(first).tensor() : nullptr;
  if (result == nullptr || !is_generated_float(result->dtype) || !has_even_rows(*result)) return false;
  const auto operands = ir::operands(node);
  const auto fits = [&](ir::ValueId id) {
    return graph.value(id).is_tensor() && graph.value(id).tensor().dtype == result->dtype;
  };
  const bool is_plain = std::all_of(operands.begin(), operands.end(), fits) &&
                        (!adds || (is_one(aten::addmm::beta) && is_one(aten::addmm::alpha)));
  if (!is_plain) return false;
  const auto [a, b] = matrices_of(node);
  return result->dtype != DType::kF32 || !is_small_product(graph.value(a).tensor(), graph.value(b).tensor());
}

std::pair<ir::ValueId, ir::ValueId> matrices_of(const ir::Node& product) {
  if (aten::addmm::is(product)) return {aten::addmm::mat1(product), aten::addmm::mat2(product)};
  if (own::gguf_linear::is(product)) return {own::gguf_linear::x(product), own::gguf_linear::blocks(product)};
  return {self_of(product), ops::as_value(arg::mat2(product))};
}

void Terms::add_product(const ir::Graph& graph, const ir::Node& node, ir::ValueId view) {
  TermWriter w(*this, graph);
  if (is_integer_product(graph, node)) sums_type_ = DType::kI32;
  int sum = w.sums();
  if (aten::addmm::is(node)) {
    const ir::ValueId bias = aten::addmm::self(node);
    const int summand = graph.value(bias).tensor().sizes.size() == 1 ? w.load_along(bias, {w.lanes()}) : w.load(bias);
    sum = w.map({sum, summand}, 1, [](Builder&, Values v) { return v[0] + loop::cast(v[1], DType::kF32); });
  }
  if (aten::convolution::is(node) && tensor_type(graph, aten::convolution::bias(node)) != nullptr) {
    const int bias = w.load_along(aten::convolution::bias(node), {1});
    sum = w.map({sum, bias}, 1, [](Builder&, Values v) { return v[0] + loop::cast(v[1], DType::kF32); });
  }
  if (is_int8_product(graph, node)) {
    sum = w.map({sum, w.in_float(aten::_weight_int8pack_mm::scales(node))}, 1,
                [](Builder&, Values v) { return v[0] * v[1]; });
  }
  w.result(node.results.front(), sum);
  if (view != node.results.front()) w.name(view, find(node.results.front(), ir::kNone));
}

namespace {

using ir::NodeId, ir::ValueId;

class Moved {
 public:
  Moved(const ir::Graph& graph, const std::vector<NodeId>& nodes) : graph_(graph), nodes_(nodes) {}

  // Whether a node only moves data that is in memory before any of the nodes runs.
  bool moves(const ir::Node& node) const {
    if (!node.op->is(ir::Trait::kCopyLike)) return false;
    const std::vector<ValueId> written = ir::written_operands(node);
    return std::ranges::any_of(ir::operands(node), [&](ValueId id) {
      if (contains(written, id)) return false;
      const auto& sizes = graph_.value(id).tensor().sizes;
      const bool is_empty = std::ranges::any_of(sizes, [](const Expr& size) { return size.is_int(0); });
      return !is_empty && is_in_memory(id);
    });
  }

 private:
  bool is_in_memory(ValueId id) const {
    const NodeId def = graph_.value(id).def;
    if (def == ir::kNone) return true;
    const ir::Node& node = graph_.node(def);
    if (!node.views.empty()) return is_in_memory(ir::operands(node).front());
    return !contains(nodes_, def) || moves(node);
  }

  const ir::Graph& graph_;
  const std::vector<NodeId>& nodes_;
};

}  // namespace

bool is_copied(const ir::Graph& graph, ValueId id, const std::vector<NodeId>& nodes) {
  const NodeId def = graph.value(id).def;
  const auto writer = std::ranges::find_if(
      nodes, [&](NodeId node) { return node == def || contains(ir::written_operands(graph.node(node)), id); });
  return Moved(graph, nodes).moves(graph.node(writer == nodes.end() ? nodes.back() : *writer));
}

}  // namespace npugraph::lower
