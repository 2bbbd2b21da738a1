// SPDX-License-Identifier: Apache-2.0
#include <torch/library.h>

#include "backend/bridge/bridge_test_util.h"
#include "base/error.h"

namespace npugraph::bridge {
namespace {

// Operators from outside of torch, with things that such operators may do.
at::Tensor kept;
at::Tensor identity(const at::Tensor& x) { return x; }
at::Tensor keep(const at::Tensor& x) {
  kept = x;
  return x + 1;
}
at::Tensor raise_index(const at::Tensor& x) {
  TORCH_CHECK_INDEX(false, "no index ", x.numel());
  return x;
}
std::tuple<at::Tensor, int64_t> count(const at::Tensor& x) { return {x + 1, x.numel()}; }
at::Tensor wide(const at::Tensor& x) { return x.to(at::kDouble); }

TORCH_LIBRARY(bridge_test, library) {
  library.def("identity(Tensor x) -> Tensor", identity);
  library.def("keep(Tensor x) -> Tensor", keep);
  library.def("raise_index(Tensor x) -> Tensor", raise_index);
  library.def("count(Tensor x) -> (Tensor, int)", count);
  library.def("wide(Tensor x) -> Tensor", wide);
}

// A Program that runs one operator on an f32[2, 3] tensor. Its result is a heap tensor of the same shape.
std::string functional(const std::string& name, const std::string& strides = "{3, 1}") {
  return R"(npugraph.program 4 @f {
  buffer b0 input(0) live(0, 0)
  buffer b1 heap live(0, 0)
  input 0 "x" b0 : f32[2, 3]{3, 1}
  task 0 aten ")" +
         name + (name.starts_with("bridge_test") ? "\" foreign {" : "\" {") + R"(
    read b0+0 : f32[2, 3]{3, 1}
    write b1+0 : f32[2, 3])" +
         strides + R"(
    args(%0)  results(1)
  }
  segment 1
  output tensor b1+0 : f32[2, 3])" +
         strides + R"(
})";
}

constexpr const char* kChain = R"(npugraph.program 4 @chain {
  symbol s0 : int = size(0, 0)
  buffer b0 input(0) live(0, 0)
  buffer b1 input(1) live(0, 0)
  buffer b2 arena bytes(16*s0) live(0, 2)
  buffer b3 output bytes(16*s0) live(1, 2)
  input 0 "x" b0 : f32[s0, 3]{3, 1}
  input 1 "w" b1 : f32[3, 4]{4, 1}
  task 0 aten "aten.mm.out" {
    read b0+0 : f32[s0, 3]{3, 1}
    read b1+0 : f32[3, 4]{4, 1}
    write b2+0 : f32[s0, 4]{4, 1}
    args(%0, %1, %2)
  }
  task 1 aten "aten.mul.out" {
    read b2+0 : f32[s0, 4]{4, 1}
    write b3+0 : f32[s0, 4]{4, 1}
    args(%0, s0, %1)
  }
  task 2 aten "aten.add_.Tensor" {
    readwrite b3+0 : f32[s0, 4]{4, 1}
    read b2+0 : f32[s0, 4]{4, 1}
    args(%0, %1, 2)
  }
  segment 3
  output tensor b3+0 : f32[s0, 4]{4, 1}
})";

TEST(AtenTask, OutVariantsAndInPlaceOperatorsInPlannedMemory) {
  TorchProgram program(kChain);
  for (const int64_t n : {2, 5, 2}) {
    const at::Tensor x = at::randn({n, 3});
    const at::Tensor w = at::randn({3, 4});
    const auto result = program.run({x, w});
    ASSERT_EQ(program.error, "");
    const at::Tensor product = at::mm(x, w);
    EXPECT_TRUE(at::equal(result[0], product * n + product * 2));
  }
}

TEST(AtenTask, FunctionalResultIsAdopted) {
  TorchProgram program(functional("aten.relu"));
  const at::Tensor x = at::randn({2, 3});
  const auto result = program.run({x});
  ASSERT_EQ(program.error, "");
  EXPECT_TRUE(at::equal(result[0], x.relu()));
}

TEST(AtenTask, ResultGetsTheStridesThatWereDeclared) {
  TorchProgram program(functional("aten.relu", "{1, 2}"));
  const at::Tensor x = at::randn({2, 3});
  const auto result = program.run({x});
  EXPECT_TRUE(at::equal(result[0], x.relu()));
  EXPECT_EQ(result[0].strides(), at::IntArrayRef({1, 2}));
}

