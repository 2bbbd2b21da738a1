// SPDX-License-Identifier: Apache-2.0
// npugraph-run as a user starts it.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/error.h"
#include "tools/npugraph_run_testing.h"

namespace npugraph::tools {
namespace {

// y = x * w^T + x0 * f, where x is column-major and x0 is its first column. The outputs are y, its transpose and 2*s0.
constexpr const char* kLinear = R"(npugraph.program 4 @linear {
  symbol s0 : int = size(0, 0)
  symbol f0 : float = input(2)
  buffer b0 input(0) live(0, 1)
  buffer b1 input(1) live(0, 0)
  buffer b2 arena bytes(12*s0) live(0, 2)
  buffer b3 output bytes(12*s0) live(2, 2)
  buffer b4 arena bytes(4*s0) live(1, 2)
  input 0 "L['x']" b0 : f32[s0, 2]{1, s0}
  input 1 "L['w']" b1 : f32[3, 2]{2, 1}
  input 2 "L['f']" scalar
  task 0 kernel "kernel.linear_f32" {
    read b0+0 : f32[s0, 2]{1, s0}
    read b1+0 : f32[3, 2]{2, 1}
    write b2+0 : f32[s0, 3]{3, 1}
    args(%0, %1)
  }
  task 1 kernel "kernel.binary_mul" {
    read b0+0 : f32[s0, 1]{1, s0}
    write b4+0 : f32[s0, 1]{1, 1}
    args(%0, f0)
  }
  task 2 kernel "kernel.binary_add" {
    read b2+0 : f32[s0, 3]{3, 1}
    read b4+0 : f32[s0, 1]{1, 1}
    write b3+0 : f32[s0, 3]{3, 1}
    args(%0, %1)
  }
  segment 3
  output tensor b3+0 : f32[s0, 3]{3, 1}
  output tensor b3+0 : f32[3, s0]{1, 3}
  output scalar 2*s0 : int
})";

TEST_F(NpugraphRun, RunsAProgramOnFiles) {
  const auto program = write("linear.program", kLinear);
  const auto x = write<float>("x.npy", DType::kF32, {2, 2}, {1, 2, 3, 4});
  const auto w = write<float>("w.npy", DType::kF32, {3, 2}, {1, 0, 0, 1, 1, 1});
  const Outcome outcome = run(program + " -i " + x + " -i " + w + " -i 0.5 -o " + path("y.npy") + " -o " +
                              path("t.npy") + " --repeat 3 --time");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(floats("y.npy"), std::vector<float>({1.5, 2.5, 3.5, 4.5, 5.5, 8.5}));
  EXPECT_EQ(floats("t.npy"), std::vector<float>({1.5, 4.5, 2.5, 5.5, 3.5, 8.5}));
  EXPECT_TRUE(outcome.text.starts_with("output 0: f32[2, 3]\noutput 1: f32[3, 2]\noutput 2: 4\n3 runs: median"))
      << outcome.text;
}

