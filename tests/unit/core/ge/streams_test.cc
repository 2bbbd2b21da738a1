// SPDX-License-Identifier: Apache-2.0
// Streams, limits of cores and super kernels of a model: sections and marks of the Graph.
#include "ge/import/streams.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ge/engine/compile.h"
#include "ge/import/import.h"
#include "ge/model_builder.h"
#include "ir/text.h"

namespace npugraph::ge {
namespace {

ir::Graph graph_of_model(const std::vector<Op>& ops, const CoreLimits& limits = {}) {
  const Model model = model_of(ops);
  return import_graph(model, model.graphs.front(), Device{}, {.limits = limits});
}

// The sections as "stream<-after", with limits in braces.
std::string sections(const std::vector<Op>& ops, const CoreLimits& limits = {}) {
  std::string text;
  for (const ir::Section& section : graph_of_model(ops, limits).sections) {
    text += cat(text.empty() ? "" : " ", section.stream);
    for (const int32_t other : section.after) text += cat("<-", other);
    if (section.limits != CoreLimits{}) text += cat("{", section.limits.cube, ",", section.limits.vector, "}");
  }
  return text;
}

Op on(const char* stream, const char* type, const char* name, const std::vector<std::string>& inputs) {
  return Op(type, name, inputs).attr("_user_stream_label", stream);
}

TEST(Streams, AGraphWithoutLabelsHasOneSection) {
  EXPECT_EQ(sections({data("x", 0, {4}), Op("Relu", "y", {"x:0"}), Op("NetOutput", "out", {"y:0"})}), "0");
}

TEST(Streams, DataOrdersStreams) {
  EXPECT_EQ(sections({data("x", 0, {4}), on("side", "Relu", "a", {"x:0"}), Op("Tanh", "b", {"x:0"}),
                      Op("Add", "y", {"a:0", "b:0"}), Op("NetOutput", "out", {"y:0"})}),
            "1 0 0<-0");
}

// What follows in a stream that another one waits for is a section of its own, so that it is not waited for.
TEST(Streams, ASectionEndsBehindWhatAnotherStreamReads) {
  EXPECT_EQ(sections({data("x", 0, {4}), on("side", "Relu", "a", {"x:0"}), on("side", "Sin", "c", {"a:0"}),
                      Op("Tanh", "b", {"a:0"}), Op("NetOutput", "out", {"b:0", "c:0"})}),
            "1 1 0<-0");
  // A second read of what is done already needs nothing.
  EXPECT_EQ(sections({data("x", 0, {4}), on("side", "Relu", "a", {"x:0"}), Op("Tanh", "b", {"a:0"}),
                      Op("Sin", "c", {"a:0"}), Op("NetOutput", "out", {"b:0", "c:0"})}),
            "1 0<-0");
}

TEST(Streams, ControlEdgesOrderStreams) {
  EXPECT_EQ(sections({data("x", 0, {4}), on("side", "Relu", "a", {"x:0"}), Op("Tanh", "b", {"a:-1", "x:0"}),
                      Op("NetOutput", "out", {"a:0", "b:0"})}),
            "1 0<-0");
  // Identity has no node: who reads it waits.
  EXPECT_EQ(sections({data("x", 0, {4}), on("side", "Relu", "a", {"x:0"}), Op("Identity", "same", {"a:-1", "x:0"}),
                      Op("Identity", "again", {"same:0"}), Op("Tanh", "b", {"again:0"}),
                      Op("NetOutput", "out", {"a:0", "b:0"})}),
            "1 0<-0");
  // An order after it is one after what it reads.
  EXPECT_EQ(sections({data("x", 0, {4}), on("side", "Relu", "a", {"x:0"}), Op("Identity", "same", {"a:0"}),
                      Op("Tanh", "b", {"same:-1", "x:0"}), Op("NetOutput", "out", {"a:0", "b:0"})}),
            "1 0<-0");
}

TEST(Streams, AWriteWaitsForReadersOfOtherStreams) {
  const auto ref = [] { return Op("RefData", "x").attr("index", int64_t{0}).output(desc("y", WireType::kFloat, {4})); };
  EXPECT_EQ(sections({ref(), data("v", 1, {4}), on("side", "Relu", "a", {"x:0"}), Op("Assign", "write", {"x:0", "v:0"}),
                      Op("NetOutput", "out", {"write:-1", "a:0"})}),
            "1 0<-0");
  EXPECT_EQ(sections({ref(), data("v", 1, {4}), Op("Assign", "write", {"x:0", "v:0"}),
                      on("side", "Relu", "a", {"write:0"}), Op("NetOutput", "out", {"write:-1", "a:0"})}),
            "0 1<-0");
}

TEST(Streams, LimitsAreThoseOfSections) {
  const auto limited = [](const char* cores) {
    return sections({data("x", 0, {4}),
                     Op("Relu", "a", {"x:0"}).attr("_op_aicore_num", "2").attr("_op_vectorcore_num", cores),
                     Op("Tanh", "y", {"a:0"}), Op("NetOutput", "out", {"y:0"})});
  };
  EXPECT_EQ(limited("3"), "0{2,3} 0");
  const std::vector<Op> ops = {data("x", 0, {4}), Op("Relu", "a", {"x:0"}).attr("_op_aicore_num", "2"),
                               Op("Tanh", "y", {"a:0"}), Op("NetOutput", "out", {"y:0"})};
  EXPECT_EQ(sections(ops, {.cube = 4, .vector = 3}), "0{2,3} 0{4,3}");
  EXPECT_EQ(sections(ops, {.cube = 1, .vector = 3}), "0{1,3}");
  for (const char* cores : {"0", "-1", "many", "2x"}) {
    try {
      limited(cores);
      ADD_FAILURE() << cores;
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()),
                cat("operator 'a': its attribute '_op_vectorcore_num' is a number of cores, got '", cores, "'"));
    }
  }
}

