// SPDX-License-Identifier: Apache-2.0
// Operators that move elements and compute nothing.
#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "ge/data_types.h"
#include "ge/import/rules.h"
#include "ir/alias.h"
#include "ops/operators.h"
#include "ops/table.h"
#include "tensor/shape.h"

namespace npugraph::ge {

size_t dimension(const Call& call, int64_t dim, size_t rank) {
  const int64_t from_front = dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
  if (from_front < 0 || from_front >= static_cast<int64_t>(rank))
    call.fail(cat("dimension ", dim, " is outside of a tensor of ", rank, " dimensions"));
  return static_cast<size_t>(from_front);
}

ir::ValueId reshape(Context& context, ir::ValueId value, const std::vector<Expr>& sizes) {
  if (context.sizes(value) == sizes) return value;
  const std::vector<Attr> args = {TensorRef{value}, sizes};
  if (ops::infer_views(context.graph(), aten::view::op(), args)) return context.add(aten::view::op(), args);
  const ir::ValueId copy = context.add(aten::clone::op(), {TensorRef{value}, MemoryFormat::kContiguous});
  return context.add(aten::view::op(), {TensorRef{copy}, sizes});
}

namespace {

std::vector<Expr> exprs(const std::vector<int64_t>& values) { return {values.begin(), values.end()}; }

// The sizes that `wanted` asks for: 0 keeps the size of the same dimension where `keeps` says so, and one -1 stands for
// the elements that the others leave.
std::vector<Expr> resolve(const Call& call, const std::vector<Expr>& sizes, std::vector<Expr> wanted) {
  Expr known(1);
  size_t unknown = wanted.size();
  for (size_t d = 0; d < wanted.size(); ++d) {
    if (!wanted[d].is_int(-1)) {
      known = known * wanted[d];
    } else if (unknown == wanted.size()) {
      unknown = d;
    } else {
      call.fail("more than one size of its result is -1");
    }
  }
  const Expr elements = numel(sizes);
  if (unknown == wanted.size()) {
    call.context().require_equal(elements, known);
    return wanted;
  }
  wanted[unknown] = Expr::make(ExprOp::kFloorDiv, {elements, known});
  return wanted;
}

std::vector<Operand> reshape_rule(const Call& call) {
  const ir::ValueId x = call.value("x");
  return one(reshape(call.context(), x, resolve(call, call.context().sizes(x), call.numbers("shape").elements)));
}

std::vector<Operand> transpose(const Call& call) {
  const ir::ValueId x = call.value("x");
  const size_t rank = call.context().sizes(x).size();
  std::vector<int64_t> perm = call.integers("perm"), sorted;
  for (int64_t& dim : perm) dim = static_cast<int64_t>(dimension(call, dim, rank));
  sorted = perm;
  std::ranges::sort(sorted);
  std::vector<int64_t> every(rank);
  std::iota(every.begin(), every.end(), 0);
  if (sorted != every) call.fail(cat("its input 'perm' names each of ", rank, " dimensions once"));
  if (perm == every) return one(x);
  if (rank == 2) return one(call.context().add(aten::t::op(), {TensorRef{x}}));
  std::vector<int64_t> moved;
  for (size_t d = 0; d < rank; ++d) {
    if (perm[d] != static_cast<int64_t>(d)) moved.push_back(static_cast<int64_t>(d));
  }
  if (moved.size() == 2)
    return one(call.context().add(aten::transpose_int::op(), {TensorRef{x}, Expr(moved[0]), Expr(moved[1])}));
  return one(call.context().add(aten::permute::op(), {TensorRef{x}, exprs(perm)}));
}

std::vector<Operand> identity(const Call& call) { return one(call.value("x")); }

std::vector<Operand> tensor_move(const Call& call) {
  return one(call.context().add(aten::clone::op(), {TensorRef{call.value("x")}}));
}

bool is_constant(const ir::Graph& graph, ir::ValueId id) {
  const ir::ValueId root = graph.value(id).def == ir::kNone ? id : ir::AliasInfo(graph).root(id);
  return std::ranges::find(graph.constants, root, &ir::Constant::value) != graph.constants.end();
}

// The result is the tensor that is written.
std::vector<Operand> assign(const Call& call) {
  Context& context = call.context();
  const ir::ValueId ref = call.value("ref"), value = call.value("value");
  if (is_constant(context.graph(), ref)) call.fail("its input 'ref' is a constant, which nothing writes");
  context.require_broadcast(context.sizes(ref), context.sizes(value));
  return one(context.add(aten::copy_::op(), {TensorRef{ref}, TensorRef{value}}));
}

std::vector<Operand> unsqueeze(const Call& call) {
  Context& context = call.context();
  ir::ValueId x = call.value("x");
  std::vector<int64_t> axes = call.attr_ints("axes");
  const size_t rank = context.sizes(x).size() + axes.size();
  for (int64_t& axis : axes) axis = static_cast<int64_t>(dimension(call, axis, rank));
  std::ranges::sort(axes);
  for (const int64_t axis : axes) x = context.add(aten::unsqueeze::op(), {TensorRef{x}, Expr(axis)});
  return one(x);
}

std::vector<Operand> expand_dims(const Call& call) {
  const ir::ValueId x = call.value("x");
  return one(call.context().add(aten::unsqueeze::op(), {TensorRef{x}, Expr(call.integer("axis"))}));
}

std::vector<Operand> squeeze(const Call& call) {
  Context& context = call.context();
  const ir::ValueId x = call.value("x");
  std::vector<int64_t> axes = call.attr_ints("axis");
  const std::vector<Expr>& sizes = context.sizes(x);
  if (axes.empty()) {
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d].is_int(1)) axes.push_back(static_cast<int64_t>(d));
    }
  }
  for (const int64_t axis : axes) {
    if (!sizes[dimension(call, axis, sizes.size())].is_int(1))
      call.fail(cat("dimension ", axis, " has not the size 1"));
  }
  return one(context.add(aten::squeeze_dims::op(), {TensorRef{x}, exprs(axes)}));
}

