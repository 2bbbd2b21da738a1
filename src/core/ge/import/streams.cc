// SPDX-License-Identifier: Apache-2.0
#include "ge/import/streams.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "ge/import/inputs.h"
#include "ir/alias.h"
#include "ops/operators.h"

namespace npugraph::ge {

namespace {

// What an operator states, but at most `most`; 0 stands for no limit.
int32_t limit_of(const OpDef& op, std::string_view name, int32_t most) {
  const std::string text = text_attr(op, name);
  if (text.empty()) return most;
  int32_t limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc() || end != text.data() + text.size() || limit < 1)
    throw UserError(cat("operator '", op.name, "': its attribute '", name, "' is a number of cores, got '", text, "'"));
  return most == 0 ? limit : std::min(limit, most);
}

using NodeIds = std::vector<ir::NodeId>;

// What the attributes of an operator say of its nodes.
struct Wish {
  int32_t stream = 0;
  CoreLimits limits;
  NodeIds after;  // earlier nodes that have to be done
};

// Which nodes have to be done before others, in the order of the graph: what reads memory comes after what wrote it,
// and what writes it after what read or wrote it.
class Dependencies {
 public:
  explicit Dependencies(const ir::Graph& graph) : graph_(graph), aliases_(graph) {}

  // Those of the next node.
  NodeIds next(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    NodeIds needed = definers_;
    for (const ir::ValueId operand : ir::operands(node)) {
      needed.push_back(graph_.value(operand).def);
      needed.push_back(memory_[aliases_.root(operand)].writer);
    }
    for (const ir::ValueId operand : ir::written_operands(node)) {
      const NodeIds& readers = memory_[aliases_.root(operand)].readers;
      needed.insert(needed.end(), readers.begin(), readers.end());
    }
    for (const ir::ValueId operand : ir::operands(node)) memory_[aliases_.root(operand)].readers.push_back(id);
    for (const ir::ValueId operand : ir::written_operands(node)) memory_[aliases_.root(operand)] = {id, {}};
    if (!node.defines.empty()) definers_.push_back(id);  // sizes of any later node may be these
    std::erase(needed, ir::kNone);
    return needed;
  }

 private:
  struct Memory {
    ir::NodeId writer = ir::kNone;  // the last one
    NodeIds readers;                // since then
  };

  const ir::Graph& graph_;
  const ir::AliasInfo aliases_;
  std::map<ir::ValueId, Memory> memory_;  // by root
  NodeIds definers_;
};

// Puts the nodes of a graph into sections, in their order. `wishes` has one for each node.
class Sections {
 public:
  Sections(ir::Graph& graph, std::vector<Wish> wishes) : graph_(graph), wishes_(std::move(wishes)) {}

  void run() && {
    std::vector<bool> is_awaited(wishes_.size());  // by another stream
    Dependencies dependencies(graph_);
    for (const ir::NodeId id : graph_.order()) {
      NodeIds& after = wish(id).after;
      const NodeIds needed = dependencies.next(id);
      after.insert(after.end(), needed.begin(), needed.end());
      std::erase_if(after, [&](ir::NodeId other) { return wish(other).stream == wish(id).stream; });
      for (const ir::NodeId other : after) is_awaited[static_cast<size_t>(other)] = true;
    }
    for (const ir::NodeId id : graph_.order()) {
      graph_.node(id).section = section_for(wish(id));
      // What follows in its stream is not waited for.
      if (is_awaited[static_cast<size_t>(id)]) streams_[wish(id).stream].is_open = false;
    }
    graph_.sections = std::move(sections_);
  }

 private:
  struct Stream {
    int32_t section = ir::kNone;  // the latest one
    bool is_open = false;
  };

  Wish& wish(ir::NodeId id) { return wishes_[static_cast<size_t>(id)]; }

  int32_t section_for(const Wish& wish) {
    std::set<int32_t> needed;
    for (const ir::NodeId other : wish.after) needed.insert(graph_.node(other).section);
    Stream& stream = streams_[wish.stream];
    const bool continues = stream.is_open && sections_[stream.section].limits == wish.limits &&
                           std::ranges::includes(before_[stream.section], needed);
    if (continues) return stream.section;
    std::set<int32_t> before;
    const auto add = [&](int32_t section) {
      before.insert(section);
      before.insert(before_[section].begin(), before_[section].end());
    };
    if (stream.section != ir::kNone) add(stream.section);
    std::vector<int32_t> after;
    std::ranges::set_difference(needed, before, std::back_inserter(after));
    for (const int32_t section : after) add(section);
    sections_.push_back({.stream = wish.stream, .after = std::move(after), .limits = wish.limits});
    before_.push_back(std::move(before));
    stream = {static_cast<int32_t>(sections_.size()) - 1, true};
    return stream.section;
  }

