// SPDX-License-Identifier: Apache-2.0
// Compiles graphs in text form for a process without torch.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/artifact.h"
#include "ir/text.h"
#include "ops/table.h"
#include "runtime/malloc_host.h"

namespace npugraph::compiler {

// Knows no operator, so that only kernels of our own run.
class NoCatalog : public lower::OperatorCatalog {
 public:
  std::optional<lower::OutVariant> out_variant(const ir::Op&) const override { return std::nullopt; }
  bool can_run(const ir::Op&) const override { return false; }
};

// Computes x + x twice and adds the results.
inline constexpr std::string_view kDoubles = R"(npugraph.graph 1 @doubles {
  input %x : f32[4] user "x"
  %a : f32[4] = aten.add.Tensor(%x, %x)
  %b : f32[4] = aten.add.Tensor(%x, %x)
  %c : f32[4] = aten.add.Tensor(%a, %b)
  return %c
})";

// If `make` is given, code is generated, and `make` makes the tasks.
inline std::unique_ptr<Artifact> compile_text(std::string_view text, const lower::OperatorCatalog& catalog,
                                              std::vector<PhaseTime> front_end = {}, runtime::MakeTask make = {},
                                              CompileRequest request = {}) {
  static runtime::MallocHost runtime_host;
  CompileHost host;
  host.catalog = &catalog;
  host.facts = {{"torch", "1.2.3"}};
  request.name = "doubles";
  request.generate = make != nullptr;
  if (make) host.make_task = std::move(make);
  return std::make_unique<Artifact>(ir::parse(text, "test", ops::registry()), request, host, runtime_host,
                                    std::vector<Partition>{}, std::move(front_end));
}

}  // namespace npugraph::compiler
