// SPDX-License-Identifier: Apache-2.0
#include "codegen/attention/attention.h"

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/assembly_testing.h"
#include "codegen/attention/piece.h"
#include "codegen/matmul/matmul_testing.h"

namespace npugraph::codegen {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Mask : uint8_t { kNone, kFloats, kBooleans };

struct Case {
  DType dtype = DType::kF32;
  int64_t batches = 1, heads = 2, group = 1, queries = 5, keys = 7, size = 8;
  int64_t value_size = -1;  // -1: the same as `size`
  bool causal = false;      // as with `after` 0
  std::optional<int64_t> before, after;
  loop::AttentionPosition position = loop::AttentionPosition::kStart;
  int64_t given = 0;
  Mask mask = Mask::kNone;
  Sizes mask_sizes;  // empty: the sizes of the scores
  int64_t hidden_from = -1;
  bool heads_inside = false;  // the order in memory is [b, s, h, d], not [b, h, s, d]
  bool columns_apart = false;
  bool logsumexp = false;
  std::optional<double> scale;

  int64_t values() const { return value_size < 0 ? size : value_size; }
  Sizes scores() const { return {batches, heads * group, queries, keys}; }
};

std::string describe(const Case& x, const target::Target& target) {
  return cat(target.level, " ", name_of(x.dtype), " b", x.batches, " h", x.heads, "x", x.group, " q", x.queries, " k",
             x.keys, " d", x.size, "/", x.values(), x.causal ? " causal" : "", " before ", x.before.value_or(-1),
             " after ", x.after.value_or(-1), " at ", static_cast<int>(x.position), " mask", static_cast<int>(x.mask),
             x.heads_inside ? " heads inside" : "", x.columns_apart ? " apart" : "");
}

std::unique_ptr<Tensor> make_tensor(DType dtype, const Sizes& sizes, bool heads_inside, bool columns_apart) {
  const int64_t column = columns_apart ? 2 : 1;
  const int64_t row = std::max<int64_t>(sizes[3] * column, 1);
  const int64_t outer = std::max<int64_t>(row * sizes[1] * sizes[2], 1);
  Sizes strides = heads_inside ? Sizes{outer, row, row * sizes[1], column} : Sizes{outer, row * sizes[2], row, column};
  return std::make_unique<Tensor>(dtype, sizes, strides);
}

Sizes dense_strides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t next = 1;
  for (size_t d = sizes.size(); d-- > 0; next *= std::max<int64_t>(sizes[d], 1)) strides[d] = next;
  return strides;
}

struct Operands {
  std::unique_ptr<Tensor> q, k, v, mask, position, out, logsumexp;

  std::vector<const Tensor*> all() const {
    std::vector<const Tensor*> tensors{q.get(), k.get(), v.get()};
    if (mask) tensors.push_back(mask.get());
    if (position) tensors.push_back(position.get());
    tensors.push_back(out.get());
    if (logsumexp) tensors.push_back(logsumexp.get());
    return tensors;
  }
};

// Hides about a third of the keys at random, all keys from hidden_from on, and all keys of every fifth query.
void fill_mask(const Case& x, const Tensor& mask) {
  std::minstd_rand random(4);
  const Sizes& sizes = mask.sizes();
  Sizes index(sizes.size(), 0);
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) index[d] = rest % sizes[d];
    const int64_t key = index.back(), query = index[sizes.size() - 2];
    const bool hidden = random() % 3 == 0 || (x.hidden_from >= 0 && key >= x.hidden_from) || query % 5 == 3;
    const float added = static_cast<float>(static_cast<int>(random() % 65) - 32) / 16;
    const uint16_t hidden_f16 = 0xfc00;
    if (mask.dtype() == DType::kBool)
      *mask.at(index) = hidden ? 0 : 1;
    else if (mask.dtype() == DType::kF16 && hidden)
      std::memcpy(mask.at(index), &hidden_f16, 2);
    else
      set_element(mask.at(index), mask.dtype(), hidden ? static_cast<float>(-kInfinity) : added);
  }
}

