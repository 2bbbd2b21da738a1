// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/attention/attention.h"
#include "codegen/matmul/matmul_testing.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {
namespace {

struct Length {
  int64_t queries, keys;
};

struct VarlenCase {
  std::vector<Length> lengths;
  DType dtype = DType::kF32;
  int64_t heads = 3, group = 3, size = 16, value_size = 16, page_keys = 16;
  std::optional<int64_t> before, after = 0;
  bool logsumexp = false;
};

// First row of a sequence in its batch, if keys do not lie in pages.
constexpr int64_t kFirstKey = 3;

class Cache {
 public:
  explicit Cache(const VarlenCase& x) : x_(x) {
    tables.resize(x.lengths.size());
    if (x.page_keys == 0) {
      int64_t longest = 0;
      for (const Length& length : x.lengths) longest = std::max(longest, length.keys);
      make(static_cast<int64_t>(x.lengths.size()), kFirstKey + longest + 1);
      return;
    }
    int64_t pages = 1;
    for (const Length& length : x.lengths) pages += divide_up(length.keys, x.page_keys);
    make(pages, x.page_keys);
    // Pages of sequences are interleaved and go backwards; page 0 belongs to nobody.
    int32_t next = static_cast<int32_t>(pages) - 1;
    for (bool more = true; more;) {
      more = false;
      for (size_t s = 0; s < x.lengths.size(); ++s) {
        if (static_cast<int64_t>(tables[s].size()) * x.page_keys >= x.lengths[s].keys) continue;
        tables[s].push_back(next--);
        more = true;
      }
    }
  }

  void make(int64_t pages, int64_t rows) {
    const Sizes keys{pages, rows, x_.heads, x_.size}, values{pages, rows, x_.heads, x_.value_size};
    k = std::make_unique<Tensor>(x_.dtype, keys, strides_of(keys));
    v = std::make_unique<Tensor>(x_.dtype, values, strides_of(values));
    rows_of_page = rows;
    k->fill(2);
    v->fill(3);
  }
  static Sizes strides_of(const Sizes& sizes) {
    return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
  }
  // The keys or the values of one head of a sequence, [keys, size], as numbers.
  std::vector<double> rows(const Tensor& tensor, size_t sequence, int64_t head) const {
    std::vector<double> all;
    for (int64_t key = 0; key < x_.lengths[sequence].keys; ++key)
      for (int64_t i = 0; i < tensor.sizes().back(); ++i) all.push_back(at(tensor, sequence, head, key, i));
    return all;
  }

  std::unique_ptr<Tensor> k, v;
  std::vector<std::vector<int32_t>> tables;
  int64_t rows_of_page = 0;

 private:
  double at(const Tensor& tensor, size_t sequence, int64_t head, int64_t key, int64_t i) const {
    if (x_.page_keys == 0) return tensor.value({static_cast<int64_t>(sequence), kFirstKey + key, head, i});
    return tensor.value({tables[sequence][key / x_.page_keys], key % x_.page_keys, head, i});
  }

