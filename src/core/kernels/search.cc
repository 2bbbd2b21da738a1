// SPDX-License-Identifier: Apache-2.0
// Places in sorted rows, and counts of elements between edges.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/elements.h"
#include "kernels/kernel_table.h"
#include "kernels/kernel_task.h"

namespace npugraph::kernels {
namespace {

constexpr int64_t kSearchGrain = 4096;  // values, per thread

// Operands: sequence [n] or [.., n], values, the order of the sequence if its rows are not sorted, y of the sizes of
// values. Each element of y is the number of elements of the row that are below a value, or, with `right`, not above
// it.
class SearchSorted {
 public:
  struct State {
    bool right = false;
  };

  explicit SearchSorted(const ng_definition& task) {
    const Arguments arguments(task);
    is_sorted_ = !arguments[2].is_tensor();
    right_ = arguments.scalar(3);
    check_operands(task, is_sorted_ ? 2 : 3, 1);
    const ng_operand &sequence = task.operands[0], &values = task.operands[1],
                     &y = task.operands[task.num_operands - 1];
    type_ = dtype_of(sequence);
    result_type_ = dtype_of(y);
    const bool has_order = with_type(type_, [](auto) {});
    if (!has_order || values.dtype != sequence.dtype)
      refuse(task, "sequence and values are of one type that has an order");
    if (result_type_ != DType::kI64 && result_type_ != DType::kI32) refuse(task, "y is neither i32 nor i64");
    if (!is_sorted_ && dtype_of(task.operands[2]) != DType::kI64) refuse(task, "the order of the sequence is i64");
    if (sequence.rank == 0 || values.rank != y.rank || (sequence.rank != 1 && sequence.rank != values.rank))
      refuse(task, "values have the dimensions of y, and those of the sequence if it has more than one");
  }

  bool bind(const ng_call& call, State& state) const {
    state.right = right_.value(call).as_bool();
    const ng_buffer &sequence = call.buffers[0], &values = call.buffers[1], &y = call.buffers[call.num_buffers - 1];
    const bool is_shared = sequence.rank == 1;
    return std::equal(values.sizes, values.sizes + values.rank, y.sizes) &&
           (is_shared || std::equal(values.sizes, values.sizes + values.rank - 1, sequence.sizes)) &&
           (is_sorted_ || std::equal(sequence.sizes, sequence.sizes + sequence.rank, call.buffers[2].sizes));
  }

  ng_status run(const State& state, ng_call& call) const {
    const int64_t count = elements(call.buffers[call.num_buffers - 1]);
    for_ranges(call, count, kSearchGrain, [&](int64_t first, int64_t end) {
      find_places(state, call, first, end, [](int64_t size, auto is_passed) {
        int64_t low = 0, high = size;
        while (low < high) {
          const int64_t middle = low + (high - low) / 2;
          if (is_passed(middle))
            low = middle + 1;
          else
            high = middle;
        }
        return low;
      });
    });
    return NG_OK;
  }

  // The places of values [first, end). find(size, is_passed) gives one in a row of that size; is_passed(i) says whether
  // it is behind element i.
  template <typename Find>
  void find_places(const State& state, const ng_call& call, int64_t first, int64_t end, Find find) const {
    with_type(type_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = first; i < end; ++i)
        store(call.buffers[call.num_buffers - 1], i, find_one<T>(state, call, i, find));
    });
  }

 private:
  template <typename T, typename Find>
  int64_t find_one(const State& state, const ng_call& call, int64_t i, Find find) const {
    const ng_buffer &sequence = call.buffers[0], &values = call.buffers[1];
    const auto value = key_of(*reinterpret_cast<const T*>(element_at(values, i, sizeof(T))));
    const int last = sequence.rank - 1;
    const int64_t number = last == 0 ? 0 : i / values.sizes[last];
    const RowOf row = row_at(sequence, last, number, sizeof(T));
    const RowOf order = is_sorted_ ? RowOf{} : row_at(call.buffers[2], last, number, sizeof(int64_t));
    return find(row.size, [&](int64_t place) {
      const int64_t at = is_sorted_ ? place : std::clamp<int64_t>(order.load<int64_t>(place), 0, row.size - 1);
      const auto element = key_of(row.load<T>(at));
      return state.right ? !(element > value) : !(element >= value);
    });
  }

  void store(const ng_buffer& y, int64_t i, int64_t place) const {
    char* at = element_at(y, i, size_of(result_type_));
    if (result_type_ == DType::kI64) {
      *reinterpret_cast<int64_t*>(at) = place;
    } else {
      *reinterpret_cast<int32_t*>(at) = static_cast<int32_t>(place);
    }
  }

  bool is_sorted_ = true;
  Argument right_;
  DType type_, result_type_;
};

ng_task make_search_sorted(const ng_definition& task) { return make_task(std::make_unique<SearchSorted>(task)); }

ng_status reference_search_sorted(const ng_definition& task, ng_call* call) {
  const SearchSorted kernel(task);
  SearchSorted::State state;
  if (!kernel.bind(*call, state)) return NG_ERROR;
  kernel.find_places(state, *call, 0, elements(call->buffers[call->num_buffers - 1]), [](int64_t size, auto is_passed) {
    int64_t place = 0;
    while (place < size && is_passed(place)) ++place;
    return place;
  });
  return NG_OK;
}

