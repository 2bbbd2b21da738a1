// SPDX-License-Identifier: Apache-2.0
#include "compiler/torch_free.h"

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/words.h"
#include "lower/catalog.h"
#include "program/call_symbols.h"

namespace npugraph::compiler {
namespace {

// A host whose operators cannot run, but whose weights are packed as before.
class WithoutOperators final : public lower::OperatorCatalog {
 public:
  explicit WithoutOperators(const lower::OperatorCatalog& host) : host_(host) {}
  std::optional<lower::OutVariant> out_variant(const ir::Op&) const override { return std::nullopt; }
  bool can_run(const ir::Op&) const override { return false; }
  std::optional<loop::Int4Packing> int4_packing() const override { return host_.int4_packing(); }

 private:
  const lower::OperatorCatalog& host_;
};

}  // namespace

program::Program compile_torch_free(ir::Graph imported, CompileRequest request, CompileHost host) {
  const WithoutOperators none(*host.catalog);
  host.catalog = &none;
  request.generate = true;
  request.keep_rest = true;
  program::Program program = compile(std::move(imported), request, host).program;
  require_torch_free(program);
  return program;
}

void require_torch_free(const program::Program& program) {
  std::string rest;
  int64_t count = 0;
  for (const program::Task& task : program.tasks) {
    if (!program::has(task.kind, program::KindTrait::kOfHost)) continue;
    ++count;
    rest += cat("\n  ", program::place_of(task), task.reason.empty() ? "" : ": ", task.reason);
  }
  if (count > 0) throw UserError(cat(program.name, " needs torch for ", counted(count, "operator"), ":", rest));
}

}  // namespace npugraph::compiler
