// SPDX-License-Identifier: Apache-2.0
// Every operator and every conversion, for special and for random values.
#include <limits>

#include "codegen/kernel/kernel_testing.h"
#include "loop/builder.h"
#include "loop/op.h"

namespace npugraph::codegen {
namespace {

using loop::Builder;
using loop::Op;
using loop::Value;

constexpr DType kAll[] = {DType::kBool,       DType::kU8,         DType::kI8,       DType::kI16,      DType::kI32,
                          DType::kI64,        DType::kF16,        DType::kBF16,     DType::kF32,      DType::kF64,
                          DType::kU16,        DType::kU32,        DType::kU64,      DType::kF8E4M3FN, DType::kF8E5M2,
                          DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ, DType::kF8E8M0FNU};

std::vector<double> special_floats() {
  const double inf = std::numeric_limits<double>::infinity();
  return {0.0,          -0.0,        1,           -1,           0.5,         -0.5,   1.5,    2.5,    -2.5,
          3.75,         127,         128,         255,          256,         -129,   1e3,    65504,  65520,
          1e5,          2147483520., 2147483648., -2147483648., 4294967295., 9.2e18, 9.3e18, 1.8e19, 2e19,
          1e30,         -1e30,       1e-8,        -6e-8,        1e-40,       3e-39,  -1e-40, inf,    -inf,
          std::nan(""), 1e-3,        448,         464,          480,         57344,  61440,  0.0019, 0.0009};
}

// Special values, then random ones.
Array values_of(DType dtype, int64_t elements, uint64_t seed) {
  Array out = random_array(dtype, elements, seed);
  const std::vector<double> special = special_floats();
  for (size_t i = 0; i < special.size() && static_cast<int64_t>(i) < elements; ++i) {
    if (dtype == DType::kF32) out.data<float>()[i] = static_cast<float>(special[i]);
    if (dtype == DType::kF64) out.data<double>()[i] = special[i];
  }
  const int64_t size = size_of(dtype);
  if (is_floating(dtype) || dtype == DType::kBool) return out;
  // 0, 1, -1, the smallest and the largest integer of the type.
  for (int64_t i = 0; i < 25 && i < elements; ++i) {
    const uint64_t top = uint64_t{1} << (8 * size - 1);
    const uint64_t corner[] = {0, 1, ~uint64_t{0}, top, top - 1};
    std::memcpy(out.bytes.data() + i * size, &corner[seed % 2 == 0 ? i % 5 : i / 5], static_cast<size_t>(size));
  }
  return out;
}

void test_operator(Op op, DType type) {
  const loop::OpInfo& info = loop::info_of(op);
  std::vector<DType> types(static_cast<size_t>(info.arity), type);
  if (op == Op::kSelect) types[0] = DType::kBool;
  const std::optional<DType> result = loop::result_type(op, types);
  if (!result || !loop::type_error(op, types, *result).empty()) return;
  constexpr int64_t kElements = 300;
  Builder b(std::string(info.name));
  const Expr n = b.scalar("n");
  std::vector<Array> arrays;
  std::vector<loop::BufferId> inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    inputs.push_back(b.in(cat("x", i), types[i]));
    arrays.push_back(values_of(types[i], kElements, i + 1));
  }
  const loop::BufferId y = b.out("y", *result);
  arrays.push_back(zeros(*result, kElements));
  const bool divides = (op == Op::kFmod || op == Op::kFloorMod || op == Op::kTruncDiv || op == Op::kFloorDiv);
  b.vector_for(n, [&](const Expr& i) {
    std::vector<Value> args;
    for (const loop::BufferId x : inputs) args.push_back(b.load(x, i));
    if (divides && loop::is_integer(type)) {
      const Value zero = b.constant(type, 0);
      args[1] = select(args[1] == zero, b.constant(type, 3), args[1]);
    }
    Value out = args.size() == 1   ? b.apply(op, {args[0]})
                : args.size() == 2 ? b.apply(op, {args[0], args[1]})
                                   : b.apply(op, {args[0], args[1], args[2]});
    b.store(y, i, out);
  });
  // kFma may round twice.
  const Tolerance tolerance = {.f32 = 1e-5, .f64 = 1e-12};
  expect_as_interpreted(b.finish(), arrays, {Scalar::of_int(kElements)}, tolerance);
}

class Operators : public testing::TestWithParam<int> {};

TEST_P(Operators, DoWhatTheInterpreterDoes) {
  const auto op = static_cast<Op>(GetParam());
  if (loop::info_of(op).arity == 0 || op == Op::kCast || op == Op::kBitcast) return;
  for (const DType type : kAll) {
    test_operator(op, type);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Operators, testing::Range(0, loop::kNumOps),
                         [](const auto& info) { return std::string(loop::info_of(static_cast<Op>(info.param)).name); });

class Casts : public testing::TestWithParam<DType> {};

TEST_P(Casts, GiveTheBitsOfTheInterpreter) {
  const DType from = GetParam();
  // All values of small types.
  const int64_t elements = size_of(from) == 1 ? 256 : size_of(from) == 2 ? 65536 : 3000;
  Array input = values_of(from, elements, 7);
  if (size_of(from) <= 2 && from != DType::kBool)
    for (int64_t i = 0; i < elements; ++i) std::memcpy(input.bytes.data() + i * size_of(from), &i, size_of(from));
  Builder b("casts");
  const Expr n = b.scalar("n");
  std::vector<Array> arrays = {input};
  const loop::BufferId x = b.in("x", from);
  std::vector<loop::BufferId> outputs;
  for (const DType to : kAll) {
    outputs.push_back(b.out(cat("y", outputs.size()), to));
    arrays.push_back(zeros(to, elements));
  }
  b.vector_for(n, [&](const Expr& i) {
    const Value value = b.load(x, i);
    for (size_t k = 0; k < outputs.size(); ++k) b.store(outputs[k], i, cast(value, kAll[k]));
  });
  expect_as_interpreted(b.finish(), arrays, {Scalar::of_int(elements)}, {.f32 = 0, .f64 = 0});
}

INSTANTIATE_TEST_SUITE_P(All, Casts, testing::ValuesIn(kAll),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Bitcasts, KeepTheBits) {
  for (const auto& [from, to] : {std::pair{DType::kF32, DType::kI32},
                                 {DType::kU64, DType::kF64},
                                 {DType::kBF16, DType::kF16},
                                 {DType::kI8, DType::kF8E5M2}}) {
    Builder b("bitcast");
    const Expr n = b.scalar("n");
    const loop::BufferId x = b.in("x", from), y = b.out("y", to);
    b.vector_for(n, [&](const Expr& i) { b.store(y, i, bitcast(b.load(x, i), to)); });
    expect_as_interpreted(b.finish(), {random_array(from, 77, 1), zeros(to, 77)}, {Scalar::of_int(77)});
  }
}

// Divides each x by each divisor, both with any bits. Quotients that are normal numbers, infinite, NaN or zero equal
// those of a division. Subnormal ones may differ in the last place.
TEST(Division, ByOneDivisorIsExact) {
  constexpr int64_t kElements = 3000;
  Builder b("divide");
  const loop::BufferId x = b.in("x", DType::kF32), d = b.in("d", DType::kF32), y = b.out("y", DType::kF32);
  b.parallel_for(kElements, 1, [&](const Expr& i) {
    const Value divisor = b.load(d, i);
    b.vector_for(kElements,
                 [&](const Expr& j) { b.store(y, i * kElements + j, binary(Op::kDiv, b.load(x, j), divisor)); });
  });
  std::vector<Array> arrays;
  for (const uint64_t seed : {1, 2}) {
    Array bits = values_of(DType::kF32, kElements, seed);
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (int64_t i = 1000; i < kElements; ++i) bits.data<uint32_t>()[i] = random();
    arrays.push_back(std::move(bits));
  }
  arrays.push_back(zeros(DType::kF32, kElements * kElements));
  ASSERT_EQ(run_generated(b.finish(), target::host_target(), arrays, {}), "");
  for (int64_t i = 0; i < kElements * kElements; ++i) {
    const float wanted = arrays[0].at<float>(i % kElements) / arrays[1].at<float>(i / kElements);
    const float got = arrays[2].at<float>(i);
    if (std::fpclassify(wanted) == FP_SUBNORMAL)
      ASSERT_NEAR(got, wanted, std::numeric_limits<float>::denorm_min());
    else
      ASSERT_TRUE(std::isnan(wanted) ? std::isnan(got) : got == wanted && std::signbit(got) == std::signbit(wanted))
          << got << " for " << wanted;
  }
}

TEST(Division, RaisesOnAZeroDivisor) {
  Builder b("divide");
  const Expr n = b.scalar("n");
  const loop::BufferId x = b.in("x", DType::kI32), y = b.out("y", DType::kI32);
  b.vector_for(n,
               [&](const Expr& i) { b.store(y, i, binary(Op::kFloorDiv, b.constant(DType::kI32, 7), b.load(x, i))); });
  const loop::Kernel kernel = b.finish();
  std::vector<int32_t> divisors(40, 3);
  expect_as_interpreted(kernel, {array_of(DType::kI32, divisors), zeros(DType::kI32, 40)}, {Scalar::of_int(40)});
  divisors[37] = 0;
  expect_as_interpreted(kernel, {array_of(DType::kI32, divisors), zeros(DType::kI32, 40)}, {Scalar::of_int(40)});
}

}  // namespace
}  // namespace npugraph::codegen
