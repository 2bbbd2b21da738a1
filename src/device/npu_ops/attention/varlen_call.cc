// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/varlen_call.h"

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>

#include "backend/own_kernels/eager_task.h"
#include "codegen/attention/attention.h"

namespace npugraph::npu_ops {
namespace {

using codegen::HeadsPlace;

// [batches or pages, heads, rows, size]; undefined where rows do not lie one after another.
Tensor with_heads(const StoredRows& rows) {
  const Tensor& stored = rows.stored();
  if (!rows.form()) return stored;
  switch (*rows.form()) {
    case PageForm::kBnBsND: return stored.transpose(1, 2);
    case PageForm::kBnBsH: return stored.unflatten(2, {rows.heads().expect_int(), -1}).transpose(1, 2);
    case PageForm::kBnNBsD: return stored;
    default: return {};
  }
}

HeadsPlace heads_place_of(const Tensor& tensor, DType dtype) {
  const int64_t size = tensor.element_size();
  return {{tensor.stride(0) * size, tensor.stride(1) * size, tensor.stride(2) * size, size}, dtype};
}

// Keys and values, [batches or pages, heads, rows, size], and the place of each sequence.
struct StoredOperands {
  Tensor key, value;
  Tensor table;  // int32, [sequences, pages]; undefined where rows do not lie in pages
  std::optional<Sequences> sequences;
};

// The table, if it names an existing page for each key.
Tensor checked_table(const KeyRows& keys, const Tensor& pages) {
  const auto count = static_cast<int64_t>(keys.lengths.size());
  if (keys.table.dim() != 2 || keys.table.size(0) < count) return {};
  const Tensor table = keys.table.to(at::kInt).contiguous();
  const int64_t page_rows = pages.size(2);
  for (int64_t index = 0; index < count; ++index) {
    const int64_t needed = (keys.lengths[index] + page_rows - 1) / page_rows;
    if (keys.lengths[index] < 0 || needed > table.size(1)) return {};
    const int32_t* names = table.const_data_ptr<int32_t>() + index * table.size(1);
    for (int64_t i = 0; i < needed; ++i)
      if (names[i] < 0 || names[i] >= pages.size(0)) return {};
  }
  return table;
}

struct PageSource {
  Tensor pages;  // [pages, heads, rows, size]
  int64_t column = 0;
};

// The rows of all sequences, one after another, with the elements of all `sources`: [1, heads, rows, size].
Tensor gathered(const std::vector<PageSource>& sources, const Tensor& table, const std::vector<int64_t>& lengths) {
  const Tensor& first = sources.front().pages;
  const int64_t heads = first.size(1), page_rows = first.size(2);
  const int64_t size = sources.back().column + sources.back().pages.size(3);
  const int64_t rows = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const Tensor out = at::empty({1, rows, heads, size}, first.options()).transpose(1, 2);
  std::vector<std::pair<int64_t, int64_t>> places;  // sequence and position of each row
  for (size_t s = 0; s < lengths.size(); ++s)
    for (int64_t i = 0; i < lengths[s]; ++i) places.emplace_back(s, i);
  const int64_t bytes = first.element_size();
  at::parallel_for(0, rows, /*grain_size=*/64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto [sequence, position] = places[row];
      const int32_t page = table.const_data_ptr<int32_t>()[sequence * table.size(1) + position / page_rows];
      for (const auto& [pages, column] : sources) {
        for (int64_t head = 0; head < heads; ++head) {
          const int64_t from = page * pages.stride(0) + head * pages.stride(1) + position % page_rows * pages.stride(2);
          const int64_t to = head * out.stride(1) + row * out.stride(2) + column;
          std::memcpy(static_cast<char*>(out.data_ptr()) + to * bytes,
                      static_cast<const char*>(pages.const_data_ptr()) + from * bytes, pages.size(3) * bytes);
        }
      }
    }
  });
  return out;
}

// Whether there are heads of rows, and the elements of a row lie one after another.
bool are_rows_dense(const Tensor& tensor) {
  return tensor.size(1) > 0 && tensor.size(2) > 0 && tensor.size(3) > 0 && tensor.stride(3) == 1;
}

// Keys with further elements are gathered, because generated code reads each key from one place.
void join_rope(const VarlenCall& call, StoredOperands& stored) {
  const Tensor rope = with_heads(*call.key_rope);
  if (!stored.table.defined()) {
    stored.key = at::cat({stored.key, rope}, -1);
    return;
  }
  const std::vector<PageSource> key{{stored.key}, {rope, stored.key.size(3)}};
  // Values of latent attention are the first elements of keys.
  const bool shared = stored.value.is_same_size(stored.key) && stored.value.strides() == stored.key.strides() &&
                      stored.value.const_data_ptr() == stored.key.const_data_ptr();
  const int64_t value_size = stored.value.size(3);
  stored.key = gathered(key, stored.table, call.keys.lengths);
  stored.value =
      shared ? stored.key.narrow(3, 0, value_size) : gathered({{stored.value}}, stored.table, call.keys.lengths);
  stored.table = Tensor();
  stored.sequences = Sequences::packed(call.keys.lengths);
}

bool contains_sequences(const Tensor& tensor, const Sequences& sequences) {
  for (int64_t i = 0; i < sequences.count(); ++i)
    if (sequences.batch(i) >= tensor.size(0) || sequences.start(i) + sequences.length(i) > tensor.size(2)) return false;
  return true;
}

// Whether keys are stored as numbers of the type of queries.
bool are_plain(const VarlenCall& call) {
  for (const StoredRows* rows : {&call.key, &call.value, call.key_rope})
    if (rows != nullptr && (rows->is_quantised() || rows->stored().scalar_type() != call.query.scalar_type()))
      return false;
  return !call.query_rope.defined() || call.query_rope.scalar_type() == call.query.scalar_type();
}

