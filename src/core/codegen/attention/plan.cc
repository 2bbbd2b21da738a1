// SPDX-License-Identifier: Apache-2.0
#include "codegen/attention/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "codegen/matmul/matvec.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {
namespace {

constexpr int64_t kEnoughItems = 8;  // for a few threads that take them by turns
constexpr int64_t kBlockKeys = 96;

using Sizes = std::array<int64_t, 4>;

// The sizes of a buffer, with ones in front of them, and its place. A dimension of one element has stride 0.
struct Shape {
  Sizes sizes{1, 1, 1, 1};
  HeadsPlace place;
};

Shape shape_of(const ng_buffer& buffer) {
  Shape shape;
  shape.place.dtype = static_cast<DType>(buffer.dtype);
  for (int d = 0; d < buffer.rank; ++d) {
    const int at = d + 4 - buffer.rank;
    shape.sizes[at] = buffer.sizes[d];
    shape.place.strides[at] = buffer.sizes[d] == 1 ? 0 : buffer.strides[d] * size_of(shape.place.dtype);
  }
  // A last dimension of one element is contiguous.
  if (shape.sizes[3] == 1) shape.place.strides[3] = size_of(shape.place.dtype);
  return shape;
}

bool is_element(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

bool place_mask(const ng_buffer& buffer, AttentionPlan& plan) {
  if (buffer.rank < 2 || buffer.rank > 4) return false;
  const Shape mask = shape_of(buffer);
  const DType dtype = mask.place.dtype;
  if (!is_element(dtype) && dtype != DType::kBool) return false;
  const Sizes scores{plan.batches, plan.heads * plan.group, plan.queries, plan.keys};
  plan.mask = mask.place;
  for (int d = 0; d < 4; ++d) {
    if (mask.sizes[d] != scores[d] && mask.sizes[d] != 1) return false;
    if (mask.sizes[d] == 1) plan.mask.strides[d] = 0;
  }
  return true;
}

bool is_position(const ng_buffer& buffer) {
  bool one = buffer.dtype == NG_I64;
  for (int d = 0; d < buffer.rank; ++d) one = one && buffer.sizes[d] == 1;
  return one;
}

bool place_operands(const loop::Attention& attention, DType dtype, const ng_call& call, AttentionPlan& plan) {
  for (uint32_t i = 0; i < 3; ++i) {
    const ng_buffer& buffer = call.buffers[i];
    if (buffer.rank != call.buffers[0].rank || static_cast<DType>(buffer.dtype) != dtype) return false;
  }
  const int rank = call.buffers[0].rank;
  if (rank < 3 || rank > 4) return false;
  const Shape q = shape_of(call.buffers[0]), k = shape_of(call.buffers[1]), v = shape_of(call.buffers[2]);
  plan.batches = q.sizes[0];
  plan.heads = k.sizes[1];
  if (plan.heads == 0 ? q.sizes[1] != 0 : q.sizes[1] % plan.heads != 0) return false;
  if (plan.heads != 0) plan.group = q.sizes[1] / plan.heads;
  plan.queries = q.sizes[2];
  plan.keys = k.sizes[2];
  plan.key_size = q.sizes[3];
  plan.value_size = v.sizes[3];
  if (k.sizes != Sizes{plan.batches, plan.heads, plan.keys, plan.key_size}) return false;
  if (v.sizes != Sizes{plan.batches, plan.heads, plan.keys, plan.value_size}) return false;
  plan.q = q.place;
  plan.k = k.place;
  plan.v = v.place;
  if (attention.mask && !place_mask(call.buffers[3], plan)) return false;
  return attention.position != loop::AttentionPosition::kGiven || is_position(call.buffers[attention.mask ? 4 : 3]);
}

bool place_results(const loop::Attention& attention, DType dtype, const ng_call& call, AttentionPlan& plan) {
  const ng_buffer* next = call.buffers + number_of_buffers(attention) - (attention.logsumexp ? 2 : 1);
  const Shape out = shape_of(*next);
  const Sizes wanted{plan.batches, plan.heads * plan.group, plan.queries, plan.value_size};
  if (out.sizes != wanted || out.place.dtype != dtype || !out.place.is_dense()) return false;
  plan.out = out.place;
  if (!attention.logsumexp) return true;
  // Shaped like the result without its last dimension.
  ++next;
  if (static_cast<DType>(next->dtype) != DType::kF32 || next->rank != (next - 1)->rank - 1) return false;
  for (int d = 0; d < next->rank; ++d) {
    const int at = d + 4 - (next->rank + 1);
    if (next->sizes[d] != wanted[at]) return false;
    plan.logsumexp.strides[at] = next->strides[d] * 4;
  }
  return true;
}

// Keys of each of some chunks of equal size, a multiple of 16. A chunk has at most `most` keys; there are more chunks
// if there would be too few work items, but then with at least `least` keys.
int64_t equal_chunks(int64_t keys, int64_t blocks, int64_t most, int64_t least) {
  const int64_t for_items = std::min(divide_up(kEnoughItems, std::max<int64_t>(blocks, 1)), keys / least);
  const int64_t chunks = std::max<int64_t>({divide_up(keys, most), for_items, 1});
  return std::max<int64_t>(round_up(divide_up(keys, chunks), 16), 16);
}

void choose_chunks(AttentionPlan& plan, int64_t most, int64_t least) {
  plan.chunk_keys = equal_chunks(plan.keys, plan.blocks() + plan.beside, most, least);
  plan.chunks = std::max<int64_t>(divide_up(plan.keys, plan.chunk_keys), 1);
  plan.least_keys = least;
}

void choose_blocks(AttentionPlan& plan) {
  if (plan.by_rows) {
    plan.block_rows = std::max<int64_t>(plan.rows(), 1);
    choose_chunks(plan, 512, 48);
    plan.block_keys = plan.chunk_keys;
    return;
  }
  const int64_t width = plan.shape.columns();
  plan.block_keys = kBlockKeys;
  // Blocks end where pages end, so they are made equal.
  if (plan.page_keys > 0) {
    const int64_t blocks = divide_up(plan.page_keys, kBlockKeys);
    plan.block_keys = divide_up(plan.page_keys, blocks);
  }
  plan.block_rows = kMostPanels * width;
  while (plan.block_rows > width && plan.blocks() + plan.beside < kEnoughItems) plan.block_rows /= 2;
  choose_chunks(plan, plan.keys + 1, 1024);
}

// The lines in each set of the L2 cache, and the bytes of a line.
constexpr int64_t kWays = 16, kLine = 64;

// Lines of an L2 cache of `bytes` bytes that rows of `length` bytes can occupy at a time, if each begins `apart`
// bytes behind the previous one.
int64_t usable_lines(int64_t bytes, int64_t apart, int64_t length) {
  const int64_t sets = std::max<int64_t>(bytes / kLine / kWays, 1);
  const int64_t starts = sets / std::gcd(std::max<int64_t>(apart / kLine, 1), sets);
  return std::min(starts * divide_up(length, kLine), sets) * kWays;
}

HeadsPlace dense_place(const AttentionPlan& plan, DType dtype, int64_t size) {
  const int64_t row = size * size_of(dtype);
  return {{plan.heads * plan.keys * row, plan.keys * row, row, size_of(dtype)}, dtype};
}

// Decides whether keys and values are copied. Blocks of rows read all keys and values of a head one after the other, so
// these should stay in the L2 cache.
void choose_copies(AttentionPlan& plan, const target::Target& target) {
  constexpr int64_t kLeastBlocks = 4;
  if (plan.in_place || plan.by_rows || plan.row_blocks() < kLeastBlocks || !plan.k.is_dense() || !plan.v.is_dense())
    return;
  const HeadsPlace k = dense_place(plan, plan.k.dtype, plan.key_size);
  const HeadsPlace v = dense_place(plan, plan.v.dtype, plan.value_size);
  const int64_t lines = plan.keys * (divide_up(k.row(), kLine) + divide_up(v.row(), kLine));
  const int64_t usable = std::min(usable_lines(target.l2_bytes, plan.k.row(), k.row()),
                                  usable_lines(target.l2_bytes, plan.v.row(), v.row()));
  const bool stand_apart = plan.k.row() > k.row() || plan.v.row() > v.row();
  if (!stand_apart || lines <= usable) return;
  plan.given_k = plan.k;
  plan.given_v = plan.v;
  plan.k = k;
  plan.v = v;
}

}  // namespace

int64_t AttentionPlan::keys_of_chunk(int64_t seen) const {
  return std::max(equal_chunks(seen, blocks() + beside, chunk_keys, least_keys), round_up(divide_up(seen, chunks), 16));
}

size_t number_of_buffers(const loop::Attention& attention) {
  const bool given = attention.position == loop::AttentionPosition::kGiven;
  return size_t{4} + (attention.mask ? 1 : 0) + (given ? 1 : 0) + (attention.logsumexp ? 1 : 0);
}

void complete_plan(const loop::Attention& attention, DType dtype, const target::Target& target, AttentionPlan& plan) {
  plan.before = attention.before;
  plan.after = attention.after;
  plan.position = attention.position;
  plan.masked = attention.mask;
  plan.with_logsumexp = attention.logsumexp;
  if (attention.empty_is_nan && plan.keys > 0) plan.of_empty = std::numeric_limits<float>::quiet_NaN();
  const double size = static_cast<double>(std::max<int64_t>(plan.key_size, 1));
  plan.scale = static_cast<float>(attention.scale.value_or(1 / std::sqrt(size)));
  plan.by_rows = plan.rows() <= kMostVectors;
  plan.pairs = dtype == DType::kBF16 && target.bf16_dot;
  plan.shape = tile_shape(target, plan.kind());
  plan.value_rows = tile_shape(target, TileKind::kF32).rows;
  choose_blocks(plan);
  choose_copies(plan, target);
  if (plan.items() == 0) return;
  plan.item_bytes = plan.by_rows ? bytes_of_rows(plan) : bytes_of_panels(plan);
  plan.slots = static_cast<int>(std::min<int64_t>(plan.items(), most_slots()));
}

std::optional<AttentionPlan> plan_attention(const loop::Attention& attention, DType dtype, const target::Target& target,
                                            const ng_call& call) {
  if (call.num_buffers != number_of_buffers(attention)) return {};
  AttentionPlan plan;
  if (!place_operands(attention, dtype, call, plan) || !place_results(attention, dtype, call, plan)) return {};
  complete_plan(attention, dtype, target, plan);
  return plan;
}

}  // namespace npugraph::codegen
