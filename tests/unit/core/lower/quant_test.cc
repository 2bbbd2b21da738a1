// SPDX-License-Identifier: Apache-2.0
#include "lower/generated/quant.h"

#include "base/error.h"
#include "lower/lower_testing.h"

namespace npugraph::lower {
namespace {

constexpr const char* kProduct = R"(
    input %x : f32[2, 64] user "x"
    input %w : u8[8, 40] parameter "w"
    %y : f32[2, 8] = npugraph.gguf_linear(%x, %w, "q4_1"))";

std::string first_line(const program::Task& task) {
  const std::string& text = std::get<std::string>(task.args.at(0));
  return text.substr(0, text.find('\n'));
}

TEST(LowerQuantised, ProductsTakeWhatFollowsOnTheirSums) {
  const program::Program program =
      lowered(std::string(kProduct) + "%z : f32[2, 8] = aten.relu(%y)\nreturn %z", {.generate = true});
  ASSERT_EQ(tasks_of(program), "matmul.gguf_linear.relu");
  EXPECT_EQ(first_line(program.tasks[0]), "npugraph.quant 1 linear q4_1");
  EXPECT_EQ(program.tasks[0].operands.size(), 3u);
}

TEST(LowerQuantised, ProductsOfRoundedActivationsSaySo) {
  const program::Program program = lowered(R"(
    input %x : bf16[2, 64] user "x"
    input %w : u8[8, 68] parameter "w"
    %y : bf16[2, 8] = npugraph.gguf_linear(%x, %w, "q8_0", true)
    return %y)",
                                           {.generate = true});
  EXPECT_EQ(first_line(program.tasks.at(0)), "npugraph.quant 1 linear q8_0 int8");
}

TEST(LowerQuantised, GathersAreGenerated) {
  const std::string body = R"(
    input %w : u8[8, 68] parameter "w"
    input %i : i64[1, 3] user "i"
    %y : f32[1, 3, 64] = npugraph.gguf_embedding(%w, %i, "q8_0", f32)
    return %y)";
  const program::Program program = lowered(body, {.generate = true});
  ASSERT_EQ(tasks_of(program), "loop.gguf_embedding");
  EXPECT_EQ(first_line(program.tasks[0]), "npugraph.quant 1 rows q8_0");
  EXPECT_EQ(program.tasks[0].operands.size(), 3u);
  EXPECT_EQ(tasks_of(lowered(body)), "npugraph.gguf_embedding");
}

std::string packed_product(int64_t columns, const std::string& scales) {
  return cat("input %x : bf16[m, 64] user \"x\"\ninput %w : u8[", columns, ", 32] parameter \"w\"\ninput %s : ", scales,
             " parameter \"s\"\n%y : bf16[m, ", columns,
             "] = aten._weight_int4pack_mm_for_cpu(%x, %w, 32, %s)\n%z : bf16[m, ", columns,
             "] = aten.relu(%y)\nreturn %z");
}

TEST(LowerQuantised, WeightsOfFourBitsSayHowTheyArePacked) {
  const program::Program program =
      lowered(cat("symbol m : int\n", packed_product(80, "bf16[2, 80, 2]")), {.generate = true});
  ASSERT_EQ(tasks_of(program), "matmul._weight_int4pack_mm_for_cpu.relu");
  EXPECT_EQ(first_line(program.tasks[0]), "npugraph.quant 1 packed 64 halves 32");
  EXPECT_EQ(program.tasks[0].operands.size(), 4u);
}

class OtherProcessor final : public Catalog {
 public:
  std::optional<loop::Int4Packing> int4_packing() const override { return std::nullopt; }
};

TEST(LowerQuantised, WeightsPackedInAnotherWayStayWithTheHost) {
  const program::Program program =
      lowered(cat("symbol m : int\n", packed_product(80, "bf16[2, 80, 2]")), {.generate = true}, OtherProcessor());
  EXPECT_EQ(program.tasks.at(0).name, "aten._weight_int4pack_mm_for_cpu");
  EXPECT_NE(program.tasks[0].reason.find("in another way than generated code reads"), std::string::npos);
}

TEST(LowerQuantised, ScalesOfOtherGroupsAndTypesStayWithTheHost) {
  for (const std::string scales : {"bf16[3, 80, 2]", "f32[2, 80, 2]", "bf16[2, 80, 2]{160, 1, 80}"}) {
    const program::Program program = lowered(cat("symbol m : int\n", packed_product(80, scales)), {.generate = true});
    EXPECT_EQ(program.tasks.at(0).name, "aten._weight_int4pack_mm_for_cpu") << scales;
  }
}

TEST(LowerQuantised, ProductsOfIntegersTakeTheirScalesBehindTheSums) {
  const std::string product = R"(
    symbol m : int
    input %x : i8[m, 64] user "x"
    input %w : i8[32, 64] parameter "w"
    input %s : f32[m, 1] user "s"
    %t : i8[64, 32]{1, 64} = aten.permute(%w, [1, 0]) view(1)
    %y : i32[m, 32] = aten._int_mm(%x, %t)
    %f : f32[m, 32] = prims.convert_element_type(%y, f32)
    %z : f32[m, 32] = aten.mul.Tensor(%f, %s)
    return %z)";
  const program::Program program = lowered(product, {.generate = true});
  ASSERT_EQ(tasks_of(program), "matmul._int_mm.convert_element_type.mul");
  EXPECT_NE(std::get<std::string>(program.tasks[0].args.at(0)).find("in sums : i32"), std::string::npos);
}

