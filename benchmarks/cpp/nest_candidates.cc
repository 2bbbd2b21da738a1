// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>

#include "base/error.h"
#include "benchmarks/cpp/candidates.h"
#include "benchmarks/cpp/task_run.h"
#include "codegen/kernel/kernel.h"
#include "ir/text.h"
#include "loop/text.h"
#include "lower/clusters/cluster.h"
#include "lower/nest/loop_nest.h"
#include "ops/table.h"

namespace npugraph {
namespace {

using lower::Cluster;
using lower::LoopNest;
using lower::NestShape;
using lower::Terms;

int64_t bytes_of(const ir::TensorType& type) {
  int64_t bytes = size_of(type.dtype);
  for (const Expr& size : type.sizes) bytes *= *size.as_int();
  return bytes;
}

// A graph with memory for its values.
class Case {
 public:
  explicit Case(const std::string& text)
      : graph_(ir::parse("npugraph.graph 1 @kernel {\n" + text + "\n}", "kernel", ops::registry())),
        aliases_(graph_),
        ramps_(graph_, aliases_) {}

  Candidates candidates(const std::shared_ptr<Case>& self) {
    const lower::Clusters fused(graph_, aliases_);
    NG_CHECK(fused.all().size() == 1, "the graph is no single loop");
    const Cluster& cluster = fused.all().front();
    const LoopNest chosen = cheapest(cluster);
    add(self, str(chosen.shape), {chosen});
    for (const NestShape& shape : lower::nest_shapes(terms(cluster), stored(cluster)))
      add(self, str(shape),
          {streamed(make_loop_nest(graph_, terms(cluster), stored(cluster), strides(), ramps_, shape), cluster)});
    for (const int copies : {1, 2, 4}) add(self, cat("copies ", copies), {chosen}, copies);
    for (const ir::NodeId node : cluster.nodes) {
      if (node != cluster.nodes.front()) add_split(self, node);
    }
    return std::move(candidates_);
  }

 private:
  // The node, and what follows on it, in loops of their own.
  void add_split(const std::shared_ptr<Case>& self, ir::NodeId node) {
    const lower::Clusters split(graph_, aliases_, {.apart = {node}});
    std::map<int32_t, LoopNest> nests;  // in the order of the graph
    size_t nodes = 0;
    for (const Cluster& cluster : split.all()) {
      nodes += cluster.nodes.size();
      nests.emplace(cluster.anchor(), cheapest(cluster));
    }
    std::vector<LoopNest> in_order;
    for (auto& [anchor, nest] : nests) in_order.push_back(std::move(nest));
    size_t all = 0;
    for (const ir::NodeId id : graph_.order()) all += graph_.node(id).views.empty() ? 1 : 0;
    if (nodes == all && in_order.size() == 2) add(self, cat("split before ", graph_.node(node).op->name), in_order);
  }

  void add(const std::shared_ptr<Case>& self, std::string name, const std::vector<LoopNest>& nests,
           std::optional<int> copies = {}) {
    std::string text = copies ? cat("copies ", *copies) : "";
    for (const LoopNest& nest : nests) text += loop::print(nest.kernel);
    if (!texts_.emplace(text, name).second) return;
    auto tasks = std::make_shared<std::vector<std::unique_ptr<TaskRun>>>();
    for (const LoopNest& nest : nests) {
      std::vector<ng_buffer> buffers;
      for (const auto* values : {&nest.reads, &nest.writes})
        for (const ir::ValueId value : *values) buffers.push_back({.data = memory(value)});
      const ng_task task = codegen::make_kernel_task(nest.kernel, target::host_target(), copies);
      tasks->push_back(std::make_unique<TaskRun>(task, std::move(buffers)));
    }
    candidates_.push_back({std::move(name), [self, tasks] {
                             for (const auto& task : *tasks) task->run();
                           }});
  }

  Terms terms(const Cluster& cluster) const {
    Terms terms(cluster.space, cluster.lanes, cluster.walk);
    if (cluster.tile != ir::kNone) terms.set_tile(cluster.tile);
    for (const ir::NodeId id : cluster.nodes) terms.add(graph_, graph_.node(id));
    return terms;
  }
  static std::vector<ir::ValueId> stored(const Cluster& cluster) { return cluster.results; }
  lower::StridesOf strides() const {
    return [this](ir::ValueId id) { return graph_.value(id).tensor().strides; };
  }
  LoopNest streamed(LoopNest nest, const Cluster& cluster) const {
    stream_large_operands(nest, graph_, cluster.space, target::host_target());
    return nest;
  }
  LoopNest cheapest(const Cluster& cluster) const {
    return streamed(
        make_cheapest_nest(graph_, terms(cluster), stored(cluster), strides(), ramps_, target::host_target()), cluster);
  }
  char* memory(ir::ValueId value) {
    std::unique_ptr<Bytes>& place = memory_[aliases_.root(value)];
    if (place == nullptr) {
      place = std::make_unique<Bytes>(static_cast<size_t>(bytes_of(graph_.value(aliases_.root(value)).tensor())));
      fill(*place);
    }
    return place->data;
  }

  const ir::Graph graph_;
  const ir::AliasInfo aliases_;
  const lower::Ramps ramps_;
  std::map<ir::ValueId, std::unique_ptr<Bytes>> memory_;
  std::map<std::string, std::string> texts_;  // of candidates: their names
  Candidates candidates_;
};

}  // namespace

Candidates nest_candidates(const std::string& graph) {
  const auto kernel = std::make_shared<Case>(graph);
  return kernel->candidates(kernel);
}

}  // namespace npugraph