  ir::Graph& graph_;
  std::vector<Wish> wishes_;
  std::vector<ir::Section> sections_;
  std::vector<std::set<int32_t>> before_;  // per section: all that come before it
  std::map<int32_t, Stream> streams_;
};

// Which nodes come before an operator because of control edges.
class Controls {
 public:
  // Returns the nodes for the operator, whose own nodes are from `first` up to `end`. Producers come first.
  NodeIds add(const OpDef& op, ir::NodeId first, ir::NodeId end) {
    Entry entry{.is_empty = first == end};
    for (const InputRef& input : op.inputs) {
      const auto found = entries_.find(input.producer);
      if (input.is_absent() || found == entries_.end()) continue;
      const Entry& producer = found->second;
      // Who reads a result without nodes of its own waits for what its operator waits for.
      if (input.is_control())
        append(entry.before, producer.last);
      else if (producer.is_empty)
        append(entry.before, producer.before);
      if (entry.is_empty) append(entry.last, producer.last);
    }
    if (!entry.is_empty) entry.last = {end - 1};
    return entries_.emplace(op.name, std::move(entry)).first->second.before;
  }

 private:
  struct Entry {
    bool is_empty = false;
    NodeIds before;
    NodeIds last;  // done when the operator is done
  };

  static void append(NodeIds& to, const NodeIds& nodes) { to.insert(to.end(), nodes.begin(), nodes.end()); }

  std::map<std::string_view, Entry, std::less<>> entries_;
};

}  // namespace

int32_t Streams::number_of(const OpDef& op) {
  const auto next = static_cast<int32_t>(streams_.size());
  return streams_.emplace(text_attr(op, attr::kStream), next).first->second;
}

void Streams::add(const OpDef& op, ir::NodeId first, ir::NodeId end) {
  parts_.push_back({&op, number_of(op), first, end});
}

void Streams::settle(ir::Graph& graph) const {
  add_sections(graph);
  add_marks(graph);
}

void Streams::add_sections(ir::Graph& graph) const {
  Controls controls;
  std::vector<Wish> wishes(static_cast<size_t>(graph.num_nodes()), Wish{.limits = limits_});
  bool is_plain = true;
  for (const Part& part : parts_) {
    Wish wish{.stream = part.stream,
              .limits = {limit_of(*part.op, attr::kCubeCores, limits_.cube),
                         limit_of(*part.op, attr::kVectorCores, limits_.vector)},
              .after = controls.add(*part.op, part.first, part.end)};
    is_plain = is_plain && wish.stream == 0 && wish.limits == CoreLimits{};
    for (ir::NodeId id = part.first; id < part.end; ++id) wishes[static_cast<size_t>(id)] = wish;
  }
  if (!is_plain) Sections(graph, std::move(wishes)).run();
}

void Streams::add_marks(ir::Graph& graph) const {
  const ir::NodeId end = graph.num_nodes();
  const auto add = [&](const ir::Op& op, const OpDef& def, ir::NodeId before, ir::NodeId like) {
    ir::Node mark{.op = &op,
                  .args = {text_attr(def, attr::kSuperKernel), text_attr(def, attr::kSuperKernelOptions)},
                  .section = graph.node(like).section,
                  .origin = {def.name, text_attr(def, attr::kSource)}};
    if (before == end) {
      graph.append(std::move(mark), {}, "");
    } else {
      graph.insert_before(before, std::move(mark), {}, "");
    }
  };
  const Part* begun = nullptr;  // the last operator of the scope that is open
  for (const Part& part : parts_) {
    if (part.first == part.end) continue;
    const std::string scope = text_attr(*part.op, attr::kSuperKernel);
    if (begun != nullptr && text_attr(*begun->op, attr::kSuperKernel) == scope) {
      begun = &part;
      continue;
    }
    if (begun != nullptr) add(npugraph_ex::super_kernel_scope_end::op(), *begun->op, part.first, begun->end - 1);
    if (!scope.empty()) add(npugraph_ex::super_kernel_scope_begin::op(), *part.op, part.first, part.first);
    begun = scope.empty() ? nullptr : &part;
  }
  if (begun != nullptr) add(npugraph_ex::super_kernel_scope_end::op(), *begun->op, end, begun->end - 1);
}

}  // namespace npugraph::ge