Operands make_operands(const Case& x) {
  Operands o;
  o.q = make_tensor(x.dtype, {x.batches, x.heads * x.group, x.queries, x.size}, x.heads_inside, x.columns_apart);
  o.k = make_tensor(x.dtype, {x.batches, x.heads, x.keys, x.size}, x.heads_inside, x.columns_apart);
  o.v = make_tensor(x.dtype, {x.batches, x.heads, x.keys, x.values()}, x.heads_inside, x.columns_apart);
  o.out = make_tensor(x.dtype, {x.batches, x.heads * x.group, x.queries, x.values()}, x.heads_inside, false);
  o.q->fill(1);
  o.k->fill(2);
  o.v->fill(3);
  o.out->poison();
  if (x.mask != Mask::kNone) {
    const Sizes sizes = x.mask_sizes.empty() ? x.scores() : x.mask_sizes;
    o.mask = std::make_unique<Tensor>(x.mask == Mask::kBooleans ? DType::kBool : x.dtype, sizes, dense_strides(sizes));
    fill_mask(x, *o.mask);
  }
  if (x.position == loop::AttentionPosition::kGiven) {
    o.position = std::make_unique<Tensor>(DType::kI64, Sizes{1}, Sizes{1});
    std::memcpy(o.position->at({0}), &x.given, sizeof(x.given));
  }
  if (x.logsumexp) {
    const Sizes sizes{x.batches, x.heads * x.group, x.queries};
    o.logsumexp = std::make_unique<Tensor>(DType::kF32, sizes, dense_strides(sizes));
    o.logsumexp->poison();
  }
  return o;
}

loop::Attention spec_of(const Case& x) {
  return {.before = x.before,
          .after = x.causal ? std::optional<int64_t>(0) : x.after,
          .position = x.position,
          .mask = x.mask != Mask::kNone,
          .logsumexp = x.logsumexp,
          .scale = x.scale};
}

void run_attention_task(const Case& x, const target::Target& target, const Operands& o, int32_t workers) {
  run_task(make_attention(spec_of(x), x.dtype, target), o.all(), workers, {});
}

double mask_value(const Case& x, const Operands& o, const std::array<int64_t, 4>& at) {
  if (x.causal && at[3] > at[2]) return -kInfinity;
  const int64_t first = x.position == loop::AttentionPosition::kEnd ? x.keys - x.queries : x.given;
  const int64_t beyond = at[3] - (first + at[2]);
  if ((x.after && beyond > *x.after) || (x.before && -beyond > *x.before)) return -kInfinity;
  if (!o.mask) return 0;
  const Sizes& sizes = o.mask->sizes();
  Sizes index(at.end() - static_cast<int64_t>(sizes.size()), at.end());
  for (size_t d = 0; d < sizes.size(); ++d) index[d] = sizes[d] == 1 ? 0 : index[d];
  if (x.mask == Mask::kBooleans) return *o.mask->at(index) ? 0 : -kInfinity;
  // element_value() gives a finite number for -infinity of f16.
  const double value = o.mask->value(index);
  return value < -60000 ? -kInfinity : value;
}

// What scores and results are computed from, as numbers.
struct Numbers {
  explicit Numbers(const Operands& o) : q(o.q->numbers()), k(o.k->numbers()), v(o.v->numbers()) {}

  std::vector<double> q, k, v;
};

// The scores of a row, in f64.
std::vector<double> exact_scores(const Case& x, const Operands& o, const Numbers& numbers, int64_t batch, int64_t head,
                                 int64_t query) {
  const double scale = x.scale.value_or(1 / std::sqrt(static_cast<double>(x.size)));
  const double* q = numbers.q.data() + ((batch * x.heads * x.group + head) * x.queries + query) * x.size;
  const double* k = numbers.k.data() + (batch * x.heads + head / x.group) * x.keys * x.size;
  std::vector<double> scores;
  for (int64_t key = 0; key < x.keys; ++key) {
    double sum = 0;
    for (int64_t i = 0; i < x.size; ++i) sum += q[i] * k[key * x.size + i];
    scores.push_back(sum * scale + mask_value(x, o, {batch, head, query, key}));
  }
  return scores;
}