TEST(AtenTask, ResultThatIsAnArgumentBecomesACopy) {
  TorchProgram program(functional("bridge_test.identity.default"));
  const at::Tensor x = at::randn({2, 3});
  const auto result = program.run({x});
  EXPECT_TRUE(at::equal(result[0], x));
  EXPECT_NE(result[0].data_ptr(), x.data_ptr());
}

TEST(AtenTask, AnArgumentThatAnOperatorKeepsOutlivesItsMemory) {
  TorchProgram program(functional("bridge_test.keep"));
  const at::Tensor ones = at::ones({2, 3});
  program.run({ones});
  const at::Tensor first = kept;
  ones.fill_(7);
  program.run({ones});
  EXPECT_TRUE(at::equal(first, at::ones({2, 3})));
  EXPECT_NE(first.data_ptr(), ones.data_ptr());
  kept.reset();
}

TEST(AtenTask, ExceptionsKeepTheirType) {
  TorchProgram program(functional("bridge_test.raise_index"));
  EXPECT_TRUE(program.run({at::ones({2, 3})}).empty());
  EXPECT_NE(program.error.find("no index 6"), std::string::npos);
  EXPECT_THROW(std::rethrow_exception(TorchHost::instance().take_exception()), c10::IndexError);
  EXPECT_EQ(TorchHost::instance().take_exception(), nullptr);
}

TEST(AtenTask, WrongPromisesAreReportedWithTheOperator) {
  TorchProgram program(functional("bridge_test.wide"));
  EXPECT_TRUE(program.run({at::ones({2, 3})}).empty());
  EXPECT_EQ(program.error, "operator bridge_test.wide returned Double where Float was promised");
  TorchHost::instance().take_exception();
}

TEST(AtenTask, UnknownOperatorsAreRefused) {
  try {
    TorchProgram program(functional("my_ns.missing"));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("torch has no operator my_ns.missing"), std::string::npos);
  }
}

TEST(AtenTask, ListsAndOptionalTensors) {
  TorchProgram program(R"(npugraph.program 4 @lists {
  buffer b0 input(0) live(0, 2)
  buffer b1 input(1) live(2, 2)
  buffer b2 output bytes(96) live(0, 0)
  buffer b3 heap live(1, 1)
  buffer b4 heap live(1, 1)
  buffer b5 heap live(2, 2)
  input 0 "x" b0 : f32[4, 3]{3, 1}
  input 1 "i" b1 : i64[2]{1}
  task 0 aten "aten.cat.out" {
    read b0+0 : f32[4, 3]{3, 1}
    read b0+0 : f32[4, 3]{3, 1}
    write b2+0 : f32[8, 3]{3, 1}
    args([%0, %1], 0, %2)
  }
  task 1 aten "aten.split_copy.Tensor" {
    read b0+0 : f32[4, 3]{3, 1}
    write b3+0 : f32[2, 3]{3, 1}
    write b4+0 : f32[2, 3]{3, 1}
    args(%0, 2, 0)  results(1, 2)
    releases(b3)
  }
  task 2 aten "aten.index.Tensor" {
    read b0+0 : f32[4, 3]{3, 1}
    read b1+0 : i64[2]{1}
    write b5+0 : f32[4, 2]{2, 1}
    args(%0, [none, %1])  results(2)
  }
  segment 3
  output tensor b2+0 : f32[8, 3]{3, 1}
  output tensor b4+0 : f32[2, 3]{3, 1}
  output tensor b5+0 : f32[4, 2]{2, 1}
})");
  const at::Tensor x = at::randn({4, 3});
  const at::Tensor i = at::tensor({2, 0}, at::kLong);
  const auto result = program.run({x, i});
  ASSERT_EQ(program.error, "");
  EXPECT_TRUE(at::equal(result[0], at::cat({x, x})));
  EXPECT_TRUE(at::equal(result[1], x.slice(0, 2)));
  EXPECT_TRUE(at::equal(result[2], x.index({at::indexing::Slice(), i})));
}

