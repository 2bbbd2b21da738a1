// SPDX-License-Identifier: Apache-2.0
// Kernels of users' libraries in npugraph-run. The kernels are those of tests/unit/core/libraries/sample_kernels.cc.
#include <string>
#include <vector>

#include "tools/npugraph_run_testing.h"

namespace npugraph::tools {
namespace {

const std::string kLibrary = " --library " TEST_LIBRARIES "/libsample_kernels.so";

// A Program with one task of a user's kernel. `operands` are its windows in buffers of at most 64 bytes: b0 and b1 are
// inputs of type `input`, b2 and b3 are outputs.
std::string program_of(const std::string& name, const std::string& schema, const std::string& operands,
                       const std::string& args, const std::string& outputs, const std::string& input = "f32[4]{1}") {
  const bool writes_x = operands.find("readwrite b0") != std::string::npos;
  std::string text = R"(npugraph.program 4 @custom {
  buffer b0 input(0) live(0, 0)
  buffer b1 input(1) live(0, 0)
  buffer b2 output bytes(64) live(0, 0)
  buffer b3 output bytes(64) live(0, 0)
  input 0 "x" b0 : )" +
                     input + (writes_x ? " mutated" : "") + R"(
  input 1 "y" b1 : f32[4]{1}
  task 0 kernel ")";
  text += name + "\" {\n" + operands + "    args(" + args + ")\n    schema \"" + schema + "\"\n";
  return text + "    source \"model.py:7\"\n  }\n  segment 1\n" + outputs + "}\n";
}

class LibrariesRun : public NpugraphRun {
 protected:
  Outcome run_task(const std::string& program, const std::string& library = kLibrary,
                   const std::vector<int64_t>& sizes = {4}) {
    const auto file = write("custom.program", program);
    const auto x = write<float>("x.npy", DType::kF32, sizes, {1, 2, 3, 4});
    const auto y = write<float>("y.npy", DType::kF32, {4}, {10, 20, 30, 40});
    return run(file + library + " -i " + x + " -i " + y + " -o " + folder_.string());
  }
};

const std::string kScaledAdd = "test_ops::scaled_add(Tensor x, Tensor y, float scale) -> Tensor";
const std::string kRead = "    read b0+0 : f32[4]{1}\n";
const std::string kReads = kRead + "    read b1+0 : f32[4]{1}\n";
const std::string kWrite = "    write b2+0 : f32[4]{1}\n";
const std::string kOutput = "  output tensor b2+0 : f32[4]{1}\n";

std::string scaled_add(const std::string& schema = kScaledAdd) {
  return program_of("test_ops.scaled_add", schema, kReads + kWrite, "%0, %1, 0.5", kOutput);
}

TEST_F(LibrariesRun, ComputesWithItsKernels) {
  const Outcome outcome = run_task(scaled_add());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(floats("output0.npy"), std::vector<float>({6, 12, 18, 24}));
}

TEST_F(LibrariesRun, ProgramsThatNeedOneSaySo) {
  const Outcome outcome = run_task(scaled_add(), "");
  EXPECT_NE(outcome.status, 0);
  EXPECT_EQ(outcome.text,
            "npugraph-run: the operator test_ops.scaled_add (model.py:7) needs the kernel of a library, and none that "
            "is loaded has it; npugraph.load_library(PATH), or the option --library PATH of npugraph-run, loads one\n");
}

TEST_F(LibrariesRun, ProgramsOfAnotherSchemaAreRefused) {
  const Outcome outcome = run_task(scaled_add("test_ops::scaled_add(Tensor x, Tensor y, float factor) -> Tensor"));
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.text.find("was compiled for another schema of test_ops.scaled_add (model.py:7)"), std::string::npos)
      << outcome.text;
}