std::vector<Operand> flatten(const Call& call) {
  const ir::ValueId x = call.value("x");
  const std::vector<Expr>& sizes = call.context().sizes(x);
  if (sizes.empty()) return one(reshape(call.context(), x, {Expr(1)}));
  const size_t begin = dimension(call, call.attr_int("axis"), sizes.size());
  const size_t end = dimension(call, call.attr_int("end_axis"), sizes.size());
  std::vector<Expr> flat(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(begin));
  Expr joined(1);
  for (size_t d = begin; d <= end; ++d) joined = joined * sizes[d];
  flat.push_back(joined);
  flat.insert(flat.end(), sizes.begin() + static_cast<std::ptrdiff_t>(end) + 1, sizes.end());
  return one(reshape(call.context(), x, flat));
}

std::vector<Operand> broadcast_to(const Call& call) {
  const ir::ValueId x = call.value("x");
  const std::vector<Expr>& sizes = call.context().sizes(x);
  std::vector<Expr> wanted = call.numbers("shape").elements;
  if (wanted.size() < sizes.size()) call.fail(cat("its input 'shape' has at least ", sizes.size(), " sizes"));
  for (size_t d = 0; d < sizes.size(); ++d) {
    Expr& size = wanted[wanted.size() - sizes.size() + d];
    if (size.is_int(-1)) size = sizes[d];
    if (!sizes[d].is_int(1)) call.context().require_equal(sizes[d], size);
  }
  if (wanted == sizes) return one(x);
  return one(call.context().add(aten::expand::op(), {TensorRef{x}, wanted}));
}

std::vector<Operand> tile(const Call& call) {
  return one(call.context().add(aten::repeat::op(), {TensorRef{call.value("x")}, call.numbers("multiples").elements}));
}