TEST_F(NpugraphRun, OutputsOfADirectoryHaveNumbers) {
  const auto program = write("linear.program", kLinear);
  const auto x = write<float>("x.npy", DType::kF32, {1, 2}, {1, 2});
  const auto w = write<float>("w.npy", DType::kF32, {3, 2}, {1, 0, 0, 1, 1, 1});
  const std::string inputs = " -i " + x + " -i " + w + " -i 0.5";
  const Outcome outcome = run(program + inputs + " -o " + folder_.string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(floats("output0.npy"), std::vector<float>({1.5, 2.5, 3.5}));
  EXPECT_EQ(floats("output1.npy"), std::vector<float>({1.5, 2.5, 3.5}));
  EXPECT_FALSE(std::filesystem::exists(path("output2.npy")));  // a number
}

TEST_F(NpugraphRun, SummaryOfAProgram) {
  const auto program = write("linear.program", kLinear);
  const std::string summary =
      "graph linear\n  input 0 (L['x']): f32[s0, 2]\n  input 1 (L['w']): f32[3, 2]\n  input 2 (L['f']): a scalar\n"
      "  output 0: f32[s0, 3]\n  output 1: f32[3, s0]\n  output 2: 2*s0\n  3 tasks: 3 kernel\n  0 constants of 0 "
      "bytes\n";
  const Outcome alone = run(program + " --summary");
  EXPECT_EQ(alone.status, 0);
  EXPECT_EQ(alone.text, summary);
  const auto x = write<float>("x.npy", DType::kF32, {1, 2}, {1, 2});
  const auto w = write<float>("w.npy", DType::kF32, {3, 2}, {1, 0, 0, 1, 1, 1});
  const Outcome with_run = run(program + " --summary -i " + x + " -i " + w + " -i 0.5");
  EXPECT_TRUE(with_run.text.starts_with(summary + "output 0: f32[1, 3]\n")) << with_run.text;
  EXPECT_NE(with_run.text.find("\nmemory: 128 bytes for intermediate results, "), std::string::npos) << with_run.text;
}

TEST_F(NpugraphRun, WrongInputsAreNamed) {
  const auto program = write("linear.program", kLinear);
  const auto x = write<float>("x.npy", DType::kF32, {2, 2}, {1, 2, 3, 4});
  const auto w = write<float>("w.npy", DType::kF32, {3, 2}, {1, 0, 0, 1, 1, 1});
  const auto narrow = write<float>("n.npy", DType::kF32, {3, 1}, {1, 0, 0});
  const auto wide = write<double>("d.npy", DType::kF64, {1, 2}, {1, 2});
  const auto expect = [&](const std::string& arguments, const std::string& message) {
    const Outcome outcome = run(program + " " + arguments);
    EXPECT_NE(outcome.status, 0);
    EXPECT_EQ(outcome.text, "npugraph-run: " + message + "\n");
  };
  expect("-i " + x,
         "the Program takes 3 inputs, got 1:\n  input 0 (L['x']): f32[s0, 2]\n  input 1 (L['w']): f32[3, 2]\n"
         "  input 2 (L['f']): a scalar");
  expect("-i " + x + " -i " + narrow + " -i 1", "input 1 (L['w']) is f32[3, 2] with f0=1.0, s0=2, got f32[3, 1]");
  expect("-i " + wide + " -i " + w + " -i 1", "input 0 (L['x']) is f32[s0, 2], got f64[1, 2]");
  expect("-i " + x + " -i " + w + " -i high", "input 2 (L['f']) is a number, got 'high'");
  expect("-i " + x + " -i " + path("no.npy") + " -i 1", "cannot read '" + path("no.npy") + "'");
  expect("-i " + x + " -i " + program + " -i 1", "'" + program + "' is not a NumPy file");
}

TEST_F(NpugraphRun, MutatedInputsCanBeWritten) {
  const auto program = write("double.program", R"(npugraph.program 4 @double {
    buffer b0 input(0) live(0, 0)
    input 0 "x" b0 : i64[3]{1} mutated
    task 0 kernel "kernel.binary_add" {
      readwrite b0+0 : i64[3]{1}
      read b0+0 : i64[3]{1}
      write b0+0 : i64[3]{1}
      args(%0, %1)
    }
    segment 1
    output input 0
  })");
  const auto x = write<int64_t>("x.npy", DType::kI64, {3}, {1, 2, 3});
  const Outcome outcome = run(program + " -i " + x + " -o " + path("y.npy"));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(outcome.text, "output 0: input 0, i64[3]\n");
  const NpyArray y = read_npy(path("y.npy"));
  std::vector<int64_t> values(3);
  std::memcpy(values.data(), y.data.data(), 24);
  EXPECT_EQ(values, std::vector<int64_t>({2, 4, 6}));
}

