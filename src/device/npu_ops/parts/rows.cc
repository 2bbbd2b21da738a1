// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/parts/rows.h"

#include <algorithm>
#include <cstring>

#include "backend/own_kernels/eager_task.h"

namespace npugraph::npu_ops {
namespace {

Tensor like_rows(const Tensor& of_each_row, const Tensor& rows) {
  std::vector<int64_t> shape(static_cast<size_t>(rows.dim()), 1);
  shape[0] = -1;
  return of_each_row.reshape(shape);
}

// Whether the elements from dimension `dim` on lie one after another.
bool is_dense_from(const Tensor& tensor, int64_t dim) {
  int64_t next = 1;
  for (int64_t d = tensor.dim() - 1; d >= dim; --d) {
    if (tensor.size(d) != 1 && tensor.stride(d) != next) return false;
    next *= tensor.size(d);
  }
  return true;
}

// Numbers of `given`, or nothing if they are not integers in memory.
std::optional<std::vector<int64_t>> numbers_of(const Tensor& given) {
  if (!own::has_memory(given) || given.dim() != 1 || !at::isIntegralType(given.scalar_type(), /*includeBool=*/false))
    return std::nullopt;
  const Tensor wide = given.to(at::kLong).contiguous();
  return std::vector<int64_t>(wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel());
}

// Writes rows[i] to the place places[d][i] of each of the first dimensions d of `into`, without the operators of ATen.
// Returns false, and writes nothing, if these have to do it: there are no values, they are to be announced, or a place
// does not exist.
bool write_in_memory(const Tensor& into, const std::vector<std::vector<int64_t>>& places, const Tensor& rows) {
  const auto dims = static_cast<int64_t>(places.size());
  if (npu::are_rows_heard() || !own::has_memory(into) || !own::has_memory(rows)) return false;
  if (into.dim() != dims + rows.dim() - 1 || into.sizes().slice(dims) != rows.sizes().slice(1)) return false;
  if (!is_dense_from(into, dims)) return false;
  const Tensor from = rows.to(into.scalar_type()).contiguous();
  constexpr int64_t kSkipped = -1;
  std::vector<int64_t> at(from.size(0), 0);
  for (int64_t d = 0; d < dims; ++d) {
    if (places[d].size() != at.size()) return false;
    for (size_t i = 0; i < at.size(); ++i) {
      if (places[d][i] >= into.size(d)) return false;
      at[i] = places[d][i] < 0 || at[i] == kSkipped ? kSkipped : at[i] + places[d][i] * into.stride(d);
    }
  }
  const int64_t bytes = from.element_size(), row = from.numel() / std::max<int64_t>(from.size(0), 1) * bytes;
  char* const to = static_cast<char*>(into.data_ptr());
  const char* const source = static_cast<const char*>(from.const_data_ptr());
  for (size_t i = 0; i < at.size(); ++i)
    if (at[i] != kSkipped) std::memcpy(to + at[i] * bytes, source + static_cast<int64_t>(i) * row, row);
  return true;
}

c10::List<OptionalTensor> indices(const std::vector<Tensor>& places) {
  c10::List<OptionalTensor> out;
  for (const Tensor& place : places) out.push_back(place);
  return out;
}

}  // namespace

void put_rows(const Tensor& into, const std::vector<Tensor>& places, const Tensor& rows) {
  if (rows.sym_size(0) == 0) return;
  Tensor kept = places[0] >= 0;
  for (size_t i = 1; i < places.size(); ++i) kept = kept.logical_and(places[i] >= 0);
  // A skipped row repeats the write of the first kept row; if no row is kept, it writes back the present contents.
  const Tensor one = kept.to(at::kInt).argmax(0, /*keepdim=*/true);
  std::vector<Tensor> its_places, all_places;
  for (const Tensor& place : places) {
    its_places.push_back(place.to(at::kLong).index_select(0, one).clamp_min(0));
    all_places.push_back(at::where(kept, place.to(at::kLong), its_places.back()));
  }
  const Tensor there = into.index(indices(its_places));
  const Tensor again =
      at::where(like_rows(kept.index_select(0, one), rows), rows.index_select(0, one).to(into.scalar_type()), there);
  const c10::List<OptionalTensor> written = indices(all_places);
  announce_rows(into, written);
  into.index_put_(written, at::where(like_rows(kept, rows), rows.to(into.scalar_type()), again));
}

Tensor spans(const Tensor& starts, const c10::SymInt& count) {
  const Tensor first = starts.unsqueeze(-1);
  return at::where(first >= 0, first + at::arange(count, starts.options()), -1).flatten();
}

void put_in_pages(const Tensor& cache, const Tensor& rows, const Tensor& slots) {
  const c10::SymInt places = cache.sym_size(1);
  c10::SymDimVector shape(cache.sym_sizes().begin() + 1, cache.sym_sizes().end());
  shape[0] = rows.sym_size(0);
  const Tensor shaped = rows.reshape_symint(shape);
  if (const auto numbers = numbers_of(slots)) {
    std::vector<int64_t> pages, offsets;
    const int64_t size = std::max<int64_t>(cache.size(1), 1);
    for (const int64_t slot : *numbers) {
      pages.push_back(slot < 0 ? -1 : slot / size);
      offsets.push_back(slot < 0 ? -1 : slot % size);
    }
    if (write_in_memory(cache, {pages, offsets}, shaped)) return;
  }
  put_rows(cache, {slots.div(places, "floor"), slots.remainder(places)}, shaped);
}

Tensor pages_of_pieces(const Tensor& cache) { return cache.transpose(1, 2); }

}  // namespace npugraph::npu_ops
