// SPDX-License-Identifier: Apache-2.0
// Every kernel of the table against its reference, over random shapes, strides and values.
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/kernel_case.h"
#include "kernels/linear.h"

namespace npugraph::kernels {

namespace {

constexpr int kRounds = 60;
constexpr DType kNumbers[] = {DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32,
                              DType::kI64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

Sizes random_shape(Random& random) {
  Sizes sizes(random.below(6));
  for (int64_t& size : sizes) size = random.one_in(25) ? 0 : 1 + random.below(random.one_in(4) ? 40 : 5);
  return sizes;
}

// A shape that broadcasts to `sizes`.
Sizes narrower(Random& random, Sizes sizes) {
  if (random.one_in(2)) return sizes;
  for (int64_t& size : sizes) {
    if (random.one_in(3)) size = 1;
  }
  const auto dropped = std::min<int64_t>(random.below(3), static_cast<int64_t>(sizes.size()));
  sizes.erase(sizes.begin(), sizes.begin() + dropped);
  return sizes;
}

Scalar random_scalar(Random& random, DType dtype) {
  if (dtype == DType::kBool) return Scalar::of_bool(random.one_in(2));
  if (is_floating(dtype) && random.one_in(2)) return Scalar::of_float(interesting_number(random));
  return Scalar::of_int(random.below(9) - 4);
}

struct Elementwise {
  std::vector<DType> inputs;
  DType result;
};

bool takes(const Kernel& kernel, const Elementwise& type) {
  Random random(1);
  KernelCase test(kernel.name);
  for (const DType input : type.inputs) test.add_input(random, input, {2});
  test.add_result(random, type.result, {2});
  try {
    const ng_task made = test.make(kernel);
    made.destroy(made.context);
  } catch (const UserError&) {
    return false;
  }
  return true;
}

// The types that an elementwise kernel takes; empty for other kernels.
std::vector<Elementwise> elementwise_types(const Kernel& kernel) {
  const std::string_view name = kernel.name;
  if (!name.starts_with("kernel.unary_") && !name.starts_with("kernel.binary_") && name != "kernel.where") return {};
  constexpr DType kTypes[] = {DType::kF32, DType::kI64, DType::kBool};
  std::vector<std::vector<DType>> inputs = {{}};
  std::vector<Elementwise> taken;
  for (size_t count = 1; count <= 3; ++count) {
    std::vector<std::vector<DType>> longer;
    for (const auto& shorter : inputs) {
      for (const DType next : kTypes) {
        longer.push_back(shorter);
        longer.back().push_back(next);
      }
    }
    inputs = std::move(longer);
    for (const auto& of_inputs : inputs) {
      for (const DType result : kTypes) {
        if (takes(kernel, {of_inputs, result})) taken.push_back({of_inputs, result});
      }
    }
  }
  EXPECT_FALSE(taken.empty()) << name;
  return taken;
}

void expect_same_bits(KernelCase& test, const Kernel& kernel, bool parallel = false) {
  const auto expected = test.run_reference(kernel);
  for (const int32_t workers : {1, 2, 3}) {
    EXPECT_TRUE(test.run(kernel, workers) == expected) << kernel.name << " with " << workers << " threads";
    if (parallel) {
      EXPECT_EQ(test.busy_threads(), workers) << kernel.name;
    }
  }
}

KernelCase elementwise_case(const Kernel& kernel, const Elementwise& type, Random& random, const Sizes& sizes) {
  KernelCase test(kernel.name);
  // The last input is always a tensor.
  for (size_t i = 0; i < type.inputs.size(); ++i) {
    const bool may_be_scalar = i > 0 || type.inputs.size() == 2;
    if (may_be_scalar && i + 1 < type.inputs.size() && random.one_in(5)) {
      test.add_scalar(random, random_scalar(random, type.inputs[i]));
    } else {
      test.add_input(random, type.inputs[i], narrower(random, sizes));
    }
  }
  test.add_result(random, type.result, sizes);
  return test;
}

bool test_elementwise(const Kernel& kernel, Random& random) {
  const auto types = elementwise_types(kernel);
  for (const Elementwise& type : types) {
    for (int round = 0; round < kRounds; ++round) {
      KernelCase test = elementwise_case(kernel, type, random, random_shape(random));
      expect_same_bits(test, kernel);
    }
  }
  return !types.empty();
}

bool test_memory(const Kernel& kernel, Random& random) {
  const std::string_view name = kernel.name;
  if (name != "kernel.copy" && name != "kernel.cast" && name != "kernel.fill" && name != "kernel.arange") return false;
  for (const DType from : kNumbers) {
    for (const DType to : kNumbers) {
      if (name == "kernel.copy" && size_of(from) != size_of(to)) continue;
      for (int round = 0; round < 6; ++round) {
        KernelCase test(kernel.name);
        const Sizes sizes = name == "kernel.arange" ? Sizes{random.below(50)} : random_shape(random);
        if (name == "kernel.copy" || name == "kernel.cast") {
          test.add_input(random, from, narrower(random, sizes));
        } else {
          test.add_scalar(random, random_scalar(random, from));
        }
        if (name == "kernel.arange" && random.one_in(2)) test.add_scalar(random, random_scalar(random, from));
        test.add_result(random, to, sizes);
        expect_same_bits(test, kernel);
      }
    }
  }
  return true;
}

// Compares f32 elements within a bound on the rounding errors of a sum of k products of numbers up to 1.
void expect_close(const std::vector<char>& actual, const std::vector<char>& expected, int64_t k) {
  ASSERT_EQ(actual.size(), expected.size());
  const double bound = 0x1p-24 * static_cast<double>((k + 1) * (k + 1));
  for (size_t i = 0; i < actual.size(); i += 4) {
    float a = 0;
    float e = 0;
    std::memcpy(&a, &actual[i], 4);
    std::memcpy(&e, &expected[i], 4);
    EXPECT_NEAR(a, e, bound);
  }
}

bool test_product(const Kernel& kernel, Random& random) {
  const bool transposed = kernel.name == std::string_view("kernel.linear_f32");
  if (!transposed && kernel.name != std::string_view("kernel.mm_f32")) return false;
  for (int round = 0; round < 200; ++round) {
    const auto size = [&] { return random.one_in(20) ? 0 : 1 + random.below(random.one_in(4) ? 150 : 20); };
    const int64_t m = size(), n = size(), k = size();
    KernelCase test(kernel.name);
    test.moderate = true;
    test.add_input(random, DType::kF32, {m, k});
    test.add_input(random, DType::kF32, transposed ? Sizes{n, k} : Sizes{k, n});
    if (random.one_in(2)) test.add_input(random, DType::kF32, {n});
    if (random.one_in(2)) test.add_flag(random.one_in(2));
    test.add_result(random, DType::kF32, {m, n});
    const auto result = test.run(kernel, 1);
    expect_close(result, test.run_reference(kernel), k);
    EXPECT_EQ(test.run(kernel, 2), result) << "m=" << m << " n=" << n << " k=" << k;
    EXPECT_EQ(test.run(kernel, 3), result) << "m=" << m << " n=" << n << " k=" << k;
  }
  return true;
}

bool test_embedding_backward(const Kernel& kernel, Random& random) {
  if (kernel.name != std::string_view("kernel.embedding_dense_backward")) return false;
  for (int round = 0; round < 200; ++round) {
    Sizes places(random.below(4));
    for (int64_t& size : places) size = random.one_in(20) ? 0 : 1 + random.below(6);
    const bool large = random.one_in(20);
    const int64_t rows = large ? 4000 : 1 + random.below(30), width = large ? 70 : 1 + random.below(20);
    Sizes gradients = places;
    gradients.push_back(width);
    const DType dtype = random.one_in(2) ? DType::kF32 : DType::kF64;
    KernelCase test(kernel.name);
    test.add_input(random, dtype, gradients);
    test.add_input(random, random.one_in(2) ? DType::kI32 : DType::kI64, places);
    if (random.one_in(2)) test.add_scalar(random, Scalar::of_int(random.below(rows + 1) - 1));
    test.add_result(random, dtype, {rows, width});
    expect_same_bits(test, kernel, large);
  }
  return true;
}

// Rows along a dimension of x, which counts from the end or from the front.
bool test_order(const Kernel& kernel, Random& random) {
  const std::string_view name = kernel.name;
  const bool is_chosen = name == "kernel.topk";
  if (name != "kernel.sort" && name != "kernel.cummax" && !is_chosen) return false;
  for (const DType dtype : kNumbers) {
    for (int round = 0; round < kRounds; ++round) {
      const bool is_large = random.one_in(20);
      const Sizes sizes = is_large ? Sizes{500, 11, 9} : random_shape(random);
      const auto rank = static_cast<int64_t>(sizes.size());
      const int64_t dim = rank == 0 ? 0 : random.below(rank);
      KernelCase test(kernel.name);
      test.add_input(random, dtype, sizes);
      test.add_scalar(random, Scalar::of_int(rank > 0 && random.one_in(2) ? dim - rank : dim));
      if (name != "kernel.cummax" && !random.one_in(4)) test.add_flag(random.one_in(2));
      Sizes results = sizes;
      if (is_chosen && rank > 0) {
        int64_t& size = results[static_cast<size_t>(dim)];
        size = random.one_in(2) ? size / 70 : random.below(size + 1);
      }
      test.add_result(random, dtype, results);
      test.add_result(random, DType::kI64, results);
      expect_same_bits(test, kernel);
    }
  }
  return true;
}

// A row that is sorted: equal elements, which are below, above or equal to a value together.
bool test_search(const Kernel& kernel, Random& random) {
  if (kernel.name != std::string_view("kernel.searchsorted")) return false;
  for (const DType dtype : kNumbers) {
    for (int round = 0; round < kRounds; ++round) {
      const Sizes sizes = random_shape(random);
      const bool is_shared = sizes.empty() || random.one_in(2);
      Sizes sequence = is_shared ? Sizes{} : Sizes(sizes.begin(), sizes.end() - 1);
      sequence.push_back(random.one_in(2) ? 0 : 1);
      KernelCase test(kernel.name);
      test.add_input(random, dtype, sequence);
      test.add_input(random, dtype, sizes);
      if (random.one_in(2)) {
        test.add_input(random, DType::kI64, sequence);
      } else {
        test.add_nothing();
      }
      test.add_flag(random.one_in(2));
      test.add_result(random, random.one_in(2) ? DType::kI64 : DType::kI32, sizes);
      expect_same_bits(test, kernel);
    }
  }
  return true;
}

bool test_histogram(const Kernel& kernel, Random& random) {
  if (kernel.name != std::string_view("kernel.histc")) return false;
  for (int round = 0; round < 5 * kRounds; ++round) {
    KernelCase test(kernel.name);
    const DType dtype = random.one_in(2) ? DType::kF32 : DType::kF64;
    test.moderate = random.one_in(2);  // elements have a finite range
    test.add_input(random, dtype, random_shape(random));
    const int64_t min = random.below(9) - 4, width = test.moderate ? random.below(3) : 1 + random.below(9);
    test.add_scalar(random, Scalar::of_int(min));
    test.add_scalar(random, Scalar::of_int(min + width));
    test.add_result(random, dtype, {1 + random.below(20)});
    expect_same_bits(test, kernel);
  }
  return true;
}

// Matrices of any strides, and ends of groups in any order, of which some are beyond the rows.
bool test_grouped(const Kernel& kernel, Random& random) {
  if (kernel.name != std::string_view("kernel.grouped_mm")) return false;
  for (int round = 0; round < 200; ++round) {
    const auto size = [&] { return random.one_in(20) ? 0 : 1 + random.below(random.one_in(4) ? 150 : 12); };
    const int64_t m = size(), n = size(), k = size(), groups = random.below(6);
    KernelCase test(kernel.name);
    test.moderate = true;
    test.add_input(random, DType::kF32, {m, k});
    test.add_input(random, DType::kF32, {groups, k, n});
    test.moderate = false;
    test.add_input(random, random.one_in(2) ? DType::kI64 : DType::kI32, {groups});
    test.moderate = true;
    test.add_result(random, DType::kF32, {m, n});
    const auto result = test.run(kernel, 1);
    expect_close(result, test.run_reference(kernel), k);
    EXPECT_EQ(test.run(kernel, 2), result) << "m=" << m << " n=" << n << " k=" << k;
  }
  return true;
}

// Its files are compared in tests/unit/core/ge/api/dump_test.cc and tests/python/ge/test_engine_dumps.py.
bool test_dump(const Kernel& kernel) { return kernel.name == std::string_view("kernel.dump"); }

// Fails for a kernel that no case covers.
TEST(Kernels, EveryKernelAgreesWithItsReference) {
  Random random(1);
  for (const Kernel& kernel : table()) {
    SCOPED_TRACE(kernel.name);
    const bool tested = test_elementwise(kernel, random) || test_memory(kernel, random) ||
                        test_product(kernel, random) || test_embedding_backward(kernel, random) ||
                        test_order(kernel, random) || test_search(kernel, random) || test_histogram(kernel, random) ||
                        test_grouped(kernel, random) || test_dump(kernel);
    EXPECT_TRUE(tested) << "no test for " << kernel.name;
    if (HasFailure()) return;
  }
}

// A shape with at least `elements` elements, in one to three dimensions.
Sizes large_shape(Random& random, int64_t elements) {
  Sizes sizes(random.below(3), 1);
  for (int64_t& size : sizes) size = 2 + random.below(40);
  const int64_t row = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  sizes.insert(sizes.begin() + random.below(static_cast<int64_t>(sizes.size()) + 1), elements / row + 1);
  return sizes;
}

// Enough for every thread to have work.
constexpr int64_t kManyElements = 3 * 32768;
constexpr int64_t kManyBytes = 3 * 256 * 1024;

TEST(Kernels, LargeElementwiseCallsGiveTheSameBitsWithAnyNumberOfThreads) {
  Random random(2);
  for (const Kernel& kernel : table()) {
    for (const Elementwise& type : elementwise_types(kernel)) {
      KernelCase test = elementwise_case(kernel, type, random, large_shape(random, kManyElements));
      expect_same_bits(test, kernel, true);
    }
  }
}

TEST(Kernels, LargeCopiesAndCastsGiveTheSameBitsWithAnyNumberOfThreads) {
  Random random(3);
  for (const std::string_view name : {"kernel.copy", "kernel.cast"}) {
    const Kernel& kernel = *find(name);
    for (const DType from : {DType::kBool, DType::kI64, DType::kBF16, DType::kF32}) {
      for (const DType to : {DType::kBool, DType::kI64, DType::kBF16, DType::kF32}) {
        if (name == "kernel.copy" && from != to) continue;
        KernelCase test(kernel.name);
        const Sizes sizes = large_shape(random, kManyBytes / size_of(to));
        test.add_input(random, from, narrower(random, sizes));
        test.add_result(random, to, sizes);
        expect_same_bits(test, kernel, true);
      }
    }
  }
}

TEST(Kernels, LargeProductsGiveTheSameBitsWithAnyNumberOfThreads) {
  Random random(4);
  for (const std::string_view name : {"kernel.linear_f32", "kernel.mm_f32"}) {
    for (const Sizes& size : {Sizes{1, 2000, 700}, Sizes{3, 1000, 701}, Sizes{200, 80, 65}, Sizes{97, 1030, 33}}) {
      const int64_t m = size[0], n = size[1], k = size[2];
      KernelCase test{std::string(name)};
      test.moderate = true;
      test.add_input(random, DType::kF32, {m, k});
      test.add_input(random, DType::kF32, name == "kernel.linear_f32" ? Sizes{n, k} : Sizes{k, n});
      test.add_input(random, DType::kF32, {n});
      test.add_result(random, DType::kF32, {m, n});
      const auto one = test.run(*find(name), 1);
      for (const int32_t workers : {2, 3}) {
        EXPECT_TRUE(test.run(*find(name), workers) == one) << name << " m=" << m << " n=" << n << " k=" << k;
        EXPECT_EQ(test.busy_threads(), workers);
      }
    }
  }
}

TEST(Kernels, NamesAreFoundAndUnique) {
  std::set<std::string_view> names;
  for (const Kernel& kernel : table()) {
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
    EXPECT_EQ(find(kernel.name), &kernel);
  }
  EXPECT_EQ(find("kernel.nothing"), nullptr);
}

std::string message_of(KernelCase& test) {
  try {
    test.make(*find(test.name()));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Kernels, OperandsThatDoNotFitAreNamed) {
  Random random(1);
  KernelCase add("kernel.binary_add");
  add.add_input(random, DType::kF32, {2});
  add.add_input(random, DType::kF64, {2});
  add.add_result(random, DType::kF32, {2});
  EXPECT_EQ(message_of(add), "kernel.binary_add: input 1 is f64, not f32");

  KernelCase alone("kernel.binary_mul");
  alone.add_input(random, DType::kF32, {2});
  alone.add_result(random, DType::kF32, {2});
  EXPECT_EQ(message_of(alone), "kernel.binary_mul: takes 2 inputs");

  KernelCase cast("kernel.cast");
  cast.add_input(random, DType::kC64, {2});
  cast.add_result(random, DType::kF32, {2});
  EXPECT_EQ(message_of(cast), "kernel.cast: does not convert c64 to f32");

  KernelCase mm("kernel.mm_f32");
  mm.add_input(random, DType::kF32, {2});
  mm.add_input(random, DType::kF32, {2, 2});
  mm.add_result(random, DType::kF32, {2, 2});
  EXPECT_EQ(message_of(mm), "kernel.mm_f32: operand 0 has 1 dimensions");
}

}  // namespace

// The products of every instruction set that this processor has; the test of the kernel table uses only the fastest
// one.

namespace {

// Small integers: every sum is exact, whatever its order.
std::vector<float> integers(int64_t count, int64_t seed) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 7 + seed) % 11 - 5);
  return values;
}

void check(const ProductFunctions& functions, int64_t m, int64_t n, int64_t k, bool dense_k) {
  const auto x = integers(m * k, 1);
  const auto w = integers(n * k, 2);
  const auto bias = integers(n, 3);
  std::vector<float> y(m * n, -1.0f);
  const Product p{m,           n, k,        x.data(), k, 1,   w.data(), dense_k ? 1 : n, dense_k ? k : 1,
                  bias.data(), 1, y.data(), n,        1, true};
  const ProductFunction run = dense_k ? functions.dense_k : functions.dense_n;
  run(p, 0, n / 3);
  run(p, n / 3, n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = bias[j];
      for (int64_t l = 0; l < k; ++l) sum += x[i * k + l] * w[l * p.w_k + j * p.w_n];
      ASSERT_EQ(y[i * n + j], sum > 0 ? sum : 0) << m << " " << n << " " << k << " " << dense_k;
    }
  }
}

TEST(Linear, EveryInstructionSetIsRight) {
  for (const ProductFunctions& functions : product_functions()) {
    for (const int64_t m : {1, 2, 3}) {
      for (const int64_t n : {1, 3, 4, 8, 15, 16, 33, 64, 75}) {
        for (const int64_t k : {0, 1, 4, 7, 16, 64, 70}) {
          check(functions, m, n, k, true);
          check(functions, m, n, k, false);
        }
      }
    }
  }
}

}  // namespace

}  // namespace npugraph::kernels
