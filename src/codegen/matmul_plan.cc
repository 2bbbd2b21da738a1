// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul_plan.h"

#include <algorithm>

#include "codegen/matvec.h"

namespace npugraph::codegen {
namespace {

// The dimension `from_last` from the end of a buffer, as a size and a stride in bytes; ones where it has none.
struct Dimension {
  int64_t size = 1;
  int64_t stride = 0;
};

Dimension dimension(const ng_buffer& buffer, int from_last) {
  const int d = buffer.rank - 1 - from_last;
  if (d < 0) return {};
  const int64_t size = buffer.sizes[d];
  return {size, size == 1 ? 0 : buffer.strides[d] * size_of(static_cast<DType>(buffer.dtype))};
}

bool repeats_to(const Dimension& d, int64_t size) { return d.size == size || d.size == 1; }

// Batch strides of a buffer; false where its sizes do not repeat to those of C.
bool place_batch(const ng_buffer& buffer, const std::vector<int64_t>& sizes, Place& place) {
  const int count = static_cast<int>(sizes.size());
  for (int d = 0; d < count; ++d) {
    const Dimension found = dimension(buffer, 2 + count - 1 - d);
    if (!repeats_to(found, sizes[d])) return false;
    place.batch.push_back(found.stride);
  }
  return buffer.rank <= count + 2;
}

bool place_a_and_b(const MatmulSpec& spec, const ng_call& call, MatmulPlan& plan) {
  const ng_buffer& a = call.buffers[0];
  const ng_buffer& b = call.buffers[1];
  const Dimension a_m = dimension(a, 1), a_k = dimension(a, 0);
  const Dimension b_n = dimension(b, spec.b_is_nk ? 1 : 0), b_k = dimension(b, spec.b_is_nk ? 0 : 1);
  if (a.rank < 2 || b.rank < 2 || a_m.size != plan.m || b_n.size != plan.n || a_k.size != b_k.size) return false;
  plan.k = a_k.size;
  plan.a = {a_m.stride, plan.k == 1 ? size_of(spec.a) : a_k.stride, {}, spec.a};
  plan.b = {b_n.stride, b_k.stride, {}, spec.b};
  // A dimension of one element is contiguous.
  if (plan.k == 1) plan.b.column = size_of(spec.b);
  if (plan.n == 1 && plan.k != 1 && plan.b.column != size_of(spec.b)) plan.b.row = size_of(spec.b);
  return place_batch(a, plan.batch_sizes, plan.a) && place_batch(b, plan.batch_sizes, plan.b);
}

bool place_ends(const MatmulSpec& spec, const ng_call& call, MatmulPlan& plan) {
  const size_t inputs = spec.epilogue.inputs.size();
  for (size_t i = 0; i <= inputs; ++i) {
    const ng_buffer& buffer = call.buffers[2 + i];
    const bool along_columns = i == inputs || spec.epilogue.inputs[i].along_columns;
    const Dimension row = dimension(buffer, 1), column = dimension(buffer, 0);
    const auto dtype = static_cast<DType>(buffer.dtype);
    if (dtype != (i == inputs ? spec.c : spec.epilogue.inputs[i].dtype)) return false;
    if (column.size != (along_columns ? plan.n : 1) || !repeats_to(row, plan.m)) return false;
    if (column.size > 1 && column.stride != size_of(dtype)) return false;
    Place place{row.stride, along_columns ? size_of(dtype) : 0, {}, dtype};
    if (!place_batch(buffer, plan.batch_sizes, place)) return false;
    plan.ends.push_back(std::move(place));
  }
  return true;
}

// Whether `place` steps through batch dimension d as if it were more rows.
bool more_rows(const MatmulPlan& plan, const Place& place, size_t d) {
  return place.batch[d] == place.row * plan.m || plan.batch_sizes[d] == 1;
}

// Moves the inner batch dimensions that B does not have into the rows: [b, s, k] with weights is one product.
void fold_batch_into_rows(MatmulPlan& plan) {
  std::vector<Place*> places{&plan.a};
  for (Place& end : plan.ends) places.push_back(&end);
  while (!plan.batch_sizes.empty()) {
    const size_t d = plan.batch_sizes.size() - 1;
    if (plan.b.batch[d] != 0 && plan.batch_sizes[d] != 1) break;
    if (plan.m == 1) {
      for (Place* place : places) place->row = place->batch[d];
    } else if (!std::all_of(places.begin(), places.end(), [&](Place* p) { return more_rows(plan, *p, d); })) {
      break;
    }
    plan.m *= plan.batch_sizes[d];
    plan.batch_sizes.pop_back();
    plan.b.batch.pop_back();
    for (Place* place : places) place->batch.pop_back();
  }
}

Form choose_form(const MatmulPlan& plan) {
  const bool k_is_dense = plan.b.column == size_of(plan.b.dtype);
  const bool n_is_dense = plan.b.row == size_of(plan.b.dtype);
  static const int mv = getenv("NG_MV_MAX") ? atoi(getenv("NG_MV_MAX")) : 8;
  if (plan.m <= mv && k_is_dense) return Form::kRowsMatvec;
  if (plan.m <= kMostVectors && n_is_dense) return Form::kColumnsMatvec;
  return k_is_dense ? Form::kPackA : Form::kPackB;
}

int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }

// Parts of one size, each at most `most`, a multiple of 16.
int64_t part_of(int64_t whole, int64_t most) {
  if (whole <= most) return std::max<int64_t>(whole, 1);
  return divide_up(divide_up(whole, divide_up(whole, most)), 16) * 16;
}

void choose_blocks(MatmulPlan& plan, const target::Target& target) {
  constexpr int64_t kColumnsOfTiles = 48;  // whole tiles, and whole vectors of C
  switch (plan.form) {
    case Form::kRowsMatvec:
      plan.block_rows = std::max<int64_t>(plan.m, 1);
      plan.block_columns = 16;
      return;
    case Form::kColumnsMatvec:
      plan.block_rows = std::max<int64_t>(plan.m, 1);
      plan.block_columns = 64;
      return;
    case Form::kPackA: {
      plan.block_columns = kColumnsOfTiles;
      const int64_t width = plan.shape.columns();
      const int64_t panels = 128 / width;
      plan.block_steps = part_of(plan.steps, std::max<int64_t>(target.l2_bytes / 2 / (panels * width * 4), 128));
      plan.block_rows = panels * width;
      if (plan.batches * plan.column_blocks() * plan.row_blocks() < 8) plan.block_rows = width;
      return;
    }
    case Form::kPackB:
      plan.block_columns = plan.shape.columns();
      plan.block_steps = part_of(plan.steps, 512);
      plan.block_rows = 42 * plan.shape.rows;
      if (plan.batches * plan.column_blocks() < 8) plan.block_rows = 4 * plan.shape.rows;
      return;
  }
}

}  // namespace

