// SPDX-License-Identifier: Apache-2.0
// Rows in order: sorted rows, their first elements in that order, and running maxima. NaN counts as the largest number.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/elements.h"
#include "kernels/kernel_table.h"
#include "kernels/kernel_task.h"

namespace npugraph::kernels {
namespace {

constexpr int64_t kRowGrain = 4096;  // elements, per thread

// An element and its place in its row.
template <typename Key>
using Entry = std::pair<Key, int64_t>;

struct Above {
  template <typename Key>
  bool operator()(const Entry<Key>& a, const Entry<Key>& b) const {
    return (is_nan(a.first) && !is_nan(b.first)) || a.first > b.first;
  }
};
struct Below {
  template <typename Key>
  bool operator()(const Entry<Key>& a, const Entry<Key>& b) const {
    return (!is_nan(a.first) && is_nan(b.first)) || a.first < b.first;
  }
};

struct Options {
  int64_t dim = 0;
  bool falls = false;  // the largest elements come first
  bool sorted = true;  // the chosen elements are in order
};

// What a kernel does with a row: its first `count` entries become the result.
struct Sort {
  static constexpr bool kIsFalling = false;  // without an argument that says it
  template <typename Key, typename Before>
  static void arrange(Entry<Key>* row, int64_t size, int64_t, const Options&, Before before) {
    std::stable_sort(row, row + size, before);
  }
  template <typename Key, typename Before>
  static void arrange_simply(Entry<Key>* row, int64_t size, int64_t, const Options&, Before before) {
    for (int64_t end = 1; end < size; ++end) {
      for (int64_t i = end; i > 0 && before(row[i], row[i - 1]); --i) std::swap(row[i], row[i - 1]);
    }
  }
};

struct TopK {
  static constexpr bool kIsFalling = true;
  // These algorithms choose among equal elements as ATen's operator does, which calls them, too.
  template <typename Key, typename Before>
  static void arrange(Entry<Key>* row, int64_t size, int64_t count, const Options& options, Before before) {
    if (count == 0) return;
    if (count * 64 <= size) return std::partial_sort(row, row + count, row + size, before);
    std::nth_element(row, row + count - 1, row + size, before);
    if (options.sorted) std::sort(row, row + count - 1, before);
  }
  template <typename Key, typename Before>
  static void arrange_simply(Entry<Key>* row, int64_t size, int64_t count, const Options& options, Before before) {
    arrange(row, size, count, options, before);
  }
};

struct RunningMaximum {
  static constexpr bool kIsFalling = true;
  template <typename Key, typename Before>
  static void arrange(Entry<Key>* row, int64_t size, int64_t, const Options&, Before before) {
    for (int64_t i = 1; i < size; ++i) {
      if (before(row[i - 1], row[i])) row[i] = row[i - 1];
    }
  }
  template <typename Key, typename Before>
  static void arrange_simply(Entry<Key>* row, int64_t size, int64_t, const Options&, Before before) {
    for (int64_t i = size; i-- > 0;) {
      for (int64_t k = i; k-- > 0;) {
        if (before(row[k], row[i])) row[i] = row[k];
      }
    }
  }
};

// Operands: x, values, places. The places are those of the values in the row of x.
template <typename Work>
class RowsInOrder {
 public:
  using State = Options;

  explicit RowsInOrder(const ng_definition& task) {
    const Arguments arguments(task);
    dim_ = arguments.scalar(1);
    falls_ = arguments.scalar_or(2, Scalar::of_bool(Work::kIsFalling));
    sorted_ = arguments.scalar_or(3, Scalar::of_bool(true));
    check_operands(task, 1, 2);
    const ng_operand &x = task.operands[0], &values = task.operands[1], &places = task.operands[2];
    if (x.dtype != values.dtype || dtype_of(places) != DType::kI64)
      refuse(task, "values are of the type of x, places i64");
    if (x.rank != values.rank || x.rank != places.rank) refuse(task, "x, values and places have the same dimensions");
    type_ = dtype_of(x);
    if (!with_type(type_, [](auto) {})) refuse(task, "elements have no order");
  }