std::optional<StoredOperands> stored_operands(const VarlenCall& call, int64_t heads) {
  StoredOperands out{with_heads(call.key), with_heads(call.value), {}, call.keys.sequences};
  for (const Tensor& each : {out.key, out.value})
    if (!each.defined() || !are_rows_dense(each) || each.size(1) != out.key.size(1)) return std::nullopt;
  if (heads % out.key.size(1) != 0 || call.key.in_pages() != call.value.in_pages()) return std::nullopt;
  if (call.key.in_pages()) {
    out.table = checked_table(call.keys, out.key);
    if (!out.table.defined() || out.value.size(0) < out.key.size(0) || out.value.size(2) != out.key.size(2))
      return std::nullopt;
  } else if (!contains_sequences(out.key, *out.sequences) || !contains_sequences(out.value, *out.sequences)) {
    return std::nullopt;
  }
  if (call.key_rope == nullptr) return out;
  const Tensor rope = with_heads(*call.key_rope);
  if (!rope.defined() || !are_rows_dense(rope) || rope.sizes().slice(0, 3) != out.key.sizes().slice(0, 3))
    return std::nullopt;
  join_rope(call, out);
  return out;
}

// Whether each query sees a key, so that its logarithm is finite.
bool all_see_keys(const VarlenCall& call) {
  if (call.before.value_or(0) < 0 || call.after.value_or(0) < 0) return false;
  for (int64_t i = 0; i < call.queries.count(); ++i) {
    const int64_t queries = call.queries.length(i), keys = call.keys.lengths[i];
    if (queries > 0 && (keys == 0 || queries > keys)) return false;
  }
  return true;
}

std::vector<codegen::VarlenSequence> varlen_sequences(const VarlenCall& call, const StoredOperands& stored) {
  std::vector<codegen::VarlenSequence> out;
  for (int64_t i = 0; i < call.queries.count(); ++i) {
    codegen::VarlenSequence& one = out.emplace_back();
    one.query_batch = call.queries.batch(i);
    one.first_query = call.queries.start(i);
    one.queries = call.queries.length(i);
    one.keys = call.keys.lengths[i];
    if (stored.table.defined()) {
      one.pages = stored.table.const_data_ptr<int32_t>() + i * stored.table.size(1);
    } else {
      one.key_batch = stored.sequences->batch(i);
      one.first_key = stored.sequences->start(i);
    }
  }
  return out;
}

// Rows one after another, with the heads of each side by side: the order of most layouts. 0 in rows of no sequence.
Tensor result_for(const Tensor& query, const Sequences& queries, int64_t size, at::ScalarType type) {
  int64_t rows = 0;
  for (int64_t i = 0; i < queries.count(); ++i) rows += queries.length(i);
  const Tensor out = at::empty({query.size(0), query.size(2), query.size(1), size}, query.options().dtype(type));
  if (rows != query.size(0) * query.size(2)) out.zero_();
  return out.transpose(1, 2);
}

}  // namespace

std::optional<Attention> attend_varlen(const VarlenCall& call) {
  const auto dtype = own::generated_dtype(call.query.scalar_type());
  if (!dtype || !own::has_memory(call.query) || !are_plain(call) || !contains_sequences(call.query, call.queries))
    return std::nullopt;
  if (call.keys.lengths.size() != static_cast<size_t>(call.queries.count())) return std::nullopt;
  if (call.wants_lse && !all_see_keys(call)) return std::nullopt;
  const auto stored = stored_operands(call, call.query.size(1));
  if (!stored) return std::nullopt;
  const Tensor query = call.query_rope.defined() ? at::cat({call.query, call.query_rope}, -1) : call.query;
  if (query.size(3) != stored->key.size(3) || !are_rows_dense(query)) return std::nullopt;

  Attention out{.result = result_for(query, call.queries, stored->value.size(3), query.scalar_type())};
  if (call.wants_lse) out.max = result_for(query, call.queries, 1, at::kFloat);
  const auto data = [](const Tensor& tensor) { return static_cast<char*>(tensor.data_ptr()); };
  const codegen::VarlenOperands operands{
      .dtype = *dtype,
      .heads = stored->key.size(1),
      .group = query.size(1) / stored->key.size(1),
      .key_size = query.size(3),
      .value_size = stored->value.size(3),
      .page_keys = stored->table.defined() ? stored->key.size(2) : 0,
      .q = heads_place_of(query, *dtype),
      .k = heads_place_of(stored->key, *dtype),
      .v = heads_place_of(stored->value, *dtype),
      .out = heads_place_of(out.result, *dtype),
      .logsumexp = call.wants_lse ? heads_place_of(out.max, DType::kF32) : HeadsPlace(),
      .memory = {.q = data(query),
                 .k = data(stored->key),
                 .v = data(stored->value),
                 .out = data(out.result),
                 .logsumexp = call.wants_lse ? data(out.max) : nullptr}};
  const loop::Attention attention{
      .before = call.before,
      .after = call.after,
      .position = call.at_end ? loop::AttentionPosition::kEnd : loop::AttentionPosition::kStart,
      .logsumexp = call.wants_lse,
      .scale = call.scale};
  const std::vector<codegen::VarlenSequence> sequences = varlen_sequences(call, *stored);
  const codegen::VarlenAttention varlen(attention, operands, sequences, target::host_target());
  const Tensor workspace = at::empty({varlen.workspace()}, query.options().dtype(at::kByte));
  const own::EagerHost host;
  varlen.run(*host.table(), data(workspace));
  if (call.wants_lse) out.sum = at::ones_like(out.max);
  return out;
}

}  // namespace npugraph::npu_ops