  const VarlenCase& x_;
};

struct Result {
  std::unique_ptr<Tensor> q, out, logsumexp;
  std::vector<VarlenSequence> sequences;
};

HeadsPlace place_of(const Tensor& tensor, int64_t page, int64_t head, int64_t row) {
  const int64_t size = size_of(tensor.dtype());
  return {{page * size, head * size, row * size, size}, tensor.dtype()};
}

Result run(const VarlenCase& x, const Cache& cache, const target::Target& target, int32_t workers) {
  Result r;
  int64_t rows = 0;
  for (size_t s = 0; s < x.lengths.size(); ++s) {
    r.sequences.push_back({.first_query = rows,
                           .queries = x.lengths[s].queries,
                           .key_batch = static_cast<int64_t>(s),
                           .first_key = kFirstKey,
                           .keys = x.lengths[s].keys,
                           .pages = cache.tables[s].data()});
    rows += x.lengths[s].queries;
  }
  const int64_t heads = x.heads * x.group;
  r.q = std::make_unique<Tensor>(x.dtype, Sizes{rows, heads, x.size}, Sizes{heads * x.size, x.size, 1});
  r.out =
      std::make_unique<Tensor>(x.dtype, Sizes{rows, heads, x.value_size}, Sizes{heads * x.value_size, x.value_size, 1});
  r.logsumexp = std::make_unique<Tensor>(DType::kF32, Sizes{rows, heads}, Sizes{heads, 1});
  r.q->fill(1);
  r.out->poison();
  const VarlenOperands operands{
      .dtype = x.dtype,
      .heads = x.heads,
      .group = x.group,
      .key_size = x.size,
      .value_size = x.value_size,
      .page_keys = x.page_keys,
      .q = place_of(*r.q, 0, x.size, heads * x.size),
      .k = place_of(*cache.k, cache.rows_of_page * x.heads * x.size, x.size, x.heads * x.size),
      .v = place_of(*cache.v, cache.rows_of_page * x.heads * x.value_size, x.value_size, x.heads * x.value_size),
      .out = place_of(*r.out, 0, x.value_size, heads * x.value_size),
      .logsumexp = place_of(*r.logsumexp, 0, 1, heads),
      .memory = {.q = r.q->at({0, 0, 0}),
                 .k = cache.k->at({0, 0, 0, 0}),
                 .v = cache.v->at({0, 0, 0, 0}),
                 .out = r.out->at({0, 0, 0}),
                 .logsumexp = r.logsumexp->at({0, 0})}};
  const loop::Attention attention{
      .before = x.before, .after = x.after, .position = loop::AttentionPosition::kEnd, .logsumexp = x.logsumexp};
  const VarlenAttention varlen(attention, operands, r.sequences, target);
  const ng_host host{
      .self = nullptr, .workers = workers, .parallel_for = cut_backwards, .set_error = [](const ng_host*, const char*) {
      }};
  std::vector<char> memory(static_cast<size_t>(varlen.workspace()) + 64);
  const uintptr_t first = (reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64;
  varlen.run(host, reinterpret_cast<char*>(first));
  return r;
}

// `k` and `v` are the keys and the values that the head reads.
void check_varlen_row(const VarlenCase& x, const std::vector<double>& k, const std::vector<double>& v, const Result& r,
                      size_t s, int64_t query, int64_t head) {
  const Length& length = x.lengths[s];
  const int64_t row = r.sequences[s].first_query + query, position = length.keys - length.queries + query;
  const auto sees = [&](int64_t key) {
    return (!x.after || key - position <= *x.after) && (!x.before || position - key <= *x.before);
  };
  std::vector<double> p(static_cast<size_t>(length.keys), 0);
  double total = 0;
  std::vector<double> q;
  for (int64_t i = 0; i < x.size; ++i) q.push_back(r.q->value({row, head, i}));
  for (int64_t key = 0; key < length.keys; ++key) {
    double score = 0;
    for (int64_t i = 0; i < x.size; ++i) score += q[i] * k[key * x.size + i];
    if (sees(key)) total += p[key] = std::exp(score / std::sqrt(static_cast<double>(x.size)));
  }
  const double tolerance = x.dtype == DType::kF32 ? 3e-6 : x.dtype == DType::kBF16 ? 0x1p-7 : 0x1p-10;
  for (int64_t i = 0; i < x.value_size; ++i) {
    double expected = 0;
    for (int64_t key = 0; key < length.keys; ++key) expected += p[key] * v[key * x.value_size + i];
    if (total > 0) expected /= total;
    ASSERT_NEAR(r.out->value({row, head, i}), expected, tolerance)
        << "sequence " << s << ", query " << query << ", head " << head << ", element " << i;
  }
  if (!x.logsumexp || total == 0) return;
  ASSERT_NEAR(r.logsumexp->value({row, head}), std::log(total), x.dtype == DType::kF32 ? 3e-6 : 0.01);
}

void check_head(const VarlenCase& x, const Cache& cache, const Result& r, size_t s, int64_t head) {
  const std::vector<double> k = cache.rows(*cache.k, s, head / x.group), v = cache.rows(*cache.v, s, head / x.group);
  for (int64_t query = 0; query < x.lengths[s].queries; ++query) check_varlen_row(x, k, v, r, s, query, head);
}

void check_varlen(VarlenCase x) {
  for (const target::Target& target : target::host_targets()) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (dtype == DType::kF16 && !target.f16c) continue;
      x.dtype = dtype;
      SCOPED_TRACE(cat(target.level, " ", name_of(dtype)));
      const Cache cache(x);
      const Result one = run(x, cache, target, 1);
      for (size_t s = 0; s < x.lengths.size(); ++s)
        for (int64_t head = 0; head < x.heads * x.group; ++head) check_head(x, cache, one, s, head);
      EXPECT_EQ(run(x, cache, target, 3).out->bytes(), one.out->bytes());
    }
  }
}