TEST_F(LibrariesRun, WritesArgumentsInPlace) {
  const Outcome outcome = run_task(program_of("test_ops.scale_", "test_ops::scale_(Tensor(a!) x, Scalar factor) -> ()",
                                              "    readwrite b0+0 : f32[4]{1}\n", "%0, 3", "  output input 0\n"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(floats("output0.npy"), std::vector<float>({3, 6, 9, 12}));
}

TEST_F(LibrariesRun, CopiesWhatIsNotDense) {
  const std::string rows = "f32[2, 2]{1, 2}";
  const Outcome outcome =
      run_task(program_of("test_ops.scale_", "test_ops::scale_(Tensor(a!) x, Scalar factor) -> ()",
                          "    readwrite b0+4 : f32[2, 1]{2, 1}\n", "%0, 3", "  output input 0\n", "f32[2, 2]{2, 1}"),
               kLibrary, {2, 2});
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(floats("output0.npy"), std::vector<float>({1, 6, 3, 12}));

  const Outcome turned = run_task(program_of("test_ops.reversed", "test_ops::reversed(Tensor x) -> Tensor",
                                             "    read b0+0 : " + rows + "\n    write b2+0 : f32[2, 2]{1, 2}\n", "%0",
                                             "  output tensor b2+0 : " + rows + "\n", "f32[2, 2]{2, 1}"),
                                  kLibrary, {2, 2});
  EXPECT_EQ(turned.status, 0) << turned.text;
  EXPECT_EQ(floats("output0.npy"), std::vector<float>({4, 2, 3, 1}));
}

TEST_F(LibrariesRun, GivesStridesToKernelsThatTakeThem) {
  const Outcome outcome = run_task(program_of("test_ops.strides", "test_ops::strides(Tensor x) -> Tensor",
                                              "    read b0+0 : f32[2, 2]{1, 2}\n    write b2+0 : i64[2]{1}\n", "%0",
                                              "  output tensor b2+0 : i64[2]{1}\n"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  const NpyArray strides = read_npy(path("output0.npy"));
  std::vector<int64_t> values(2);
  std::memcpy(values.data(), strides.data.data(), 16);
  EXPECT_EQ(values, std::vector<int64_t>({1, 2}));
}

TEST_F(LibrariesRun, TakesArgumentsOfAllTypes) {
  const std::string schema =
      "test_ops::everything(Tensor x, Tensor? y, Tensor[] list, int number, SymInt[] numbers, float? fraction, bool "
      "flag, "
      "str text, ScalarType dtype) -> (Tensor sum, Tensor count)";
  const std::string writes = "    write b2+0 : f32[1]{1}\n    write b3+0 : i64[1]{1}\n";
  const std::string outputs = "  output tensor b2+0 : f32[1]{1}\n  output tensor b3+0 : i64[1]{1}\n";
  const auto run_with = [&](const std::string& args, const std::string& reads) {
    return run_task(program_of("test_ops.everything", schema, reads + writes, args, outputs));
  };
  const Outcome all = run_with("%0, %1, [%2, %3], 100, [1000, 2000], 0.5, true, \"four\", bf16", kReads + kReads);
  EXPECT_EQ(all.status, 0) << all.text;
  EXPECT_EQ(floats("output0.npy"), std::vector<float>({1 + 10 + 11 + 100 + 3000 + 0.5 + 1 + 4 + 7}));
  const Outcome few = run_with("%0, none, tensors[], 100, [], none, false, \"\", u8", kRead);
  EXPECT_EQ(few.status, 0) << few.text;
  EXPECT_EQ(floats("output0.npy"), std::vector<float>({1 + 100 + 1}));
}

TEST_F(LibrariesRun, FailuresOfAKernelAreErrorsOfTheCall) {
  for (const auto& [name, message] : {std::pair<std::string, std::string>{"fails_inside", "no element of x fits"},
                                      {"reads_integers", "a tensor of float32 is taken as one of int64"}}) {
    const Outcome outcome = run_task(
        program_of("test_ops." + name, "test_ops::" + name + "(Tensor x) -> Tensor", kRead + kWrite, "%0", kOutput));
    EXPECT_NE(outcome.status, 0);
    EXPECT_NE(outcome.text.find(message), std::string::npos) << outcome.text;
    EXPECT_NE(outcome.text.find("test_ops." + name), std::string::npos) << outcome.text;
  }
}

TEST_F(LibrariesRun, OperandsThatDoNotFitTheSchemaAreRefused) {
  const Outcome outcome = run_task(program_of("test_ops.scale_", "test_ops::scale_(Tensor(a!) x, Scalar factor) -> ()",
                                              kRead, "%0, 3", "  output input 0\n"));
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.text.find("argument 0 is not written by the task, but the kernel takes it as InOut"),
            std::string::npos)
      << outcome.text;
}

}  // namespace
}  // namespace npugraph::tools