void check_row(const Case& x, const Operands& o, const Numbers& numbers, int64_t batch, int64_t head, int64_t query,
               int& wrong) {
  std::vector<double> p = exact_scores(x, o, numbers, batch, head, query);
  const double* v = numbers.v.data() + (batch * x.heads + head / x.group) * x.keys * x.values();
  double largest = -kInfinity, total = 0;
  for (const double score : p) largest = std::max(largest, score);
  for (double& score : p) {
    score = largest == -kInfinity ? 0 : std::exp(score - largest);
    total += score;
  }
  const double tolerance = x.dtype == DType::kF32 ? 3e-6 : x.dtype == DType::kBF16 ? 0x1p-7 : 0x1p-10;
  for (int64_t i = 0; i < x.values(); ++i) {
    double expected = 0;
    for (int64_t key = 0; key < x.keys; ++key) expected += p[key] * v[key * x.values() + i];
    if (total > 0) expected /= total;
    const double got = o.out->value({batch, head, query, i});
    if (!(std::abs(got - expected) <= tolerance) && wrong++ == 0)
      ADD_FAILURE() << "head " << head << ", query " << query << ", element " << i << ": " << got << ", not "
                    << expected;
  }
  if (!x.logsumexp) return;
  const double expected = total > 0 ? largest + std::log(total) : 0;
  EXPECT_NEAR(o.logsumexp->value({batch, head, query}), expected, x.dtype == DType::kF32 ? 3e-6 : 0.01);
}

void check(const Case& x, const target::Target& target) {
  SCOPED_TRACE(describe(x, target));
  const Operands o = make_operands(x);
  run_attention_task(x, target, o, 1);
  int wrong = 0;
  const Numbers numbers(o);
  for (int64_t batch = 0; batch < x.batches; ++batch) {
    for (int64_t head = 0; head < x.heads * x.group; ++head) {
      for (int64_t query = 0; query < x.queries; ++query) check_row(x, o, numbers, batch, head, query, wrong);
    }
  }
  EXPECT_EQ(wrong, 0);
}

void check_types(Case x) {
  for (const target::Target& target : target::host_targets()) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (dtype == DType::kF16 && !target.f16c) continue;
      x.dtype = dtype;
      check(x, target);
    }
  }
}

TEST(Attention, ComputesFewAndManyRowsOfAnySize) {
  for (const int64_t queries : {0, 1, 3, 8, 9, 17, 33, 130}) {
    for (const auto& [keys, size] : {std::pair<int64_t, int64_t>{1, 1}, {5, 8}, {17, 64}, {100, 20}, {193, 33}})
      check_types({.queries = queries, .keys = keys, .size = size});
  }
}

TEST(Attention, CutsLongRowsOfKeysIntoChunks) {
  check_types({.heads = 1, .queries = 1, .keys = 1500, .size = 64});
  check_types({.heads = 1, .group = 3, .queries = 2, .keys = 700, .size = 40, .causal = true, .logsumexp = true});
  check_types({.heads = 1, .queries = 12, .keys = 4100, .size = 16, .mask = Mask::kFloats, .hidden_from = 1500});
}

TEST(Attention, SharesKeysBetweenHeads) {
  for (const int64_t queries : {1, 2, 7, 40})
    check_types({.batches = 2, .heads = 3, .group = 3, .queries = queries, .keys = 130, .size = 64});
  check_types({.heads = 1, .group = 40, .queries = 1, .keys = 130, .size = 16});
}

TEST(Attention, HidesLaterKeys) {
  for (const int64_t queries : {1, 4, 9, 70, 200}) {
    for (const int64_t group : {1, 3})
      check_types({.group = group, .queries = queries, .keys = 150, .size = 16, .causal = true, .logsumexp = true});
  }
}

TEST(Attention, LetsQueriesSeeKeysAroundTheirPositions) {
  using enum loop::AttentionPosition;
  for (const int64_t queries : {1, 4, 50, 130}) {
    for (const auto& [position, given] :
         {std::pair{kStart, 0}, {kEnd, 0}, {kGiven, 70}, {kGiven, -20}, {kGiven, 400}}) {
      Case x{.group = 2, .queries = queries, .keys = 150, .size = 16, .logsumexp = true};
      x.position = position;
      x.given = given;
      x.after = 0;
      check_types(x);
      x.before = 20;
      check_types(x);
      x.after = std::nullopt;
      check_types(x);
      x.after = 30;
      x.mask = Mask::kBooleans;
      check(x, target::host_target());
      x.mask_sizes = {1, 150};
      check(x, target::host_target());
    }
  }
  check_types({.heads = 1,
               .queries = 1,
               .keys = 1500,
               .size = 64,
               .before = 800,
               .after = 0,
               .position = kGiven,
               .given = 1200});
}

TEST(Attention, CutsWhatIsSeenOfALongCache) {
  for (const int64_t given : {0, 15, 129, 600, 2047}) {
    Case x{.heads = 2, .group = 2, .queries = 1, .keys = 2048, .size = 16, .after = 0, .logsumexp = true};
    x.position = loop::AttentionPosition::kGiven;
    x.given = given;
    check(x, target::host_target());
    x.queries = 12;
    check(x, target::host_target());
  }
}