TEST(VarlenAttention, DecodesSequencesOfAnyLength) {
  check_varlen({.lengths = {{1, 1}, {1, 15}, {1, 16}, {1, 17}, {1, 200}, {1, 700}}, .logsumexp = true});
  check_varlen({.lengths = {{1, 3000}}, .heads = 1, .size = 64, .value_size = 64, .page_keys = 128});
  check_varlen({.lengths = {{1, 40}, {1, 90}}, .group = 1, .size = 40, .value_size = 24, .page_keys = 7});
}

TEST(VarlenAttention, MixesPromptsAndDecodes) {
  for (const int64_t page_keys : {int64_t{16}, int64_t{100}, int64_t{128}}) {
    check_varlen({.lengths = {{1, 30}, {64, 64}, {33, 290}, {1, 5}, {0, 12}, {2, 2}}, .page_keys = page_keys});
    check_varlen(
        {.lengths = {{130, 130}, {1, 1}}, .size = 33, .value_size = 20, .page_keys = page_keys, .logsumexp = true});
  }
}

TEST(VarlenAttention, ReadsRowsOfTensors) {
  check_varlen(
      {.lengths = {{1, 30}, {64, 64}, {33, 290}, {1, 700}, {0, 12}, {300, 300}}, .page_keys = 0, .logsumexp = true});
}

TEST(VarlenAttention, SeesAWindow) {
  for (const int64_t before : {0, 5, 100})
    check_varlen({.lengths = {{1, 400}, {70, 300}, {1, 3}}, .before = before, .logsumexp = true});
  check_varlen({.lengths = {{1, 40}, {20, 50}}, .after = std::nullopt});
}

// Pages are shorter and longer than tiles of keys, which are written whole, and sizes are no multiples of vectors.
TEST(VarlenAttention, OfRandomSequences) {
  std::mt19937 random(1);
  const auto up_to = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint32_t>(most + 1)); };
  for (int number = 0; number < 24; ++number) {
    SCOPED_TRACE(number);
    VarlenCase x{.heads = 1 + up_to(1), .group = 1 + up_to(2), .size = 1 + up_to(40), .value_size = 1 + up_to(40)};
    x.page_keys = up_to(2) == 0 ? up_to(140) : up_to(20);
    for (int64_t more = up_to(3); more >= 0; --more) {
      const int64_t queries = up_to(2) == 0 ? 1 : up_to(70);
      x.lengths.push_back({queries, queries + up_to(100)});
    }
    if (up_to(2) != 0) x.before = up_to(60);
    if (up_to(4) == 0) x.after = std::nullopt;
    x.logsumexp = up_to(1) == 0;
    check_varlen(x);
  }
}

// Pages that no sequence needs may be anything, also those in the table behind the last key.
TEST(VarlenAttention, ReadsNoOtherPages) {
  VarlenCase x{.lengths = {{1, 33}, {20, 40}}, .page_keys = 16};
  Cache cache(x);
  for (std::vector<int32_t>& table : cache.tables) table.push_back(std::numeric_limits<int32_t>::max());
  for (int64_t row = 0; row < x.page_keys; ++row)
    set_element(cache.v->at({0, row, 0, 0}), x.dtype, std::numeric_limits<float>::quiet_NaN());
  const Result r = run(x, cache, target::host_target(), 1);
  for (size_t s = 0; s < x.lengths.size(); ++s) check_head(x, cache, r, s, 0);
}

TEST(VarlenAttention, OfNoSequences) {
  check_varlen({.lengths = {}});
  check_varlen({.lengths = {{0, 0}, {0, 9}}});
}

}  // namespace
}  // namespace npugraph::codegen