TEST(LowerQuantised, ProductsOfUnsignedIntegersAreGenerated) {
  const std::string product = R"(
    input %x : u8[4, 64] user "x"
    input %t : i8[64, 32]{1, 64} parameter "w"
    %y : i32[4, 32] = aten._int_mm(%x, %t)
    return %y)";
  EXPECT_EQ(tasks_of(lowered(product, {.generate = true})), "matmul._int_mm");
}

TEST(LowerQuantised, ReasonsNameTheOperandInTheWay) {
  const auto reason = [](const std::string& product) {
    return lowered(product, {.generate = true}).tasks.at(0).reason;
  };
  const std::string by_rows = R"(
    input %x : i8[4, 64] user "x"
    input %w : i8[64, 32] parameter "w"
    %y : i32[4, 32] = aten._int_mm(%x, %w)
    return %y)";
  EXPECT_NE(reason(by_rows).find("mat2 is to be contiguous along the sum, and is i8[64, 32]{32, 1}"), std::string::npos)
      << reason(by_rows);
  const std::string of_f64 = R"(
    input %x : f64[4, 64] user "x"
    input %w : i8[32, 64] parameter "w"
    input %s : f64[32] parameter "s"
    %y : f64[4, 32] = aten._weight_int8pack_mm(%x, %w, %s)
    return %y)";
  EXPECT_NE(reason(of_f64).find("self is to be of f32, bf16 or f16, and is f64[4, 64]{64, 1}"), std::string::npos)
      << reason(of_f64);
}

// A product computes its whole result, so a node that reads only a part of it cannot be its epilogue.
TEST(LowerQuantised, ProductsDoNotEndInTheirFirstRows) {
  const auto tasks = [](const std::string& product) {
    return tasks_of(lowered("symbol n : int\ninput %y : f32[n, 32] user \"y\"\n" + product + R"(
    %s : f32[n, 32] = aten.slice.Tensor(%p, 0, 0, n) view(0)
    %m : f32[n, 32] = aten.mul.Tensor(%s, %y)
    %z : f32[n, 32] = aten.tanh(%m)
    return %z)",
                            {.generate = true}));
  };
  EXPECT_EQ(tasks(R"(
    input %x : f32[n + 7, 64] user "x"
    input %w : i8[32, 64] parameter "w"
    input %f : f32[32] parameter "f"
    %p : f32[n + 7, 32] = aten._weight_int8pack_mm(%x, %w, %f))"),
            "matmul._weight_int8pack_mm loop.mul.tanh");
  EXPECT_EQ(tasks(R"(
    input %x : f32[n + 7, 64] user "x"
    input %w : u8[32, 32] parameter "w"
    input %f : f32[2, 32, 2] parameter "f"
    %p : f32[n + 7, 32] = aten._weight_int4pack_mm_for_cpu(%x, %w, 32, %f))"),
            "matmul._weight_int4pack_mm_for_cpu loop.mul.tanh");
  EXPECT_EQ(tasks(R"(
    input %x : f32[n + 7, 64] user "x"
    input %w : u8[32, 36] parameter "w"
    %p : f32[n + 7, 32] = npugraph.gguf_linear(%x, %w, "q4_0", false))"),
            "matmul.gguf_linear loop.mul.tanh");
}

TEST(LowerQuantised, ProductsOfIntegersAlongColumnsStayWithTheHost) {
  const program::Program program = lowered(R"(
    input %x : i8[32, 64] user "x"
    input %w : i8[64, 32] parameter "w"
    %y : i32[32, 32] = aten._int_mm(%x, %w)
    return %y)",
                                           {.generate = true});
  EXPECT_EQ(tasks_of(program), "aten._int_mm");
}

TEST(LowerQuantised, QuantiseAndDequantiseAreElementwise) {
  const program::Program program = lowered(R"(
    symbol m : int
    input %x : bf16[m, 64] user "x"
    input %s : f32[m] user "s"
    input %z : i64[m] user "z"
    %y : i8[m, 64] = quantized_decomposed.quantize_per_tensor(%x, 0.1, 3, -128, 127, i8)
    %d : f32[m, 64] = quantized_decomposed.dequantize_per_channel(%y, %s, %z, 0, -128, 127, i8)
    return %d)",
                                           {.generate = true});
  EXPECT_EQ(tasks_of(program), "loop.quantize_per_tensor.dequantize_per_channel");
}

TEST(LowerQuantised, OtherLimitsAndTypesOfCodesStayWithTheHost) {
  for (const std::string call : {
           "i32[400, 64] = quantized_decomposed.quantize_per_tensor(%x, 0.1, 3, -128, 127, i32)",
           "i8[400, 64] = quantized_decomposed.quantize_per_tensor(%x, 0.1, 3, -129, 127, i8)",
           "i8[400, 64] = quantized_decomposed.quantize_per_tensor.tensor(%x, %d, %z, -128, 127, i8)",
           "i8[400, 64] = quantized_decomposed.quantize_per_channel(%x, %s, %t, 1, -128, 127, i8)",
       }) {
    const program::Program program = lowered(R"(
      input %x : f32[400, 64] user "x"
      input %d : f64[] user "d"
      input %z : i64[] user "z"
      input %s : f32[65] user "s"
      input %t : i64[65] user "t"
      %y : )" + call + "\nreturn %y",
                                             {.generate = true});
    EXPECT_TRUE(tasks_of(program).starts_with("quantized_decomposed.")) << call << ": " << tasks_of(program);
  }
}

TEST(LowerQuantised, OperatorsRunAsTheyAreWithoutGeneratedCode) {
  EXPECT_EQ(tasks_of(lowered(std::string(kProduct) + "\nreturn %y")), "npugraph.gguf_linear");
}

}  // namespace
}  // namespace npugraph::lower