// Places among the elements of a tensor, counted in row-major order: `offset` + the sum of place * stride.
struct Places {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

Places places_of(const Call& call, std::string_view size, std::string_view stride, std::string_view offset) {
  const std::vector<int64_t> offsets = call.integers(offset);
  Places places{call.integers(size), call.integers(stride), offsets.empty() ? 0 : offsets.front()};
  if (places.sizes.size() != places.strides.size() || offsets.size() != 1)
    call.fail(cat("it has ", places.sizes.size(), " sizes, ", places.strides.size(), " strides and ", offsets.size(),
                  " offsets"));
  return places;
}

bool is_empty(const Places& places) { return std::ranges::find(places.sizes, 0) != places.sizes.end(); }

// UserError unless the places are among `elements`.
void check_places(const Call& call, const Places& places, int64_t elements) {
  int64_t last = places.offset;
  for (size_t d = 0; d < places.sizes.size(); ++d) {
    const int64_t size = places.sizes[d], stride = places.strides[d];
    int64_t reach = 0;
    const bool is_out = size < 0 || stride < 0 || __builtin_mul_overflow(size - 1, stride, &reach) ||
                        __builtin_add_overflow(last, reach, &last);
    if (is_out) call.fail(cat("size ", size, " and stride ", stride, " are out of range"));
  }
  if (places.offset < 0 || (!is_empty(places) && last >= elements))
    call.fail(cat("it reads element ", places.offset < 0 ? places.offset : last, " of ", elements));
}

// The elements of x at these places: a view of x if x is dense and row-major, else of a copy.
ir::ValueId window(const Call& call, ir::ValueId x, const Places& places) {
  Context& context = call.context();
  const auto elements = numel(context.sizes(x)).as_int();
  if (!elements) call.fail("the sizes of the tensor in which it counts places have to be constant");
  check_places(call, places, *elements);
  if (!is_contiguous(context.sizes(x), context.type(x).strides))
    x = context.add(aten::clone::op(), {TensorRef{x}, MemoryFormat::kContiguous});
  x = reshape(context, x, {Expr(*elements)});
  if (places.offset != 0 && !is_empty(places))
    x = context.add(aten::slice_Tensor::op(), {TensorRef{x}, Expr(0), Expr(places.offset), Expr(*elements), Expr(1)});
  return context.add(aten::as_strided::op(), {TensorRef{x}, exprs(places.sizes), exprs(places.strides), None{}});
}

std::vector<Operand> as_strided(const Call& call) {
  return one(window(call, call.value("x"), places_of(call, "size", "stride", "storage_offset")));
}

// Whether the places are all elements of x in their order.
bool is_whole(const Context& context, ir::ValueId x, const Places& places) {
  return places.offset == 0 && context.sizes(x) == exprs(places.sizes) &&
         is_contiguous(exprs(places.sizes), exprs(places.strides));
}

// Writes `src` into `written`, a view of a copy of what the operator writes. Passes remove the copies that nobody can
// tell from the originals.
void write_part(const Call& call, ir::ValueId written, ir::ValueId src) {
  Context& context = call.context();
  if (context.sizes(written).size() != context.sizes(src).size())
    call.fail(cat("the part has ", context.sizes(written).size(), " dimensions, and its value has ",
                  context.sizes(src).size()));
  for (size_t d = 0; d < context.sizes(src).size(); ++d)
    context.require_equal(context.sizes(written)[d], context.sizes(src)[d]);
  context.add(aten::copy_::op(), {TensorRef{written}, TensorRef{src}});
}

std::vector<Operand> view_copy(const Call& call) {
  const Places from = places_of(call, "src_size", "src_stride", "src_storage_offset");
  const Places to = places_of(call, "dst_size", "dst_stride", "dst_storage_offset");
  Context& context = call.context();
  ir::ValueId src = call.value("src");
  if (!is_whole(context, src, from)) src = window(call, src, from);
  const ir::ValueId dst = context.add(aten::clone::op(), {TensorRef{call.value("dst")}, MemoryFormat::kContiguous});
  write_part(call, window(call, dst, to), src);
  return one(dst);
}

// The same bytes as elements of another type. The last dimension has as many as its bytes are.
std::vector<Operand> bitcast(const Call& call) {
  const auto* type = find_attr<TypeNumber>(call.def().attrs, "type");
  const DataTypeRow* row = type == nullptr ? nullptr : find_type_by_number(type->number);
  if (row == nullptr || !row->dtype) call.fail("its attribute 'type' is no element type");
  return one(call.context().add(aten::view_dtype::op(), {TensorRef{call.value("x")}, *row->dtype}));
}

std::vector<TensorRef> refs(const Call& call, std::string_view name) {
  std::vector<TensorRef> refs;
  for (Operand* operand : call.list(name)) refs.push_back({call.context().value_of(*operand)});
  if (refs.empty()) call.fail(cat("its input '", name, "' has at least one tensor"));
  return refs;
}

std::vector<Operand> concatenate(const Call& call, int64_t axis) {
  Context& context = call.context();
  const std::vector<TensorRef> parts = refs(call, "x");
  const std::vector<Expr>& first = context.sizes(parts.front().id);
  const size_t dim = dimension(call, axis, first.size());
  for (const TensorRef part : parts) {
    const std::vector<Expr>& sizes = context.sizes(part.id);
    if (sizes.size() != first.size()) call.fail("its tensors have different numbers of dimensions");
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (d != dim) context.require_equal(first[d], sizes[d]);
    }
  }
  // A result in row-major order, as that of several parts: an alias of a transposed part would be copied by each
  // reader.
  if (parts.size() == 1) return one(context.add(aten::clone::op(), {parts.front(), MemoryFormat::kContiguous}));
  return one(context.add(aten::cat::op(), {parts, Expr(static_cast<int64_t>(dim))}));
}
std::vector<Operand> concatenate_v2(const Call& call) { return concatenate(call, call.integer("concat_dim")); }
std::vector<Operand> concatenate_d(const Call& call) { return concatenate(call, call.attr_int("concat_dim")); }