TEST(AtenTask, DataDependentSizesAndScalars) {
  TorchProgram program(R"(npugraph.program 4 @dynamic {
  symbol u0 : int = task(0)
  symbol u1 : float = task(1)
  symbol u2 : int = task(2)
  buffer b0 input(0) live(0, 2)
  buffer b1 heap live(0, 0)
  buffer b2 input(1) live(1, 1)
  buffer b3 heap live(2, 2)
  buffer b4 heap live(3, 3)
  input 0 "x" b0 : f32[2, 3]{3, 1}
  input 1 "v" b2 : f32[]{}
  task 0 aten "aten.nonzero.default" {
    read b0+0 : f32[2, 3]{3, 1}
    write b1+0 : i64[u0, 2]{1, u0}
    args(%0)  results(1)
    defines(u0 = size(1, 0))
  }
  task 1 aten "aten._local_scalar_dense" {
    read b2+0 : f32[]{}
    args(%0)
    defines(u1 = result(0))
  }
  task 2 aten "bridge_test.count" foreign {
    read b0+0 : f32[2, 3]{3, 1}
    write b3+0 : f32[2, 3]{3, 1}
    args(%0)  results(1, none)
    defines(u2 = result(1))
  }
  task 3 aten "aten.full.default" {
    write b4+0 : f32[u0]{1}
    args([u0], u1, f32, none, none, none)  results(0)
  }
  segment 1
  segment 2
  segment 3
  segment 4
  output tensor b1+0 : i64[u0, 2]{1, u0}
  output tensor b3+0 : f32[2, 3]{3, 1}
  output tensor b4+0 : f32[u0]{1}
  output scalar u2 : int
})");
  for (const float keep : {0.0f, 1.0f, 1.0f, 0.0f}) {
    const at::Tensor x = at::tensor({1.0f, 0.0f, keep, 0.0f, 3.0f, 0.0f}).view({2, 3});
    const auto result = program.run({x, at::scalar_tensor(keep + 0.5)});
    ASSERT_EQ(program.error, "");
    EXPECT_TRUE(at::equal(result[0], x.nonzero()));
    EXPECT_TRUE(at::equal(result[2], at::full({x.nonzero().size(0)}, keep + 0.5)));
    EXPECT_EQ(program.outputs[3].scalar.i, 6);
  }
}

TEST(AtenTask, OpaqueValuesTravelAsObjects) {
  TorchProgram program(R"(npugraph.program 4 @opaque {
  buffer b0 input(0) live(0, 0)
  buffer b1 heap opaque live(0, 1)
  buffer b2 heap live(1, 1)
  input 0 "x" b0 : f32[2, 3]{3, 1}
  task 0 aten "aten.to_sparse.default" {
    read b0+0 : f32[2, 3]{3, 1}
    write b1+0 : f32[]{}
    args(%0, none, none, none)  results(1)
  }
  task 1 aten "aten.to_dense.default" {
    read b1+0 : f32[]{}
    write b2+0 : f32[2, 3]{3, 1}
    args(%0, none, none)  results(1)
    releases(b1)
  }
  segment 2
  output tensor b2+0 : f32[2, 3]{3, 1}
})");
  for (int i = 0; i < 2; ++i) {
    const at::Tensor x = at::randn({2, 3});
    const auto result = program.run({x});
    ASSERT_EQ(program.error, "");
    EXPECT_TRUE(at::equal(result[0], x));
  }
}

TEST(AtenTask, RunsWithoutGradientsAndInInferenceMode) {
  TorchProgram program(kChain);
  const at::Tensor x = at::randn({2, 3}).requires_grad_();
  const at::Tensor w = at::randn({3, 4});
  {
    const c10::InferenceMode inference;
    ASSERT_EQ(program.run({x, w}).size(), 1u);
  }
  const auto result = program.run({x, w});
  ASSERT_EQ(program.error, "");
  EXPECT_FALSE(result[0].requires_grad());
}

TEST(AtenTask, RandomOperatorsDrawFromTheDefaultGenerator) {
  TorchProgram program(R"(npugraph.program 4 @random {
  buffer b0 input(0) live(0, 0)
  buffer b1 output bytes(24) live(0, 0)
  input 0 "x" b0 : f32[2, 3]{3, 1}
  task 0 aten "aten.bernoulli.out" {
    read b0+0 : f32[2, 3]{3, 1}
    write b1+0 : f32[2, 3]{3, 1}
    args(%0, none, %1)
  }
  segment 1
  output tensor b1+0 : f32[2, 3]{3, 1}
})");
  const at::Tensor x = at::full({2, 3}, 0.5);
  at::manual_seed(1);
  const at::Tensor eager = at::bernoulli(x);
  at::manual_seed(1);
  EXPECT_TRUE(at::equal(program.run({x})[0], eager));
}

}  // namespace
}  // namespace npugraph::bridge