int64_t Place::offset(int64_t batch_index, const std::vector<int64_t>& sizes) const {
  int64_t sum = 0;
  for (size_t d = sizes.size(); d-- > 0;) {
    sum += batch_index % sizes[d] * batch[d];
    batch_index /= sizes[d];
  }
  return sum;
}

int64_t MatmulPlan::dense_a_bytes() const {
  return dense_a ? divide_up(batches * m * steps * 4, 64) * 64 : 0;
}

int64_t MatmulPlan::workspace() const {
  const int64_t packed = form == Form::kPackA ? batches * panels() * panel_bytes() : 0;
  return dense_a_bytes() + packed;
}

std::optional<MatmulPlan> plan_matmul(const MatmulSpec& spec, const target::Target& target, const ng_call& call) {
  const size_t buffers = spec.epilogue.inputs.size() + 3;
  if (call.num_buffers != buffers) return {};
  if (static_cast<DType>(call.buffers[0].dtype) != spec.a || static_cast<DType>(call.buffers[1].dtype) != spec.b)
    return {};
  const ng_buffer& c = call.buffers[buffers - 1];
  if (c.rank < 2) return {};
  MatmulPlan plan;
  plan.batch_sizes.assign(c.sizes, c.sizes + c.rank - 2);
  plan.m = c.sizes[c.rank - 2];
  plan.n = c.sizes[c.rank - 1];
  if (!place_a_and_b(spec, call, plan) || !place_ends(spec, call, plan)) return {};
  fold_batch_into_rows(plan);
  for (const int64_t size : plan.batch_sizes) plan.batches *= size;

  plan.form = choose_form(plan);
  const bool pairs = spec.a == DType::kBF16 && spec.b == DType::kBF16 && target.bf16_dot &&
                     plan.form != Form::kColumnsMatvec;
  plan.kind = pairs ? TileKind::kBf16Pairs : TileKind::kF32;
  plan.shape = tile_shape(target, false);
  plan.steps = pairs ? divide_up(plan.k, 2) : plan.k;
  // The last pair of an odd row lies half outside of it.
  const bool odd = pairs && plan.k % 2 != 0;
  const bool tiles = plan.form == Form::kPackA || plan.form == Form::kPackB;
  plan.dense_a = plan.a.column != size_of(spec.a) || spec.a != plan.multiplied() || (tiles && odd);
  plan.stage_b = spec.b != plan.multiplied() || odd;
  choose_blocks(plan, target);
  return plan;
}

}  // namespace npugraph::codegen
