// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/packed_attention.h"

#include "device/npu_ops/attention/attention_layout.h"
#include "device/npu_ops/attention/attention_mask.h"
#include "device/npu_ops/attention/varlen_call.h"

namespace npugraph::npu_ops {
namespace {

// Position and size of one sequence.
struct SequencePlace {
  int64_t index, first_row, rows, columns;
};

// The part of the mask for one sequence, [1, heads or 1, rows, columns]; undefined if the mask is
// smaller than the sequence.
Tensor rows_of_mask(const PackedMask& given, const SequencePlace& place, int64_t all_rows) {
  const Tensor& mask = given.mask;
  const Tensor all = mask.dim() == 2 ? mask.unsqueeze(0) : mask;
  const Tensor one = all.select(0, all.size(0) == 1 ? 0 : place.index);
  const bool is_packed = !given.by_position && mask.size(-2) == all_rows;
  const int64_t first = is_packed ? place.first_row : place.columns - place.rows;
  if (one.size(-1) < place.columns || one.size(-2) < first + place.rows) return {};
  const Tensor rows = one.narrow(-2, first, place.rows).narrow(-1, 0, place.columns);
  return rows.dim() == 2 ? rows.unsqueeze(0).unsqueeze(0) : rows.unsqueeze(0);
}

Tensor after_position(const Tensor& like, const SequencePlace& place) {
  return dropped_by("", {.sparse_mode = 3}, Tensor(), like, place.rows, place.columns);
}

Tensor distances(const Tensor& slopes, const SequencePlace& place) {
  const auto options = slopes.options().dtype(at::kFloat);
  const Tensor row = at::arange(place.columns - place.rows, place.columns, options).unsqueeze(1);
  return wide(slopes).view({1, -1, 1, 1}) * (at::arange(place.columns, options) - row);
}

Weighting weighting(const PackedCall& call, const SequencePlace& place) {
  const PackedMask& given = call.mask;
  Weighting out{.scale = call.scale};
  if (given.slopes.defined()) {  // a mask is a sample of the same distances, or of the triangle
    out.bias = distances(given.slopes, place);
    out.dropped = after_position(call.query, place);
    return out;
  }
  const Tensor mask = given.mask.defined() ? rows_of_mask(given, place, call.query.size(2)) : Tensor();
  if (given.causal || (given.mask.defined() && !mask.defined())) {
    out.dropped = after_position(call.query, place);
  } else if (mask.defined()) {
    out.dropped = mask.gt(0);
    if (mask.is_floating_point()) out.bias = mask.clamp_max(0);
  }
  return out;
}

// Nothing if rows of a mask or ALiBi decide which keys a query sees, or generated code does not compute such a call.
std::optional<Attention> attend_generated(const PackedCall& call, const Sequences& queries, bool wants_lse) {
  if (call.mask.slopes.defined() || call.mask.mask.defined()) return std::nullopt;
  return attend_varlen({.query = call.query,
                        .query_rope = {},
                        .queries = queries,
                        .key = call.key,
                        .value = call.value,
                        .key_rope = call.key_rope ? &*call.key_rope : nullptr,
                        .keys = call.keys,
                        .before = std::nullopt,
                        .after = call.mask.causal ? std::make_optional<int64_t>(0) : std::nullopt,
                        .scale = call.scale,
                        .wants_lse = wants_lse});
}

}  // namespace

PackedResult attend_packed(const char* op, const PackedCall& call, bool wants_lse) {
  const Sequences queries = Sequences::packed(call.query_lengths);
  TORCH_CHECK(call.query_lengths.size() == call.keys.lengths.size(), op, ": there are ", call.query_lengths.size(),
              " sequences of queries and ", call.keys.lengths.size(), " of keys");
  if (const auto all = attend_generated(call, queries, wants_lse))
    return {from_heads(all->result, Axes::kTND), wants_lse ? from_heads(all->max, Axes::kTND) : Tensor()};
  std::vector<Tensor> results, lses;
  int64_t first_row = 0;
  for (int64_t index = 0; index < queries.count(); ++index) {
    const SequencePlace place{index, first_row, queries.length(index), call.keys.lengths[index]};
    first_row += place.rows;
    const Tensor query = queries.part(call.query, index);
    Tensor key = call.keys.of(call.key, index).to(query.scalar_type());
    if (call.key_rope) key = at::cat({key, call.keys.of(*call.key_rope, index).to(query.scalar_type())}, -1);
    const Tensor value = call.keys.of(call.value, index).to(query.scalar_type());
    check_heads(op, query, key, value);
    const Weighting how = weighting(call, place);
    const Attention one = wants_lse ? attend_with_statistics(query, key, value, how)
                                    : Attention{.result = attend(query, key, value, how)};
    results.push_back(one.result);
    if (wants_lse) lses.push_back(one.lse());
  }
  const auto joined = [&](const std::vector<Tensor>& parts) {
    return from_heads(queries.join(parts, call.query.size(2)), Axes::kTND);
  };
  return {joined(results), wants_lse ? joined(lses) : Tensor()};
}

}  // namespace npugraph::npu_ops
