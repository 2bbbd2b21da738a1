// SPDX-License-Identifier: Apache-2.0
#include "program/call_symbols.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace npugraph::program {
namespace {

Program program_of_rows() {
  Program program;
  program.symbols = {{.name = "rows", .input = 0, .dim = 1, .min = 2, .max = 8}};
  program.inputs = {{.source = "x"}};
  program.inputs[0].sizes = {{.constant = 4}, program.dim(Expr::symbol("rows"))};
  return program;
}

TEST(CallSymbols, ComputeSizes) {
  Program program = program_of_rows();
  const Dim twice = program.dim(Expr::symbol("rows") * 2);
  CallSymbols symbols(program);
  EXPECT_EQ(symbols.text(), "");
  symbols.set(program.symbols[0], Scalar::of_int(3));
  EXPECT_EQ(symbols.text(), " with rows=3");
  EXPECT_EQ(symbols.value(twice), 6);
  EXPECT_EQ(symbols.values(program.inputs[0].sizes), (std::vector<int64_t>{4, 3}));
}

TEST(CallSymbols, HaveBounds) {
  const Program program = program_of_rows();
  CallSymbols symbols(program);
  try {
    symbols.set(program.symbols[0], Scalar::of_int(9));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "size 1 of input 0 (x) is 9; the graph is made for [2, 8]");
  }
}

TEST(CallSymbols, AreNamedInShapes) {
  const Program program = program_of_rows();
  EXPECT_EQ(shape_text(program, "f32", program.inputs[0].sizes), "f32[4, rows]");
  EXPECT_EQ(shape_text("f32", std::vector<int64_t>{2, 3}), "f32[2, 3]");
  EXPECT_EQ(shape_text("f32", std::vector<int64_t>{}), "f32[]");
}

}  // namespace
}  // namespace npugraph::program
