// SPDX-License-Identifier: Apache-2.0
// A graph pass is a free function that rewrites a Graph in place and reports how often it hit. The driver owns names,
// switches, timing, dumps, counters and verification; a pass holds none of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace npugraph::passes {

// Evaluates one node whose operands are all constants. Returns the results in order, or an empty list if it cannot.
// Injected by the host, because only the host can run an ATen operator.
using ConstantEvaluator =
    std::function<std::vector<std::shared_ptr<const ir::ConstantData>>(const ir::Graph& graph, ir::NodeId node)>;

// A note about what a pass did to one node, for explain().
struct Remark {
  std::string pass;     // filled in by the driver
  std::string node;     // FX node
  std::string message;  // "updated in place", "kept: %k is read after the write"
};

struct PassContext {
  ConstantEvaluator evaluate;  // empty: fold nothing that needs the host
  bool fuses = false;          // elementwise operators become loop nests, whose memory is assigned later
  bool training = false;       // grad is on: nothing may be derived from values that change
  // The copy_ nodes at the end of the graph come from functionalisation: the user's program wrote where the value was
  // computed. False for graphs whose in-place operators are where the user's program has them, and after
  // reinplace_inputs, which leaves the copies that it could not resolve to hoist_copies, in `left_epilogues`.
  bool copy_epilogues = true;
  std::vector<ir::NodeId> left_epilogues;
  std::vector<Remark> remarks;

  void remark(const ir::Node& node, std::string message) {
    remarks.push_back({"", node.origin.node, std::move(message)});
  }
};

// Returns the number of rewrites.
using PassFn = int (*)(ir::Graph& graph, PassContext& context);

struct Pass {
  const char* name;  // also its switch: disable_passes=("cse",)
  PassFn run;
  const char* summary;  // one sentence
  // Whether the pass respects sections: false if it moves work from one section to another, or reads memory later than
  // before. Such passes run on graphs of one stream only.
  bool keeps_sections = true;
};

struct PassRecord {
  std::string name;
  int hits = 0;
  double milliseconds = 0;
  bool disabled = false;
};

struct DriverOptions {
  std::vector<std::string> disabled;                                            // names of passes to leave out
  bool verify = true;                                                           // after each pass that hit
  std::function<void(const Pass&, const ir::Graph&, const PassRecord&)> after;  // dumps; may be empty
};

// Runs `pipeline` in order. InternalError with the text IR when a pass breaks the graph. UserError for an unknown name
// in `disabled`.
std::vector<PassRecord> run_passes(ir::Graph& graph, const std::vector<Pass>& pipeline, PassContext& context,
                                   const DriverOptions& options);

// All passes, for tools and for checking switches. Not in the order of a pipeline.
const std::vector<Pass>& all_passes();
const Pass& find_pass(std::string_view name);  // UserError that lists the known names
std::vector<Pass> find_passes(const std::vector<std::string>& names);

}  // namespace npugraph::passes