TEST(Attention, DoesNotReadKeysBeyondThePositions) {
  for (const int64_t queries : {1, 20}) {
    Case x{.heads = 1, .queries = queries, .keys = 700, .size = 16, .before = 90, .after = 0};
    x.position = loop::AttentionPosition::kGiven;
    x.given = 300;
    const Operands o = make_operands(x);
    for (int64_t key = 0; key < 700; ++key) {
      if (key < 210 || key >= 300 + queries)
        set_element(o.v->at({0, 0, key, 0}), DType::kF32, std::numeric_limits<float>::quiet_NaN());
    }
    run_attention_task(x, target::host_target(), o, 1);
    for (int64_t query = 0; query < queries; ++query) EXPECT_FALSE(std::isnan(o.out->value({0, 0, query, 0}))) << query;
  }
}

TEST(Attention, TakesMasksOfAnyShape) {
  for (const int64_t queries : {1, 6, 50}) {
    for (const Mask mask : {Mask::kFloats, Mask::kBooleans}) {
      Case x{.batches = 2, .group = 2, .queries = queries, .keys = 140, .size = 16, .mask = mask, .hidden_from = 90};
      x.logsumexp = true;
      check_types(x);
      for (const Sizes& sizes : {Sizes{queries, 140}, {1, 140}, {queries, 1}, {2, 1, 1, 140}, {1, 4, queries, 140}}) {
        x.mask_sizes = sizes;
        check_types(x);
      }
    }
  }
}

TEST(Attention, AddsAMaskToTheCausalOne) {
  for (const int64_t queries : {3, 64})
    check_types({.queries = queries, .keys = 64, .size = 16, .causal = true, .mask = Mask::kFloats});
}

TEST(Attention, TakesAnyStrides) {
  for (const int64_t queries : {2, 40}) {
    for (const bool apart : {false, true}) {
      check_types({.queries = queries, .keys = 70, .size = 24, .heads_inside = true, .columns_apart = apart});
      check_types({.queries = queries, .keys = 70, .size = 7, .heads_inside = true, .columns_apart = apart});
    }
  }
}

void for_each_place(const Sizes& sizes, const std::function<void(const Sizes&)>& visit) {
  for (int64_t b = 0; b < sizes[0]; ++b)
    for (int64_t h = 0; h < sizes[1]; ++h)
      for (int64_t row = 0; row < sizes[2]; ++row)
        for (int64_t i = 0; i < sizes[3]; ++i) visit({b, h, row, i});
}

// Rows of keys that would compete for a few sets of the cache are copied first. The results equal those of adjacent
// rows.
TEST(Attention, GivesTheSameBitsWhereKeysStandFarApart) {
  for (const auto position : {loop::AttentionPosition::kStart, loop::AttentionPosition::kEnd}) {
    Case x{.heads = 16, .queries = 800, .keys = 1100, .size = 16, .after = 0, .position = position};
    const Operands dense = make_operands(x);
    x.heads_inside = true;
    const Operands apart = make_operands(x);
    for (const auto& [from, to] : {std::pair{&dense.q, &apart.q}, {&dense.k, &apart.k}, {&dense.v, &apart.v}})
      for_each_place((*from)->sizes(), [&](const Sizes& at) { std::memcpy((*to)->at(at), (*from)->at(at), 4); });
    run_attention_task(x, target::host_target(), apart, 3);
    x.heads_inside = false;
    run_attention_task(x, target::host_target(), dense, 3);
    int64_t wrong = 0;
    for_each_place(dense.out->sizes(),
                   [&](const Sizes& at) { wrong += std::memcmp(dense.out->at(at), apart.out->at(at), 4) != 0; });
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Attention, TakesValuesOfAnotherSizeThanKeys) {
  for (const int64_t queries : {2, 40}) {
    for (const int64_t values : {0, 1, 13, 100})
      check_types({.queries = queries, .keys = 70, .size = 24, .value_size = values});
  }
}

TEST(Attention, ScalesAsAsked) {
  for (const int64_t queries : {2, 40}) {
    for (const double scale : {0.0, 1.0, -0.7})
      check_types({.queries = queries, .keys = 70, .size = 24, .logsumexp = true, .scale = scale});
  }
}

TEST(Attention, GivesZerosWithoutKeys) {
  for (const int64_t queries : {2, 40}) check_types({.queries = queries, .keys = 0, .size = 24, .logsumexp = true});
}

TEST(Attention, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{1, 1500}, {300, 300}, {12, 4100}}) {
    Case x{.heads = 1, .group = 3, .queries = queries, .keys = keys, .size = 64};
    const Operands o = make_operands(x);
    run_attention_task(x, target::host_target(), o, 1);
    const std::vector<char> one = o.out->bytes();
    for (const int32_t workers : {2, 3, 100}) {
      o.out->poison();
      run_attention_task(x, target::host_target(), o, workers);
      EXPECT_EQ(o.out->bytes(), one) << queries << " queries, " << workers << " workers";
    }
  }
}