std::vector<Operand> pack(const Call& call) {
  const std::vector<TensorRef> parts = refs(call, "x");
  for (const TensorRef part : parts) {
    const auto &first = call.context().sizes(parts.front().id), &sizes = call.context().sizes(part.id);
    if (sizes.size() != first.size()) call.fail("its tensors have different numbers of dimensions");
    for (size_t d = 0; d < sizes.size(); ++d) call.context().require_equal(first[d], sizes[d]);
  }
  return one(call.context().add(aten::stack::op(), {parts, Expr(call.attr_int("axis"))}));
}

// An attribute that is the number of results. The limit is far above what graphs have, and bounds the memory of an
// import.
int64_t number_of_results(const Call& call, const char* name) {
  constexpr int64_t kMost = 1 << 16;
  const int64_t number = call.attr_int(name);
  if (number < 1 || number > kMost) call.fail(cat("its attribute '", name, "' is from 1 to ", kMost, ", got ", number));
  return number;
}

std::vector<Operand> unpack(const Call& call) {
  const ir::ValueId x = call.value("x");
  const size_t dim = dimension(call, call.attr_int("axis"), call.context().sizes(x).size());
  call.context().require_equal(call.context().sizes(x)[dim], Expr(number_of_results(call, "num")));
  return all(call.context().add_all(aten::unbind_int::op(), {TensorRef{x}, Expr(static_cast<int64_t>(dim))}));
}

std::vector<Operand> split_sizes(const Call& call, std::vector<Expr> sizes, int64_t axis) {
  Context& context = call.context();
  const ir::ValueId x = call.value("x");
  const size_t dim = dimension(call, axis, context.sizes(x).size());
  const Expr whole = context.sizes(x)[dim];
  Expr known(0);
  for (const Expr& size : sizes) known = size.is_int(-1) ? known : known + size;
  for (Expr& size : sizes) size = size.is_int(-1) ? whole - known : size;
  Expr sum(0);
  for (const Expr& size : sizes) sum = sum + size;
  context.require_equal(whole, sum);
  return all(context.add_all(aten::split_with_sizes::op(), {TensorRef{x}, sizes, Expr(static_cast<int64_t>(dim))}));
}

