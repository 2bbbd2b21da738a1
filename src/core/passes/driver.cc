// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "ir/text.h"
#include "passes/pass.h"

namespace npugraph::passes {
namespace {

void check(const ir::Graph& graph, std::string_view when) {
  const std::string violation = ir::verify(graph);
  if (violation.empty()) return;
  throw InternalError(cat("the graph is broken ", when, ": ", violation, "\nThe graph:\n", ir::print(graph)));
}

PassRecord run_pass(ir::Graph& graph, const Pass& pass, PassContext& context, bool verify) {
  PassRecord record{.name = pass.name};
  const size_t first_remark = context.remarks.size();
  const auto start = std::chrono::steady_clock::now();
  record.hits = pass.run(graph, context);
  graph.compact();
  record.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  for (size_t i = first_remark; i < context.remarks.size(); ++i) context.remarks[i].pass = pass.name;
  if (verify && record.hits > 0) check(graph, cat("after the pass ", pass.name));
  return record;
}

}  // namespace

std::vector<PassRecord> run_passes(ir::Graph& graph, const std::vector<Pass>& pipeline, PassContext& context,
                                   const DriverOptions& options) {
  for (const std::string& name : options.disabled) find_pass(name);
  std::vector<PassRecord> records;
  for (const Pass& pass : pipeline) {
    const bool disabled =
        std::find(options.disabled.begin(), options.disabled.end(), pass.name) != options.disabled.end();
    const bool runs = !disabled && (pass.keeps_sections || !graph.has_streams());
    records.push_back(runs ? run_pass(graph, pass, context, options.verify)
                           : PassRecord{.name = pass.name, .disabled = disabled});
    if (options.after) options.after(pass, graph, records.back());
  }
  return records;
}

}  // namespace npugraph::passes