TEST(Attention, KeepsNaNsInTheirRows) {
  for (const int64_t queries : {4, 40}) {
    Case x{.queries = queries, .keys = 100, .size = 16};
    const Operands o = make_operands(x);
    set_element(o.q->at({0, 1, 2, 3}), DType::kF32, std::numeric_limits<float>::quiet_NaN());
    run_attention_task(x, target::host_target(), o, 1);
    for (int64_t head = 0; head < 2; ++head) {
      for (int64_t query = 0; query < queries; ++query)
        EXPECT_EQ(std::isnan(o.out->value({0, head, query, 5})), head == 1 && query == 2) << head << " " << query;
    }
  }
}

TEST(Attention, DoesNotReadKeysThatTheMaskHidesFromAll) {
  for (const int64_t queries : {4, 40}) {
    Case x{.queries = queries, .keys = 400, .size = 16, .mask = Mask::kBooleans, .hidden_from = 90};
    const Operands o = make_operands(x);
    for (int64_t key = 192; key < 400; ++key)
      set_element(o.v->at({0, 0, key, 0}), DType::kF32, std::numeric_limits<float>::quiet_NaN());
    run_attention_task(x, target::host_target(), o, 1);
    EXPECT_FALSE(std::isnan(o.out->value({0, 0, 0, 0})));
  }
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const auto binds = [](const Case& x, const Operands& o) {
    const ng_task task = make_attention(spec_of(x), x.dtype, target::host_target());
    std::vector<ng_buffer> buffers;
    for (const Tensor* tensor : o.all()) buffers.push_back(tensor->buffer());
    const ng_call call{.buffers = buffers.data(),
                       .num_buffers = static_cast<uint32_t>(buffers.size()),
                       .abi_version = NG_TASK_ABI_VERSION};
    void* state = nullptr;
    const bool bound = task.bind(task.context, &call, &state) == NG_OK;
    task.unbind(task.context, state);
    task.destroy(task.context);
    return bound;
  };
  const Case x{.mask = Mask::kFloats};
  EXPECT_TRUE(binds(x, make_operands(x)));
  for (const Sizes& sizes : {Sizes{5, 6}, {3, 1, 5, 7}, {7}}) {
    Case wrong = x;
    wrong.mask_sizes = sizes;
    Operands o = make_operands(x);
    o.mask = std::make_unique<Tensor>(DType::kF32, sizes, dense_strides(sizes));
    EXPECT_FALSE(binds(wrong, o));
  }
  Operands o = make_operands(x);
  o.k = make_tensor(DType::kF32, {1, 2, 7, 9}, false, false);
  EXPECT_FALSE(binds(x, o));
  EXPECT_THROW(make_attention({}, DType::kF64, target::host_target()), UserError);
}

}  // namespace

// The instructions that attention is made of, on each level of the processor.

namespace {

using target::Target;

TEST(Instructions, SoftmaxOfARow) {
  for (const Target& target : target::host_targets()) {
    const std::string text =
        assembly_of(target, softmax_row_type, [&](llvm::Function* f) { emit_softmax_row(f, true, target); });
    expect_instruction(text, "v?maxps|fmaxn?m|fcmg[et]", vectors_of(target), target);
    expect_instruction(text, "v?mulps|vfm.*ps|fmul|fm[al].*", vectors_of(target), target);
  }
}

TEST(Instructions, ProbabilitiesTimesValues) {
  for (const Target& target : target::host_targets()) {
    const std::string text =
        assembly_of(target, value_tile_type, [&](llvm::Function* f) { emit_value_tile(f, 4, 2, false, target); });
    expect_instruction(text, "mulps|vfm.*ps|fm[al].*", vectors_of(target), target);
  }
}

}  // namespace

}  // namespace npugraph::codegen