TEST_F(NpugraphRun, OperatorsOfTorchAreRefusedByName) {
  const auto program = write("aten.program", R"(npugraph.program 4 @aten {
    buffer b0 input(0) live(0, 0)
    buffer b1 output bytes(4) live(0, 0)
    input 0 "x" b0 : f32[1]{1}
    task 0 aten "aten.erf.out" {
      read b0+0 : f32[1]{1}
      write b1+0 : f32[1]{1}
      args(%0, %1)
      source "model.py:12 in forward"
    }
    segment 1
    output tensor b1+0 : f32[1]{1}
  })");
  const Outcome outcome = run(program);
  EXPECT_EQ(outcome.text,
            "npugraph-run: this process has no torch and cannot run aten.erf.out (model.py:12 in forward)\n");
}

TEST_F(NpugraphRun, WindowsOutsideOfInputsAreRefused) {
  const auto program = write("outside.program", R"(npugraph.program 4 @outside {
    buffer b0 input(0) live(0, 0)
    buffer b1 output bytes(400) live(0, 0)
    input 0 "x" b0 : f32[4]{1}
    task 0 kernel "kernel.copy" {
      read b0+0 : f32[100]{1}
      write b1+0 : f32[100]{1}
      args(%0)
    }
    segment 1
    output tensor b1+0 : f32[100]{1}
  })");
  const auto x = write<float>("x.npy", DType::kF32, {4}, {1, 2, 3, 4});
  const Outcome outcome = run(program + " -i " + x);
  EXPECT_EQ(outcome.text, "npugraph-run: the Program reaches outside of input 0 (x): it is damaged or needs torch\n");
}

TEST_F(NpugraphRun, DamagedFilesAreRefused) {
  const auto file = write("damaged.ngp", "npugraph or not");
  const Outcome outcome = run(file);
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.text.find(file), std::string::npos) << outcome.text;
}

TEST_F(NpugraphRun, NumpyFilesComeBack) {
  const std::vector<char> bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  for (const auto& [dtype, sizes] : std::vector<std::pair<DType, std::vector<int64_t>>>{{DType::kBool, {12}},
                                                                                        {DType::kBF16, {2, 3}},
                                                                                        {DType::kF32, {3, 1}},
                                                                                        {DType::kF32, {1, 1, 3}},
                                                                                        {DType::kI16, {6}}}) {
    write_npy(path("a.npy"), dtype, sizes, bytes);
    const NpyArray array = read_npy(path("a.npy"));
    EXPECT_EQ(array.dtype, dtype);
    EXPECT_EQ(array.sizes, sizes);
    EXPECT_EQ(array.data, bytes);
  }
  write_npy(path("s.npy"), DType::kF32, {}, std::span(bytes).first(4));
  EXPECT_TRUE(read_npy(path("s.npy")).sizes.empty());
  EXPECT_THROW(write_npy(path("a.npy"), DType::kF8E4M3FN, std::vector<int64_t>{12}, bytes), UserError);
}

TEST_F(NpugraphRun, NumpyFilesThatLieAreRefused) {
  const auto expect = [&](const std::string& dictionary, const std::string& data, const std::string& message) {
    const auto length = static_cast<char>(dictionary.size());
    std::ofstream(path("x.npy"), std::ios::binary) << "\x93NUMPY\x01" << '\0' << length << '\0' << dictionary << data;
    try {
      read_npy(path("x.npy"));
      ADD_FAILURE() << "no error: " << message;
    } catch (const UserError& error) {
      EXPECT_EQ(error.what(), "'" + path("x.npy") + "' " + message);
    }
  };
  expect("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234", "has 4 bytes of data, its shape needs 8");
  expect("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", "12345678",
         "is in Fortran order; save numpy.ascontiguousarray(x) instead");
  expect("{'descr': '>f4', 'fortran_order': False, 'shape': (), }", "1234",
         "has elements of type '>f4', which are not taken");
  expect("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "", "has a shape that cannot be read");
  expect("{'descr': '<f4', 'shape': (1,), }", "", "is not a NumPy file: its header has no 'fortran_order'");
}

}  // namespace
}  // namespace npugraph::tools
