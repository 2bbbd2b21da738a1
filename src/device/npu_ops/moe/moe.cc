// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/moe/moe.h"

#include <limits>
#include <vector>

namespace npugraph::npu_ops {

Tensor top_places(const Tensor& x, int64_t k) {
  return std::get<1>(at::sort(x, /*stable=*/true, /*dim=*/-1, /*descending=*/true)).narrow(-1, 0, k).contiguous();
}

Tensor rising_places(const Tensor& x) {
  return std::get<1>(at::sort(x, /*stable=*/true, /*dim=*/0, /*descending=*/false));
}

Tensor inverse_of(const Tensor& permutation) {
  return at::empty_like(permutation).scatter(0, permutation, count_up(permutation, permutation.sym_size(0)));
}

Tensor counts_of(const Tensor& ids, const c10::SymInt& n) {
  const Tensor flat = ids.reshape(-1).to(at::kLong);
  return flat.new_zeros_symint({n}).scatter_add(0, flat, at::ones_like(flat));
}

Tensor only_best_groups(const Tensor& choice, int64_t groups, int64_t keep, int64_t summed) {
  const Tensor parts = choice.unflatten_symint(-1, {groups, choice.sym_size(-1) / groups});
  const Tensor score = summed == 1 ? parts.amax(-1) : std::get<0>(parts.sort(-1, true)).narrow(-1, 0, summed).sum(-1);
  const Tensor dropped = at::ones_like(score, score.options().dtype(at::kBool)).scatter(-1, top_places(score, keep), 0);
  return parts.masked_fill(dropped.unsqueeze(-1), -std::numeric_limits<double>::infinity()).flatten(-2);
}

Tensor rows_or_zeros(const Tensor& x, const Tensor& places, const Tensor& valid) {
  if (x.sym_size(0) == 0) {  // there is no row to stand in for those that are not valid
    std::vector<c10::SymInt> sizes = places.sym_sizes().vec();
    sizes.insert(sizes.end(), x.sym_sizes().begin() + 1, x.sym_sizes().end());
    return x.new_zeros_symint(sizes);
  }
  const Tensor rows = x.index_select(0, places.masked_fill(valid.logical_not(), 0).reshape(-1));
  const Tensor all = rows.unflatten_symint(0, places.sym_sizes());
  return at::where(valid.unsqueeze(-1), all, at::zeros({}, all.options()));
}

Tensor weighted(const Tensor& rows, const Tensor& weights) {
  const Tensor products = wide(rows) * wide(weights).unsqueeze(-1);
  return at::where((weights == 0).unsqueeze(-1), at::zeros({}, products.options()), products);
}

}  // namespace npugraph::npu_ops
