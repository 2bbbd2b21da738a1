// SPDX-License-Identifier: Apache-2.0
// Graphs for the tests of lowering, from text.
#pragma once

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/lower.h"
#include "ops/table.h"
#include "program/text.h"

namespace npugraph::lower {

// A host that runs every operator and has out variants for a few of them.
class Catalog : public OperatorCatalog {
 public:
  std::optional<OutVariant> out_variant(const ir::Op& op) const override {
    if (op.name != "aten.exp" && op.name != "aten.gelu" && op.name != "aten.cat" && op.name != "aten.neg")
      return std::nullopt;
    const auto last = static_cast<int32_t>(op.schema.args.size());
    return OutVariant{op.name + ".out", op.schema.text, {last}};
  }
  bool can_run(const ir::Op&) const override { return true; }
  std::optional<loop::Int4Packing> int4_packing() const override { return loop::Int4Packing{}; }
};

inline program::Program lowered(const std::string& body, const LowerOptions& options = {},
                                const Catalog& catalog = {}) {
  const ir::Graph graph = ir::parse("npugraph.graph 1 @test {\n" + body + "\n}", "test", ops::registry());
  EXPECT_EQ(ir::verify(graph), "");
  return lower(graph, catalog, options).program;
}

inline std::string tasks_of(const program::Program& program) { return program::print_task_names(program); }

// The tasks of a graph whose clusters are generated.
inline std::string fused(const std::string& body) { return tasks_of(lowered(body, {.generate = true})); }

}  // namespace npugraph::lower
