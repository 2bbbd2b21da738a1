// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/parts/rows.h"

namespace npugraph::npu_ops {
namespace {

Tensor like_rows(const Tensor& of_each_row, const Tensor& rows) {
  std::vector<int64_t> shape(static_cast<size_t>(rows.dim()), 1);
  shape[0] = -1;
  return of_each_row.reshape(shape);
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
  put_rows(cache, {slots.div(places, "floor"), slots.remainder(places)}, rows.reshape_symint(shape));
}

Tensor pages_of_pieces(const Tensor& cache) { return cache.transpose(1, 2); }

}  // namespace npugraph::npu_ops
