// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/plan.h"

#include <algorithm>

#include "codegen/matmul/copy.h"
#include "codegen/matmul/tuned.h"
#include "codegen/task/work_items.h"
#include "loop/slices.h"

namespace npugraph::codegen {
namespace {

// Fraction of the cost of a plan below which another plan is taken instead. Costs are rough, so small gains do not
// count.
constexpr double kLeastGain = 0.97;

// The dimension `from_last` from the end of a buffer, as a size and a stride in bytes; size 1 if there is none.
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

// The batch of A and B together, each of which may lack dimensions or repeat along them.
bool find_batch(const ng_buffer& a, const ng_buffer& b, MatmulPlan& plan) {
  for (int from_last = std::max(a.rank, b.rank) - 1; from_last >= 2; --from_last) {
    const int64_t of_a = dimension(a, from_last).size, of_b = dimension(b, from_last).size;
    if (of_a != of_b && of_a != 1 && of_b != 1) return false;
    plan.batch_sizes.push_back(of_a == 1 ? of_b : of_a);
  }
  return true;
}

std::vector<int64_t> batch_strides(const ng_buffer& buffer, const MatmulPlan& plan) {
  std::vector<int64_t> strides;
  for (size_t d = plan.batch_sizes.size(); d-- > 0;)
    strides.push_back(dimension(buffer, static_cast<int>(d) + 2).stride);
  return strides;
}

// A matrix [n, k] whose rows a kernel computes, far enough apart for a cache.
class ComputedMatrix {
 public:
  // Nullopt if slices of the kernel do not divide rows of k elements.
  static std::optional<ComputedMatrix> find(const MatmulSpec& spec, int64_t k) {
    const auto slices = loop::find_slices(*spec.factor);
    if (!slices || k == 0 || k % slices->each != 0 || slices->elements() % k != 0) return {};
    const int64_t size = size_of(spec.b), row = MatmulPlan::row_bytes(round_up(k * size, kCutBytes) / 4);
    return ComputedMatrix{slices->elements() / k, k, row / size, *slices};
  }
  ng_buffer buffer(DType dtype) const { return {nullptr, nullptr, sizes_, strides_, 2, static_cast<int32_t>(dtype)}; }
  int64_t slices_of_row() const { return sizes_[1] / slices_.each; }
  size_t result() const { return slices_.result; }
  int64_t row_bytes(DType dtype) const { return strides_[0] * size_of(dtype); }

