// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/tensors/cut_logits.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include <ATen/Parallel.h>

#include "backend/own_kernels/eager_task.h"

namespace npugraph::npu_ops {
namespace {

using Row = std::span<const float>;

// The first element that a row keeps, in ascending order of (value, place).
struct First {
  float value = -std::numeric_limits<float>::infinity();
  int64_t place = 0;
};

struct Candidate {
  float value = 0;
  float mass = 0;
  int64_t place = 0;

  bool operator<(const Candidate& other) const {
    return value < other.value || (value == other.value && place < other.place);
  }
};

// Memory that the rows of one thread share.
struct Spare {
  std::vector<float> values;
  std::vector<Candidate> candidates;
};

// The k-th greatest element of `row`, 1 <= k <= its length.
float kth_greatest(Row row, int64_t k, std::vector<float>& spare) {
  // The maxima of disjoint parts of the row are elements of it, so their k-th greatest bounds the result from below.
  // Few elements are above it, because there are many more parts than k.
  const int64_t n = static_cast<int64_t>(row.size()), parts = std::min(n, std::max<int64_t>(1024, 8 * k));
  spare.assign(row.begin(), row.begin() + parts);
  for (int64_t begin = parts; begin < n; begin += parts) {
    const int64_t count = std::min(parts, n - begin);
    for (int64_t i = 0; i < count; ++i) spare[i] = std::max(spare[i], row[begin + i]);
  }
  std::nth_element(spare.begin(), spare.begin() + k - 1, spare.end(), std::greater<>());
  const float bound = spare[k - 1];
  spare.clear();
  std::copy_if(row.begin(), row.end(), std::back_inserter(spare), [bound](float x) { return x >= bound; });
  std::nth_element(spare.begin(), spare.begin() + k - 1, spare.end(), std::greater<>());
  return spare[k - 1];
}

// The first element that a row keeps if it drops, of those not less than `least`, the first ones whose masses sum up to
// at most `share` of the masses of all of these. The last one is kept in any case.
First first_of_nucleus(Row row, Row masses, float least, double share, std::vector<Candidate>& candidates) {
  const int64_t n = static_cast<int64_t>(row.size());
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += row[i] >= least ? masses[i] : 0;
  const double limit = share * total;
  if (!(limit >= 0)) return {least, 0};
  // Elements below half of the mean mass of what may be dropped are dropped together.
  const double small = limit / 2 / static_cast<double>(n);
  double dropped = 0;
  candidates.clear();
  for (int64_t i = 0; i < n; ++i) {
    if (row[i] < least) continue;
    if (masses[i] > small) {
      candidates.push_back({row[i], masses[i], i});
    } else {
      dropped += masses[i];
    }
  }
  auto first = candidates.begin(), last = candidates.end();  // the result is one of these
  while (last - first > 1) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last);
    double below = dropped;
    for (auto c = first; c != middle; ++c) below += c->mass;
    if (below <= limit) {
      dropped = below;
      first = middle;
    } else {
      last = middle;
    }
  }
  return {first->value, first->place};
}

void cut_row(Row row, First first, float* out) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const int64_t n = static_cast<int64_t>(row.size());
  for (int64_t i = 0; i < first.place; ++i) out[i] = row[i] <= first.value ? kNever : row[i];
  for (int64_t i = first.place; i < n; ++i) out[i] = row[i] < first.value ? kNever : row[i];
}

bool can_cut(const Tensor& logits, const OptionalTensor& p, const OptionalTensor& k) {
  if (!own::has_memory(logits) || own::wants_gradient({&logits}) || logits.numel() == 0) return false;
  return (!p || own::has_memory(*p)) && (!k || (own::has_memory(*k) && (*k > 0).all().item<bool>()));
}

}  // namespace

std::optional<Tensor> cut_logits(const Tensor& logits, const OptionalTensor& p, const OptionalTensor& k) {
  if (!can_cut(logits, p, k)) return std::nullopt;
  const Tensor rows = logits.to(at::kFloat).contiguous();
  if (std::isnan(rows.sum().item<float>())) return std::nullopt;
  const int64_t n = rows.size(1);
  const Tensor masses = p ? rows.softmax(-1) : Tensor();
  const Tensor shares = p ? (1 - p->to(at::kFloat)).contiguous() : Tensor();
  const Tensor counts = k ? k->to(at::kLong).contiguous() : Tensor();
  const Tensor out = at::empty_like(rows);
  at::parallel_for(0, rows.size(0), /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    Spare spare;
    for (int64_t i = begin; i < end; ++i) {
      const auto row_of = [&](const Tensor& x) { return Row(x.const_data_ptr<float>() + i * n, n); };
      const Row row = row_of(rows);
      First first;
      const int64_t greatest = k ? counts.const_data_ptr<int64_t>()[i] : n;
      if (greatest < n) first.value = kth_greatest(row, greatest, spare.values);
      if (p) {
        const double share = shares.const_data_ptr<float>()[i];
        first = first_of_nucleus(row, row_of(masses), first.value, share, spare.candidates);
      }
      cut_row(row, first, out.mutable_data_ptr<float>() + i * n);
    }
  });
  return out.to(logits.scalar_type());
}

}  // namespace npugraph::npu_ops