std::vector<Operand> split_v(const Call& call) {
  return split_sizes(call, call.numbers("size_splits").elements, call.integer("split_dim"));
}
std::vector<Operand> split_vd(const Call& call) {
  return split_sizes(call, exprs(call.attr_ints("size_splits")), call.attr_int("split_dim"));
}

std::vector<Operand> split_evenly(const Call& call, int64_t axis) {
  const ir::ValueId x = call.value("x");
  const size_t dim = dimension(call, axis, call.context().sizes(x).size());
  const int64_t parts = number_of_results(call, "num_split");
  const Expr part = Expr::make(ExprOp::kFloorDiv, {call.context().sizes(x)[dim], Expr(parts)});
  return split_sizes(call, std::vector<Expr>(static_cast<size_t>(parts), part), axis);
}
std::vector<Operand> split(const Call& call) { return split_evenly(call, call.integer("split_dim")); }
std::vector<Operand> split_d(const Call& call) { return split_evenly(call, call.attr_int("split_dim")); }

// A bound of a slice, counted from the front and inside of the tensor, as Python does.
Expr clamped(const Expr& bound, const Expr& size) {
  if (const auto constant = bound.as_int()) {
    if (*constant < 0) return Expr::make(ExprOp::kMax, {size + bound, Expr(0)});
    return *constant == 0 ? Expr(0) : Expr::make(ExprOp::kMin, {bound, size});
  }
  return Expr::make(ExprOp::kMin, {bound, size});
}

struct Masks {
  int64_t begin, end, shrink;
  static bool has(int64_t mask, size_t i) { return (mask >> i & 1) != 0; }
};

// Dimension `axes[i]` from begin[i] to end[i]. Dimensions in the shrink mask are left out of the result.
ir::ValueId part_of(const Call& call, ir::ValueId x, const std::vector<int64_t>& axes, const std::vector<Expr>& begin,
                    const std::vector<Expr>& end, const std::vector<int64_t>& strides, Masks masks) {
  Context& context = call.context();
  const size_t rank = context.sizes(x).size();
  if (begin.size() != axes.size() || end.size() != axes.size() || strides.size() != axes.size())
    call.fail("its bounds, strides and axes have different numbers of elements");
  std::vector<size_t> gone;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t dim = dimension(call, axes[i], rank);
    const Expr size = context.sizes(x)[dim];
    if (strides[i] < 1) call.fail(cat("its strides are at least 1, got ", strides[i]));
    const Expr from = Masks::has(masks.begin, i) ? Expr(0) : clamped(begin[i], size);
    if (Masks::has(masks.shrink, i)) {
      gone.push_back(dim);
      x = context.add(aten::slice_Tensor::op(),
                      {TensorRef{x}, Expr(static_cast<int64_t>(dim)), from, from + 1, Expr(1)});
      continue;
    }
    const Expr to = Masks::has(masks.end, i) ? size : clamped(end[i], size);
    if (from.is_int(0) && to == size && strides[i] == 1) continue;
    x = context.add(aten::slice_Tensor::op(),
                    {TensorRef{x}, Expr(static_cast<int64_t>(dim)), from, to, Expr(strides[i])});
  }
  std::ranges::sort(gone, std::greater<>());
  for (const size_t dim : gone)
    x = context.add(aten::select_int::op(), {TensorRef{x}, Expr(static_cast<int64_t>(dim)), Expr(0)});
  return x;
}

std::vector<Operand> strided_slice(const Call& call, const std::vector<int64_t>& axes, const std::vector<Expr>& begin,
                                   const std::vector<Expr>& end, const std::vector<int64_t>& strides, Masks masks) {
  return one(part_of(call, call.value("x"), axes, begin, end, strides, masks));
}