// Operands: x, y [bins], both f32 or both f64. Each element of y is the number of elements of x in one of the bins that
// divide [min, max] evenly; a bin has its lower edge, and the last one both. Where min and max are equal, they are
// the least and the largest element.
class Histogram {
 public:
  struct State {
    double min = 0, max = 0;
  };

  explicit Histogram(const ng_definition& task) {
    const Arguments arguments(task);
    min_ = arguments.scalar(1);
    max_ = arguments.scalar(2);
    check_operands(task, 1, 1);
    const ng_operand &x = task.operands[0], &y = task.operands[1];
    type_ = dtype_of(x);
    if (y.dtype != x.dtype || (type_ != DType::kF32 && type_ != DType::kF64))
      refuse(task, "x and y are not both f32 or both f64");
    if (y.rank != 1) refuse(task, "y has one dimension");
  }

  bool bind(const ng_call& call, State& state) const {
    state = {min_.value(call).as_float(), max_.value(call).as_float()};
    return state.min <= state.max;
  }

  ng_status run(const State& state, ng_call& call) const {
    const bool is_finite = type_ == DType::kF32 ? count<float>(state, call) : count<double>(state, call);
    if (!is_finite) call.host->set_error(call.host, "torch.histc: range of [min, max] is not finite");
    return is_finite ? NG_OK : NG_ERROR;
  }

  DType type() const { return type_; }

  // Edges of the first and of the last bin.
  template <typename T>
  static std::pair<T, T> edges(const State& state, const ng_buffer& x) {
    auto low = static_cast<T>(state.min), high = static_cast<T>(state.max);
    if (state.min == state.max) {
      for (int64_t i = 0; i < elements(x); ++i) {
        const T given = element<T>(x, i);
        low = i == 0 || std::isnan(given) ? given : std::min(low, given);
        high = i == 0 || std::isnan(given) ? given : std::max(high, given);
      }
    }
    return low == high ? std::pair<T, T>(low - 1, high + 1) : std::pair<T, T>(low, high);
  }

  // The bin of an element; -1 for one that is in none.
  template <typename T>
  static int64_t bin_of(T given, const std::pair<T, T>& edges, int64_t bins) {
    const auto [low, high] = edges;
    if (!(given >= low && given <= high)) return -1;
    return std::min(static_cast<int64_t>((given - low) * static_cast<T>(bins) / (high - low)), bins - 1);
  }

  template <typename T>
  static T element(const ng_buffer& x, int64_t i) {
    return *reinterpret_cast<const T*>(element_at(x, i, sizeof(T)));
  }

 private:
  // False if the elements have no finite range.
  template <typename T>
  static bool count(const State& state, const ng_call& call) {
    const ng_buffer& x = call.buffers[0];
    const auto range = edges<T>(state, x);
    if (!std::isfinite(range.first) || !std::isfinite(range.second)) return false;
    const RowOf counts = row_at(call.buffers[1], 0, 0, sizeof(T));
    for (int64_t bin = 0; bin < counts.size; ++bin) counts.store(bin, T{0});
    for (int64_t i = 0; i < elements(x); ++i) {
      const int64_t bin = bin_of(element<T>(x, i), range, counts.size);
      if (bin >= 0) counts.store(bin, counts.load<T>(bin) + 1);
    }
    return true;
  }

  Argument min_, max_;
  DType type_;
};

ng_task make_histogram(const ng_definition& task) { return make_task(std::make_unique<Histogram>(task)); }

// For each bin, one look at all elements.
template <typename T>
void count_each(const Histogram::State& state, const ng_call& call) {
  const ng_buffer& x = call.buffers[0];
  const RowOf counts = row_at(call.buffers[1], 0, 0, sizeof(T));
  const auto range = Histogram::edges<T>(state, x);
  for (int64_t bin = 0; bin < counts.size; ++bin) {
    T count = 0;
    for (int64_t i = 0; i < elements(x); ++i)
      count += Histogram::bin_of(Histogram::element<T>(x, i), range, counts.size) == bin;
    counts.store(bin, count);
  }
}

ng_status reference_histogram(const ng_definition& task, ng_call* call) {
  const Histogram kernel(task);
  Histogram::State state;
  if (!kernel.bind(*call, state)) return NG_ERROR;
  (kernel.type() == DType::kF32 ? count_each<float> : count_each<double>)(state, *call);
  return NG_OK;
}

constexpr Kernel kSearchRows[] = {
    {"kernel.searchsorted", "(sequence, values, order or nothing, right: bool) -> places in rows of the sequence",
     made_by<make_search_sorted>, reference_search_sorted},
    {"kernel.histc", "(x, min: scalar, max: scalar) -> y: the number of elements in each of even bins",
     made_by<make_histogram>, reference_histogram},
};

}  // namespace

std::span<const Kernel> search_kernels() { return kSearchRows; }

}  // namespace npugraph::kernels