TEST(Streams, OperatorsOfAScopeAreOneTask) {
  const auto in_scope = [](const char* type, const char* name, const std::vector<std::string>& inputs) {
    return Op(type, name, inputs).attr("_super_kernel_scope", "block");
  };
  const std::vector<Op> ops = {data("x", 0, {8, 8}),
                               in_scope("MatMul", "a", {"x:0", "x:0"}),
                               in_scope("SoftmaxV2", "b", {"a:0"}),
                               in_scope("MatMul", "c", {"b:0", "x:0"}),
                               Op("MatMul", "y", {"c:0", "x:0"}),
                               Op("NetOutput", "out", {"y:0"})};
  const std::string text = ir::print(graph_of_model(ops));
  EXPECT_TRUE(contains(text, "npugraph_ex.super_kernel_scope_begin(\"block\")")) << text;
  EXPECT_TRUE(contains(text, "npugraph_ex.super_kernel_scope_end(\"block\")")) << text;
  const compiler::CompileResult compiled = compile_model(model_of(ops));
  ASSERT_EQ(compiled.program.tasks.size(), 2U);
  EXPECT_EQ(compiled.program.tasks.front().name, "super_kernel.block");
}

TEST(Streams, TextsAreForPrints) {
  const auto refused = [](const std::vector<Op>& ops) -> std::string {
    try {
      graph_of_model(ops);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const Op format = Op("StringFormat", "line", {"x:0"}).attr("template", "x is {}").attr("placeholder", "{}");
  const std::string text = ir::print(graph_of_model({data("x", 0, {2}), format, Op("PrintV2", "print", {"line:0"}),
                                                     Op("Relu", "y", {"x:0"}), Op("NetOutput", "out", {"y:0"})}));
  EXPECT_TRUE(contains(text, "air.print([%x], \"x is {}\", \"{}\", 3, \"stderr\")")) << text;
  EXPECT_EQ(refused({data("x", 0, {2}), format, Op("NetOutput", "out", {"line:0"})}),
            "operator 'out' of type NetOutput: a text is read by PrintV2 alone");
  EXPECT_TRUE(contains(refused({data("x", 0, {2}), format, Op("Neg", "y", {"line:0"})}), "got a text"));
  EXPECT_TRUE(contains(refused({data("x", 0, {2}), Op("PrintV2", "print", {"x:0"})}),
                       "its input 'x' is not made by StringFormat"));
}

}  // namespace
}  // namespace npugraph::ge