Masks masks_of(const Call& call) {
  if (call.attr_int("ellipsis_mask") != 0 || call.attr_int("new_axis_mask") != 0)
    call.fail("its attributes 'ellipsis_mask' and 'new_axis_mask' have to be 0");
  return {call.attr_int("begin_mask"), call.attr_int("end_mask"), call.attr_int("shrink_axis_mask")};
}

std::vector<int64_t> first_dimensions(size_t count) {
  std::vector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

std::vector<Operand> strided_slice_v1(const Call& call) {
  const std::vector<Expr>& begin = call.numbers("begin").elements;
  return strided_slice(call, first_dimensions(begin.size()), begin, call.numbers("end").elements,
                       call.integers("strides"), masks_of(call));
}

std::vector<Operand> strided_slice_v2(const Call& call) {
  const std::vector<Expr>& begin = call.numbers("begin").elements;
  const auto axes = call.has("axes") ? call.integers("axes") : first_dimensions(begin.size());
  const auto strides = call.has("strides") ? call.integers("strides") : std::vector<int64_t>(begin.size(), 1);
  return strided_slice(call, axes, begin, call.numbers("end").elements, strides, masks_of(call));
}

std::vector<Operand> strided_slice_assign(const Call& call) {
  const std::vector<Expr>& begin = call.numbers("begin").elements;
  const ir::ValueId var = call.context().add(aten::clone::op(), {TensorRef{call.value("var")}});
  const ir::ValueId part = part_of(call, var, first_dimensions(begin.size()), begin, call.numbers("end").elements,
                                   call.integers("strides"), masks_of(call));
  write_part(call, part, call.value("input_value"));
  return one(var);
}

std::vector<Operand> slice(const Call& call) {
  const std::vector<Expr>& begin = call.numbers("offsets").elements;
  std::vector<Expr> end = call.numbers("size").elements;
  if (begin.size() != end.size()) call.fail("its inputs 'offsets' and 'size' have different numbers of elements");
  int64_t to_end = 0;
  for (size_t i = 0; i < end.size(); ++i) {
    if (end[i].is_int(-1)) {
      to_end |= int64_t{1} << i;
    } else {
      end[i] = begin[i] + end[i];
    }
  }
  return strided_slice(call, first_dimensions(begin.size()), begin, end, std::vector<int64_t>(begin.size(), 1),
                       {0, to_end, 0});
}

template <typename Operator>
std::vector<Operand> triangle(const Call& call) {
  return one(call.context().add(Operator::op(), {TensorRef{call.value("x")}, Expr(call.attr_int("diagonal"))}));
}

// The caches of the host fetch by themselves.
std::vector<Operand> prefetch(const Call&) { return {}; }

constexpr auto kLayoutRules = std::to_array<RuleRow>({
    {"AsStrided", as_strided},
    {"Assign", assign},
    {"Bitcast", bitcast},
    {"BroadcastTo", broadcast_to},
    {"Cmo", prefetch},
    {"ConcatD", concatenate_d},
    {"ConcatV2", concatenate_v2},
    {"ConcatV2D", concatenate_d},
    {"Expand", broadcast_to},
    {"ExpandDims", expand_dims},
    {"FlattenV2", flatten},
    {"Identity", identity},
    {"Pack", pack},
    {"Reshape", reshape_rule},
    {"Slice", slice},
    {"Split", split},
    {"SplitD", split_d},
    {"SplitV", split_v},
    {"SplitVD", split_vd},
    {"Squeeze", squeeze},
    {"StridedSlice", strided_slice_v1},
    {"StridedSliceAssign", strided_slice_assign},
    {"StridedSliceV2", strided_slice_v2},
    {"TensorMove", tensor_move},
    {"Tile", tile},
    {"Transpose", transpose},
    {"Tril", triangle<aten::tril>},
    {"Triu", triangle<aten::triu>},
    {"Unpack", unpack},
    {"Unsqueeze", unsqueeze},
    {"ViewCopy", view_copy},
});

}  // namespace

std::span<const RuleRow> layout_rules() { return kLayoutRules; }

}  // namespace npugraph::ge