  bool bind(const ng_call& call, Options& options) const {
    const ng_buffer &x = call.buffers[0], &values = call.buffers[1];
    options = {.dim = dim_.value(call).as_int(),
               .falls = falls_.value(call).as_bool(),
               .sorted = sorted_.value(call).as_bool()};
    if (options.dim < 0) options.dim += x.rank;
    if (options.dim < 0 || options.dim >= std::max(x.rank, 1)) return false;
    for (int d = 0; d < x.rank; ++d) {
      if (d == options.dim ? values.sizes[d] > x.sizes[d] : values.sizes[d] != x.sizes[d]) return false;
    }
    return true;
  }

  ng_status run(const Options& options, ng_call& call) const {
    if (elements(call.buffers[1]) == 0) return NG_OK;
    const int64_t size = row_at(call.buffers[0], options.dim, 0, 1).size;
    std::atomic<bool> is_done = true;
    for_ranges(call, rows(options, call), std::max<int64_t>(kRowGrain / size, 1), [&](int64_t first, int64_t end) {
      const auto arrange = [](auto... arguments) { Work::arrange(arguments...); };
      if (!arrange_rows(options, call, first, end, arrange)) is_done = false;
    });
    return is_done ? NG_OK : NG_ERROR;
  }

  // The number of rows that have results.
  static int64_t rows(const Options& options, const ng_call& call) {
    if (elements(call.buffers[1]) == 0) return 0;
    return elements(call.buffers[0]) / row_at(call.buffers[0], options.dim, 0, 1).size;
  }

  // Computes rows [first, end) with this way to arrange a row. False if there is no memory for a row.
  template <typename Arrange>
  bool arrange_rows(const Options& options, const ng_call& call, int64_t first, int64_t end, Arrange arrange) const {
    bool has_memory = true;
    with_type(type_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      using Key = decltype(key_of(T{}));
      const int64_t size = row_at(call.buffers[0], options.dim, 0, 1).size;
      const std::unique_ptr<Entry<Key>[]> entries(new (std::nothrow) Entry<Key>[static_cast<size_t>(size)]);
      has_memory = entries != nullptr;
      for (int64_t row = first; has_memory && row < end; ++row) one_row<T>(options, call, row, entries.get(), arrange);
    });
    return has_memory;
  }

 private:
  template <typename T, typename Key, typename Arrange>
  static void one_row(const Options& options, const ng_call& call, int64_t row, Entry<Key>* entries, Arrange arrange) {
    const RowOf x = row_at(call.buffers[0], options.dim, row, sizeof(T)),
                values = row_at(call.buffers[1], options.dim, row, sizeof(T)),
                places = row_at(call.buffers[2], options.dim, row, sizeof(int64_t));
    for (int64_t i = 0; i < x.size; ++i) entries[i] = {key_of(x.load<T>(i)), i};
    if (options.falls) {
      arrange(entries, x.size, values.size, options, Above{});
    } else {
      arrange(entries, x.size, values.size, options, Below{});
    }
    for (int64_t i = 0; i < values.size; ++i) {
      values.store(i, x.load<T>(entries[i].second));
      places.store(i, entries[i].second);
    }
  }

  Argument dim_, falls_, sorted_;
  DType type_;
};

template <typename Work>
ng_task make_rows(const ng_definition& task) {
  return make_task(std::make_unique<RowsInOrder<Work>>(task));
}

template <typename Work>
ng_status reference_rows(const ng_definition& task, ng_call* call) {
  const RowsInOrder<Work> kernel(task);
  Options options;
  if (!kernel.bind(*call, options)) return NG_ERROR;
  const auto arrange = [](auto... arguments) { Work::arrange_simply(arguments...); };
  return kernel.arrange_rows(options, *call, 0, kernel.rows(options, *call), arrange) ? NG_OK : NG_ERROR;
}

constexpr Kernel kOrderRows[] = {
    {"kernel.sort", "(x, dim: scalar, descending: bool) -> values, places: in the order of x where elements are equal",
     made_by<make_rows<Sort>>, reference_rows<Sort>},
    {"kernel.topk", "(x, dim: scalar, largest: bool, sorted: bool) -> values, places: as many as results have",
     made_by<make_rows<TopK>>, reference_rows<TopK>},
    {"kernel.cummax", "(x, dim: scalar) -> values, places: the last of the largest so far",
     made_by<make_rows<RunningMaximum>>, reference_rows<RunningMaximum>},
};

}  // namespace

std::span<const Kernel> order_kernels() { return kOrderRows; }

}  // namespace npugraph::kernels