 private:
  ComputedMatrix(int64_t n, int64_t k, int64_t to_next, const loop::Slices& slices)
      : sizes_{n, k}, strides_{to_next, 1}, slices_(slices) {}
  int64_t sizes_[2], strides_[2];
  loop::Slices slices_;
};

bool place_factors(const MatmulSpec& spec, const ng_buffer& a, const ng_buffer& b, MatmulPlan& plan) {
  if (a.rank < 2 || b.rank < 2 || static_cast<DType>(a.dtype) != spec.a || static_cast<DType>(b.dtype) != spec.b)
    return false;
  const Dimension a_m = dimension(a, 1), a_k = dimension(a, 0);
  const Dimension b_n = dimension(b, spec.b_is_nk ? 1 : 0), b_k = dimension(b, spec.b_is_nk ? 0 : 1);
  if (a_k.size != b_k.size || !find_batch(a, b, plan)) return false;
  plan.m = a_m.size;
  plan.n = b_n.size;
  plan.k = a_k.size;
  plan.a = {a_m.stride, plan.k == 1 ? size_of(spec.a) : a_k.stride, batch_strides(a, plan), spec.a};
  plan.b = {b_n.stride, b_k.stride, batch_strides(b, plan), spec.b};
  // A dimension of one element is contiguous.
  if (plan.k == 1) plan.b.column = size_of(spec.b);
  if (plan.n == 1 && plan.k != 1 && plan.b.column != size_of(spec.b)) plan.b.row = size_of(spec.b);
  return true;
}

bool place_a_and_b(const MatmulSpec& spec, const ng_call& call, MatmulPlan& plan) {
  const ng_buffer& a = call.buffers[0];
  if (!spec.factor) return place_factors(spec, a, call.buffers[plan.first_buffer], plan);
  const auto b = ComputedMatrix::find(spec, dimension(a, 0).size);
  if (!b) return false;
  if (!place_factors(spec, a, b->buffer(spec.b), plan)) return false;
  plan.slices_of_row = b->slices_of_row();
  plan.result_of_slices = b->result();
  plan.b.row = b->row_bytes(spec.b);
  return true;
}

// Sets the place of C, for specs without an epilogue.
bool place_c(const MatmulSpec& spec, const ng_buffer& c, MatmulPlan& plan) {
  const int batch = static_cast<int>(plan.batch_sizes.size());
  if (c.rank != batch + 2 || static_cast<DType>(c.dtype) != spec.c) return false;
  for (int d = 0; d < batch; ++d) {
    if (c.sizes[d] != plan.batch_sizes[d]) return false;
  }
  const Dimension row = dimension(c, 1), column = dimension(c, 0);
  if (row.size != plan.m || column.size != plan.n) return false;
  if (column.size > 1 && column.stride != size_of(spec.c)) return false;
  plan.c = {row.stride, size_of(spec.c), batch_strides(c, plan), spec.c};
  return true;
}

// Whether A is dense rows, matrix after matrix, that are not read after this task.
bool dies(const ng_buffer& a, const MatmulPlan& plan) {
  if ((a.flags & NG_BUFFER_DIES) == 0 || plan.a.column != size_of(plan.a.dtype)) return false;
  int64_t bytes = plan.k * plan.a.column;
  if (plan.a.row != bytes && plan.m != 1) return false;
  bytes *= plan.m;
  for (size_t d = plan.batch_sizes.size(); d-- > 0; bytes *= plan.batch_sizes[d]) {
    if (plan.a.batch[d] != bytes && plan.batch_sizes[d] != 1) return false;
  }
  return true;
}

// Moves the inner batch dimensions that B does not have into the rows: [b, s, k] with weights is one product. The
// numbers of rows do not change.
void fold_batch_into_rows(MatmulPlan& plan, bool has_c) {
  while (!plan.batch_sizes.empty()) {
    const int64_t size = plan.batch_sizes.back();
    if (plan.b.batch.back() != 0 && size != 1) return;
    const auto more_rows = [&](const MatrixPlace& place) {
      return size == 1 || plan.m == 1 || place.batch.back() == place.row * plan.m;
    };
    if (!more_rows(plan.a) || (has_c && !more_rows(plan.c))) return;
    for (MatrixPlace* place : {&plan.a, &plan.c}) {
      if (plan.m == 1 && size != 1 && !place->batch.empty()) place->row = place->batch.back();
      if (!place->batch.empty()) place->batch.pop_back();
    }
    plan.b.batch.pop_back();
    plan.batch_sizes.pop_back();
    plan.m *= size;
  }
}

size_t buffers_of_b(const MatmulSpec& spec) { return spec.factor ? spec.factor->buffers.size() - 1 : 1; }
size_t buffers_behind_b(const MatmulSpec& spec) {
  // The first buffer of an epilogue is the sums, which are not a buffer of the task.
  return spec.epilogue ? spec.epilogue->buffers.size() - 1 : 1;
}

// Whether panels can replace the rows of A: they have as many bytes as these, are aligned for vectors, and are whole
// squares.
bool fits_in_place(const MatmulPlan& plan) {
  const int64_t columns = plan.shape.columns(), beyond = plan.tile_rows % columns;
  return plan.form == Form::kPackA && !plan.dense_a && plan.k % plan.elements_of_step() == 0 &&
         (beyond == 0 || beyond == plan.shape.lanes) && (plan.batches == 1 || plan.m * plan.k % 64 == 0) &&
         plan.steps % columns == 0 && plan.steps <= kMostPieces && columns * 4 <= kMostPieceBytes;
}

// Returns nullopt if the buffer has no such rows.
std::optional<EndRows> end_rows_of(size_t number, const ng_buffer& buffer, const MatmulPlan& plan) {
  const int last = buffer.rank - 1;
  if (last < 1 || buffer.sizes[last] != plan.n || buffer.strides[last] != 1) return {};
  const int64_t stride = buffer.strides[last - 1], element = size_of(static_cast<DType>(buffer.dtype));
  int64_t rows = 1;
  for (int d = last - 1; d >= 0; rows *= buffer.sizes[d--]) {
    if (buffer.strides[d] != stride * rows && buffer.sizes[d] != 1) return {};
  }
  if (rows != plan.batches * plan.m) return {};
  return EndRows{number, stride * element, element};
}

// Completes a plan whose numbers of buffers are set.
bool plan_matmul(const MatmulSpec& spec, const target::Target& target, const ng_call& call, MatmulPlan& plan) {
  if (!place_a_and_b(spec, call, plan)) return false;
  const bool has_c = !spec.epilogue.has_value();
  if (has_c && !place_c(spec, call.buffers[plan.first_end], plan)) return false;
  const bool a_dies = dies(call.buffers[0], plan);
  fold_batch_into_rows(plan, has_c);
  for (const int64_t size : plan.batch_sizes) plan.batches *= size;
  if (!complete(plan, target, spec.blocks)) return false;
  plan.in_place = a_dies && fits_in_place(plan);
  for (size_t i = plan.first_end; plan.has_tiles() && i < plan.end_buffer; ++i) {
    if (const auto rows = end_rows_of(i, call.buffers[i], plan)) plan.end_rows.push_back(*rows);
  }
  return !sums_integers(plan.kind) || plan.form == Form::kRowsMatvec || plan.form == Form::kPackA;
}

// Whether the products of each sum are added in the same order: by tiles one after the other, in other blocks as well.
bool has_same_order(const MatmulPlan& x, const MatmulPlan& y) { return x.form == y.form && x.tile_rows == y.tile_rows; }

bool uses_same_a(const MatmulPlan& x, const MatmulPlan& y) {
  return x.form == y.form && x.kind == y.kind && x.dense_a == y.dense_a && x.cuts_a == y.cuts_a &&
         x.in_place == y.in_place && x.m == y.m && x.tile_rows == y.tile_rows && x.batch_sizes == y.batch_sizes;
}

bool has_same_items(const MatmulPlan& x, const MatmulPlan& y) {
  return x.blocks() == y.blocks() && x.n == y.n && x.rows_last == y.rows_last;
}

// The choice of a product among candidates with the order of `best`, if there is one: the plan that it gets without.
std::optional<MatmulBlocks> choose_tuned(TunedProducts& products, const MatmulPlan& product,
                                         const std::vector<MatmulPlan>& candidates, const MatmulPlan& best) {
  const std::string key = key_of(product);
  std::optional<MatmulBlocks> chosen = products.find(key);
  std::vector<MatmulBlocks> usable;
  for (const MatmulPlan& plan : candidates) {
    if (has_same_order(plan, best)) usable.push_back(plan.blocks());
  }
  if (chosen && std::ranges::find(usable, *chosen) == usable.end()) chosen.reset();
  PlannedProduct planned{.key = key, .blocks = {chosen ? *chosen : best.blocks()}, .tuned = chosen.has_value()};
  std::ranges::copy_if(usable, std::back_inserter(planned.blocks),
                       [&](const MatmulBlocks& blocks) { return blocks != planned.blocks.front(); });
  products.note(std::move(planned));
  return chosen;
}

}  // namespace

int64_t MatrixPlace::offset(int64_t batch_index, const std::vector<int64_t>& sizes) const {
  int64_t sum = 0;
  for (size_t d = sizes.size(); d-- > 0;) {
    sum += batch_index % sizes[d] * batch[d];
    batch_index /= sizes[d];
  }
  return sum;
}

int64_t MatmulPlan::row_bytes(int64_t steps) {
  const int64_t bytes = steps * 4;
  return bytes % 1024 == 0 ? bytes + kCutBytes : bytes;
}

int64_t MatmulPlan::dense_batch_bytes() const {
  return cuts_a ? round_up(m, shape.rows) * round_up(steps, kCutSteps) * 4 : m * dense_row_bytes();
}

int64_t MatmulPlan::dense_a_bytes() const { return dense_a ? round_up(batches * dense_batch_bytes(), 64) : 0; }

int64_t MatmulPlan::starts_bytes() const { return has_starts() ? divide_up(batches * m * 4, 64) * 64 : 0; }

bool MatmulPlan::has_starts() const {
  const bool by_amx = shape.amx && has_tiles() && last_rows() == 0;
  return kind == TileKind::kI8Quads && !by_amx;
}

int64_t MatmulPlan::workspace_before_b() const {
  const int64_t packed = form == Form::kPackA && !in_place ? batches * panels_bytes() : 0;
  return round_up(dense_a_bytes() + starts_bytes() + packed, 64);
}

int64_t MatmulPlan::workspace() const {
  return workspace_before_b() + (computes_b() ? most_slots() * computed_bytes() : 0);
}

int64_t MatmulPlans::workspace() const {
  int64_t most = 0;
  for (const MatmulPlan& plan : plans) most = std::max(most, plan.workspace());
  return most;
}

std::optional<MatmulPlans> plan_matmuls(const std::vector<MatmulSpec>& specs, const target::Target& target,
                                        const ng_call& call, Order order) {
  MatmulPlans made{.plans = {}, .order = order};
  size_t buffer = 1, scalar = 0;
  for (const MatmulSpec& spec : specs) {
    MatmulPlan plan;
    plan.first_buffer = buffer;
    plan.first_end = buffer + buffers_of_b(spec);
    plan.end_buffer = plan.first_end + buffers_behind_b(spec);
    plan.first_scalar = scalar;
    if (call.num_buffers < plan.end_buffer || !plan_matmul(spec, target, call, plan)) return {};
    buffer = plan.end_buffer;
    if (spec.epilogue) scalar += spec.epilogue->scalars.size();
    made.plans.push_back(std::move(plan));
    const MatmulPlan &x = made.plans.front(), &y = made.plans.back();
    made.as_one = made.as_one && uses_same_a(x, y) && (order == Order::kApart || has_same_items(x, y));
  }
  if (call.num_buffers != buffer) return {};
  // If each product packs A for itself, no panels may replace A.
  for (MatmulPlan& plan : made.plans) plan.in_place = plan.in_place && (made.as_one || made.plans.size() == 1);
  return made;
}

bool complete(MatmulPlan& plan, const target::Target& target, const std::optional<MatmulBlocks>& blocks) {
  const std::vector<MatmulPlan> candidates = candidates_of(plan, target);
  const auto among = [&](const auto& fits, const auto& cost) {
    const MatmulPlan* best = nullptr;
    double least = 0;
    for (const MatmulPlan& candidate : candidates) {
      if (!fits(candidate)) continue;
      const double found = cost(candidate, target);
      if (best != nullptr && found > least * kLeastGain) continue;
      best = &candidate;
      least = found;
    }
    return best;
  };
  const auto with = [&](const MatmulBlocks& given) {
    return [&](const MatmulPlan& candidate) { return candidate.blocks() == given; };
  };
  const MatmulPlan* best = nullptr;
  std::optional<MatmulBlocks> tuned;
  if (blocks) {
    best = among(with(*blocks), cost_of);
  } else if (const MatmulPlan* order = among([](const MatmulPlan&) { return true; }, cost_of_sums)) {
    best = among([&](const MatmulPlan& candidate) { return has_same_order(candidate, *order); }, cost_of);
    if (TunedProducts& products = TunedProducts::instance(); products.is_in_use())
      tuned = choose_tuned(products, plan, candidates, *best);
    if (tuned) best = among(with(*tuned), cost_of);
  }
  if (best != nullptr) plan = MatmulPlan(*best);
  plan.tuned = tuned.has_value();
  return best != nullptr;
}

}  // namespace npugraph::codegen
