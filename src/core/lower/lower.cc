// SPDX-License-Identifier: Apache-2.0
#include "lower/lower.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/bounds.h"
#include "ir/refused.h"
#include "loop/text.h"
#include "lower/buffers.h"
#include "lower/contains.h"
#include "lower/generated/merge_products.h"
#include "lower/generated/quant.h"
#include "lower/nest/loop_nest.h"
#include "lower/terms/terms.h"
#include "lower/waits.h"
#include "ops/node_facts.h"
#include "ops/operators.h"

namespace npugraph::lower {

using ir::Trait;
using program::Access;
using program::Task;
using program::TaskKind;

namespace {

// aten.add.Tensor -> add
std::string short_name(const ir::Op& op) {
  const size_t begin = op.name.find('.') + 1;
  return op.name.substr(begin, op.name.find('.', begin) - begin);
}

// The kind, operands and text of a product's task without its epilogue.
struct Factors {
  TaskKind kind = TaskKind::kMatmul;
  std::vector<ir::ValueId> values;
  std::string head;  // in front of the text of the epilogue
  Sums sums = Sums::kMatrix;
};

Factors factors_of(const ir::Graph& graph, const ir::Node& product, const OperatorCatalog& catalog) {
  if (const auto convolution = find_convolution(graph, product)) {
    const Sums sums = convolution->channels_last ? Sums::kMatrix : Sums::kImages;
    const ir::ValueId weight = aten::convolution::weight(product), input = aten::convolution::input(product);
    return {TaskKind::kConvolution, {weight, input}, loop::print(*convolution) + "\n", sums};
  }
  const auto [x, weights] = matrices_of(product);
  Factors factors{.values = {x, weights}, .head = product_head(graph, product, catalog)};
  if (is_int4_product(graph, product))
    factors.values.push_back(aten::_weight_int4pack_mm_for_cpu::qScaleAndZeros(product));
  return factors;
}

class Lowering {
 public:
  Lowering(const ir::Graph& graph, const OperatorCatalog& catalog, const LowerOptions& options)
      : graph_(graph),
        catalog_(catalog),
        keep_rest_(options.keep_rest),
        decisions_(graph, options.generate,
                   {.join = options.join, .apart = {}, .place_parts = options.place_parts, .catalog = &catalog}),
        uses_(ir::find_uses(graph)) {
    program_.name = graph.name;
    add_symbols();
    buffers_.emplace(
        graph, program_, [this](const ir::Node& node) { return writes_into_given_memory(node); },
        [this, &options](ir::NodeId id) {
          if (cluster_of(id) != nullptr) return Apart::kNever;
          if (!catalog_.can_run(*graph_.node(id).op)) return Apart::kAlways;
          return options.place_parts ? Apart::kIfSomePartIsPlaced : Apart::kNever;
        });
  }

  Lowered run() && {
    for (const ir::NodeId id : graph_.order()) {
      const ir::Node& node = graph_.node(id);
      if (node.dead || !node.views.empty()) continue;
      lower(id);
      add_notes({.node = id,
                 .saved_bytes = {},
                 .operations = ops::count_operations(graph_, node),
                 .may_fail = node.op->is(Trait::kMayThrow)});
    }
    for (Task& wait : waits_.rest()) program_.tasks.push_back(std::move(wait));
    notes_.resize(program_.tasks.size());
    std::vector<ir::NodeId> nodes;
    for (const TaskNote& note : notes_) nodes.push_back(note.node);
    resolve_sections(program_, graph_, nodes);
    for (const ir::Output& output : graph_.outputs) program_.outputs.push_back(lower_output(output));
    std::vector<LeftApart> left_apart;
    for (const Conflict& conflict : decisions_.conflicts()) {
      const auto name_of = [&](ir::NodeId id) { return short_name(*graph_.node(id).op); };
      const ir::Origin& origin = graph_.node(conflict.consumer).origin;
      left_apart.push_back({.producer = name_of(conflict.producer),
                            .consumer = name_of(conflict.consumer),
                            .reason = conflict.reason,
                            .origin = origin.node,
                            .source = origin.source,
                            .bytes = conflict.bytes});
    }
    return {std::move(program_), std::move(notes_), std::move(left_apart)};
  }

 private:
  void add_symbols();
  program::Symbol find_source(const ir::Symbol& symbol) const;
  bool writes_into_given_memory(const ir::Node& node) const;
  const Cluster* cluster_of(ir::NodeId id) const { return decisions_.of(id).cluster; }
  void lower(ir::NodeId id);
  void generate(const Cluster& cluster);
  void add_notes(const TaskNote& last);
  void lower_cluster(const Cluster& cluster);
  void lower_nest(const Cluster& cluster);
  bool lower_product(const Cluster& cluster);
  Task start_generated(TaskKind kind, const std::vector<ir::NodeId>& nodes) const;
  void finish_generated(Task task, const LoopNest& nest, const std::vector<ir::NodeId>& nodes,
                        const std::vector<ir::ValueId>& kept, const std::string& head = {});
  LoopNest make_nest(const Terms& terms, const std::vector<ir::ValueId>& stored);
  std::vector<Expr> strides_of(ir::ValueId id);
  void lower_node(const ir::Node& node, const Decision& decision);
  void lower_generated(const ir::Node& node, const GeneratedNode& generated);
  void lower_into_copy(ir::NodeId id, const ir::Op& twin);
  void lower_parts(ir::NodeId whole, const std::vector<Part>& parts);
  void lower_kernel(const ir::Node& node, const KernelChoice& choice, const std::string& reason);
  void lower_out_variant(const ir::Node& node, const OutVariant& variant, const std::string& reason);
  bool is_wanted(const ir::Node& node, size_t result) const;
  void lower_functional(const ir::Node& node, const std::string& reason);
  void lower_collective(const ir::Node& node);
  program::Output lower_output(const ir::Output& output);

  Task start_task(const ir::Node& node) const;
  void add_reads(const ir::Node& node, Task& task);
  void finish_task(const ir::Node& node, Task task);
  void add_task(const ir::Node& node, Task task);

  const ir::Graph& graph_;
  const OperatorCatalog& catalog_;
  const bool keep_rest_;
  const Decisions decisions_;
  const ir::Uses uses_;
  program::Program program_;
  std::vector<TaskNote> notes_;
  std::optional<BufferMap> buffers_;
  Waits waits_;
};

// A symbol is a scalar input, a size of an input, the storage offset of an input, or defined by a task
// (left open here).
program::Symbol Lowering::find_source(const ir::Symbol& symbol) const {
  program::Symbol found{.name = symbol.name, .kind = symbol.kind, .min = symbol.min, .max = symbol.max};
  const Expr wanted = Expr::symbol(symbol.name, symbol.kind);
  const auto count = static_cast<int32_t>(graph_.inputs.size());
  for (int32_t i = 0; i < count; ++i) {
    if (graph_.inputs[i].value == ir::kNone && graph_.inputs[i].scalar == wanted) {
      found.input = i;
      return found;
    }
  }
  for (int32_t i = 0; i < count; ++i) {
    const ir::ValueId value = graph_.inputs[i].value;
    if (value == ir::kNone || !graph_.value(value).is_tensor()) continue;
    const auto& sizes = graph_.value(value).tensor().sizes;
    const auto at = std::ranges::find_if(sizes, [&](const Expr& size) { return ir::tells(size, wanted); });
    if (at == sizes.end()) continue;
    found.input = i;
    found.dim = static_cast<int32_t>(at - sizes.begin());
    return found;
  }
  const auto offset = std::ranges::find(graph_.inputs, std::optional(wanted), &ir::Input::storage_offset);
  if (offset == graph_.inputs.end()) return found;
  found.input = static_cast<int32_t>(offset - graph_.inputs.begin());
  found.dim = program::kStorageOffset;
  return found;
}

// Adds the symbols of inputs and of live nodes. A symbol whose node is dead is unused.
void Lowering::add_symbols() {
  std::unordered_set<std::string_view> defined;
  for (const ir::NodeId id : graph_.order()) {
    if (graph_.node(id).dead) continue;
    for (const ir::SymbolDef& def : graph_.node(id).defines) defined.insert(def.symbol);
  }
  for (const ir::Symbol& symbol : graph_.symbols) {
    program::Symbol found = find_source(symbol);
    const bool is_input = found.input != program::kNone;
    if (!is_input) found.min = INT64_MIN, found.max = INT64_MAX;  // tasks check what they define
    if (is_input || defined.contains(symbol.name)) program_.symbols.push_back(std::move(found));
  }
}

Task Lowering::start_task(const ir::Node& node) const {
  Task task;
  task.name = node.op->name;
  task.schema = node.op->schema.text;
  task.args = node.args;
  task.stream = node.section;  // until resolve_sections
  task.origin = node.origin.node;
  task.source = node.origin.source;
  return task;
}

// Turns the values in task.args into operands. One operand per argument position: a value that is written and read
// through two arguments keeps two windows.
void Lowering::add_reads(const ir::Node& node, Task& task) {
  const std::vector<ir::ValueId> written = ir::written_operands(node);
  for (Attr& arg : task.args) {
    for_each_tensor(arg, [&](TensorRef& ref) {
      const bool writes = std::find(written.begin(), written.end(), ref.id) != written.end();
      task.operands.push_back(buffers_->operand(ref.id, writes ? Access::kReadWrite : Access::kRead));
      ref.id = static_cast<int32_t>(task.operands.size()) - 1;
    });
  }
}

// Finishes a task that runs one node.
void Lowering::finish_task(const ir::Node& node, Task task) {
  const bool copies = node.op->is(Trait::kCopyLike);
  for (program::Operand& operand : task.operands) operand.copied = copies && operand.access != Access::kRead;
  add_task(node, std::move(task));
}

void Lowering::add_task(const ir::Node& node, Task task) {
  for (Task& wait : waits_.due(program_, task)) program_.tasks.push_back(std::move(wait));
  for (const Attr& arg : task.args) {
    for_each_expr(arg, [&](const Expr& e) {
      if (!e.is_constant()) task.scalars.push_back(program_.dim(e).expr);
    });
  }
  const auto index = static_cast<int32_t>(program_.tasks.size());
  for (const ir::SymbolDef& def : node.defines) {
    const auto symbol = std::find_if(program_.symbols.begin(), program_.symbols.end(),
                                     [&](const program::Symbol& s) { return s.name == def.symbol; });
    NG_CHECK(symbol != program_.symbols.end(), "undeclared symbol ", def.symbol);
    symbol->task = index;
    program::Defined defined{.symbol = static_cast<int32_t>(symbol - program_.symbols.begin()), .dim = def.dim};
    (def.dim == ir::kNone ? defined.result : defined.operand) =
        def.dim == ir::kNone ? def.result : task.results.at(def.result);
    task.defines.push_back(defined);
  }
  program_.tasks.push_back(std::move(task));
}

// The last operand stands for the running collective.
void Lowering::lower_collective(const ir::Node& node) {
  Task task = start_task(node);
  task.kind = TaskKind::kCollective;
  task.reason = "communicates with other processes";
  add_reads(node, task);
  for (const ir::ValueId result : node.results) {
    buffers_->add_result(result, true);
    task.results.push_back(static_cast<int32_t>(task.operands.size()));
    task.operands.push_back(buffers_->operand(result, Access::kWrite));
  }
  const auto under_way = static_cast<int32_t>(program_.buffers.size());
  program_.buffers.push_back(
      {.name = cat(node.origin.node, ".under_way"), .cls = program::BufferClass::kHeap, .opaque = true});
  task.operands.push_back({.buffer = under_way, .access = Access::kWrite});
  Task wait = wait_for(task);
  finish_task(node, std::move(task));
  waits_.add(std::move(wait));
}

void Lowering::lower_out_variant(const ir::Node& node, const OutVariant& variant, const std::string& reason) {
  Task task = start_task(node);
  task.kind = TaskKind::kAten;
  task.foreign = node.op->is(Trait::kForeign);
  task.reason = reason;
  add_reads(node, task);
  std::vector<Attr> args(task.args.size() + variant.out_args.size());
  std::vector<bool> is_out(args.size(), false);
  for (size_t i = 0; i < variant.out_args.size(); ++i) {
    const ir::ValueId result = node.results[i];
    buffers_->add_result(result, true);
    task.operands.push_back(buffers_->out_argument(result));
    args[variant.out_args[i]] = TensorRef{static_cast<int32_t>(task.operands.size()) - 1};
    is_out[variant.out_args[i]] = true;
  }
  size_t next = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!is_out[i]) args[i] = std::move(task.args[next++]);
  }
  task.args = std::move(args);
  task.name = variant.name;
  task.schema = variant.schema;
  task.results.assign(node.results.size(), program::kNone);
  finish_task(node, std::move(task));
}

// Whether a result is used. Unused results are not kept: an operator may leave results undefined that were
// not asked for.
bool Lowering::is_wanted(const ir::Node& node, size_t result) const {
  const ir::ValueId id = node.results[result];
  if (!uses_.users[id].empty() || uses_.output_uses[id] != 0) return true;
  return std::ranges::any_of(node.defines, [&](const ir::SymbolDef& def) {
    return def.dim != ir::kNone && def.result == static_cast<int32_t>(result);
  });
}

// Opaque operators are Python callables, and control flow over graphs of its own.
void Lowering::lower_functional(const ir::Node& node, const std::string& reason) {
  Task task = start_task(node);
  task.kind = !node.op->is(Trait::kOpaque)  ? TaskKind::kAten
              : node.op->is(Trait::kNested) ? TaskKind::kNested
                                            : TaskKind::kPython;
  task.callable = node.callable;
  task.foreign = node.op->is(Trait::kForeign);
  add_reads(node, task);
  const std::vector<ir::ValueId> returned = ir::returned_operands(node);
  bool allocates = false;
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ir::ValueId result = node.results[i];
    task.results.push_back(program::kNone);
    if (result == ir::kNone || returned[i] != ir::kNone || !is_wanted(node, i)) continue;
    buffers_->add_result(result, false);
    task.operands.push_back(buffers_->operand(result, Access::kWrite));
    task.results.back() = static_cast<int32_t>(task.operands.size()) - 1;
    allocates = true;
  }
  if (program::is_callable(task.kind)) {
    task.reason = task.kind == TaskKind::kPython ? "not an ATen operator: runs in Python"
                                                 : "runs graphs of its own by values that only the run knows";
  } else {
    task.reason = allocates ? cat(reason, ", and no kernel that writes into planned memory") : reason;
  }
  finish_task(node, std::move(task));
}

// Operands are the references of the arguments in order, then the results that are no arguments. A precompiled kernel
// of an in-place node has the window that it reads as its result, too.
void Lowering::lower_kernel(const ir::Node& node, const KernelChoice& choice, const std::string& reason) {
  Task task = start_task(node);
  task.kind = TaskKind::kKernel;
  task.name = choice.name;
  task.reason = reason;
  task.schema = choice.schema;
  task.args = choice.args;
  add_reads(node, task);
  const bool is_of_library = !choice.schema.empty();
  const auto reads = static_cast<int32_t>(task.operands.size());
  const std::vector<ir::ValueId> returned = ir::returned_operands(node);
  for (size_t i = 0; i < node.results.size(); ++i) {
    const bool is_argument = returned[i] != ir::kNone;
    if (is_argument && is_of_library) continue;
    if (!is_argument) buffers_->add_result(node.results[i], true);
    const auto written = static_cast<int32_t>(task.operands.size());
    for (int32_t read = 0; !is_argument && choice.is_elementwise && read < reads; ++read)
      task.may_share.push_back({written, read});
    task.operands.push_back(buffers_->operand(node.results[i], Access::kWrite));
  }
  finish_task(node, std::move(task));
}

// A task that is named after its nodes, without operands yet.
Task Lowering::start_generated(TaskKind kind, const std::vector<ir::NodeId>& nodes) const {
  Task task = start_task(graph_.node(nodes.back()));
  task.kind = kind;
  task.schema.clear();
  task.name = program::name_of(kind);
  task.origin.clear();
  for (const ir::NodeId id : nodes) {
    const ir::Node& node = graph_.node(id);
    task.name += cat(".", short_name(*node.op));
    task.origin += cat(task.origin.empty() ? "" : ", ", node.origin.node);
  }
  return task;
}

// Adds the text of the generated code, its scalars and its operands to the task, and the task to the Program. The code
// writes some elements of the values in `kept`; the others keep what is in memory.
void Lowering::finish_generated(Task task, const LoopNest& nest, const std::vector<ir::NodeId>& nodes,
                                const std::vector<ir::ValueId>& kept, const std::string& head) {
  const ir::NodeId anchor = nodes.back();
  task.args = {head + loop::print(nest.kernel)};
  task.args.insert(task.args.end(), nest.symbols.begin(), nest.symbols.end());
  const size_t reads = task.operands.size(), writes = reads + nest.reads.size();
  for (const auto& [written, read] : nest.may_share)
    task.may_share.push_back({static_cast<int32_t>(writes + written), static_cast<int32_t>(reads + read)});
  for (const ir::ValueId id : nest.reads) task.operands.push_back(buffers_->operand(id, Access::kRead));
  for (const ir::ValueId id : nest.writes) {
    task.operands.push_back(buffers_->operand(id, contains(kept, id) ? Access::kReadWrite : Access::kWrite));
    task.operands.back().copied = is_copied(graph_, id, nodes);
  }
  add_task(graph_.node(anchor), std::move(task));
}

std::vector<Expr> Lowering::strides_of(ir::ValueId id) {
  std::vector<Expr> strides;
  for (const program::Dim& dim : buffers_->operand(id, Access::kRead).strides) strides.push_back(program_.expr(dim));
  return strides;
}

void Lowering::generate(const Cluster& cluster) {
  const size_t first = program_.tasks.size();
  lower_cluster(cluster);
  TaskNote note{.node = cluster.anchor(), .saved_bytes = cluster.saved_bytes, .operations = {}};
  for (const ir::NodeId id : cluster.nodes) {
    note.operations = note.operations + ops::count_operations(graph_, graph_.node(id));
    note.may_fail = note.may_fail || graph_.node(id).op->is(Trait::kMayThrow);
  }
  if (cluster.product != ir::kNone && notes_.size() == first) {  // else it has a task and a note of its own
    note.operations = note.operations + ops::count_operations(graph_, graph_.node(cluster.product));
  }
  add_notes(note);
  if (notes_.size() != first + 1) return;
  if (const std::optional<size_t> into = merge_product(program_.tasks)) {
    notes_.pop_back();
    notes_[*into].may_fail = notes_[*into].may_fail || note.may_fail;
    notes_[*into].saved_bytes = notes_[*into].saved_bytes + note.saved_bytes;
    notes_[*into].operations = notes_[*into].operations + note.operations;
  }
}

// Adds notes for the tasks that have none yet. Bytes and operations belong to the last of them; the others are
// waits before it.
void Lowering::add_notes(const TaskNote& last) {
  if (notes_.size() >= program_.tasks.size()) return;
  notes_.resize(program_.tasks.size() - 1, {.node = last.node, .saved_bytes = {}, .operations = {}});
  notes_.push_back(last);
}

void Lowering::lower_cluster(const Cluster& cluster) {
  if (cluster.product == ir::kNone) return lower_nest(cluster);
  if (lower_product(cluster)) return;
  // The rows are not evenly spaced: the product runs by itself, then the other nodes.
  const ir::Node& product = graph_.node(cluster.product);
  const ir::ValueId result = product.results.front();
  if (const auto convolution = choose_convolution(graph_, product)) {
    lower_generated(product, *convolution);
  } else {
    const bool is_alone = lower_product({.product = cluster.product,
                                         .product_view = result,
                                         .space = graph_.value(result).tensor().sizes,
                                         .results = {result}});
    NG_CHECK(is_alone, product.op->name, ": the rows of its result are not evenly spaced");
  }
  add_notes({.node = cluster.anchor(), .saved_bytes = {}, .operations = ops::count_operations(graph_, product)});
  lower_nest(cluster);
}

void Lowering::lower_nest(const Cluster& cluster) {
  Terms terms(cluster.space, cluster.lanes, cluster.walk);
  if (cluster.tile != ir::kNone) terms.set_tile(cluster.tile);
  for (const ir::NodeId id : cluster.nodes) terms.add(graph_, graph_.node(id));
  for (const ir::ValueId id : cluster.results) buffers_->add_result(id, true);
  std::vector<ir::ValueId> stored = cluster.results;
  stored.insert(stored.end(), cluster.writes.begin(), cluster.writes.end());
  LoopNest nest = make_nest(terms, stored);
  stream_large_operands(nest, graph_, cluster.space, target::host_target());
  finish_generated(start_generated(TaskKind::kLoop, cluster.nodes), nest, cluster.nodes, cluster.writes);
}

LoopNest Lowering::make_nest(const Terms& terms, const std::vector<ir::ValueId>& stored) {
  const auto strides = [&](ir::ValueId id) { return strides_of(id); };
  return make_cheapest_nest(graph_, terms, stored, strides, decisions_.ramps(), target::host_target());
}

// Copies self into the result, where code of the in-place twin then writes.
void Lowering::lower_into_copy(ir::NodeId id, const ir::Op& twin) {
  const ir::Node& node = graph_.node(id);
  const ir::ValueId result = node.results.front();
  const ir::Node writes = written_form(node, twin);
  const auto form = lone_form(graph_, writes);
  NG_CHECK(form, twin.name, " has no loops");
  Terms terms(form->space, form->lanes, form->walk);
  terms.add(graph_, writes);
  buffers_->add_result(result, true);
  const LoopNest nest = make_nest(terms, {result});

  Task copy = start_task(node);
  copy.kind = TaskKind::kKernel;
  copy.name = "kernel.copy";
  copy.reason = cat(twin.name, " writes into the copy");
  copy.schema.clear();
  copy.args = {TensorRef{0}};
  copy.operands = {buffers_->operand(ops::as_value(arg::self(node)), Access::kRead),
                   buffers_->operand(result, Access::kWrite)};
  copy.operands.back().copied = true;
  add_task(node, std::move(copy));
  finish_generated(start_generated(TaskKind::kLoop, {id}), nest, {id}, {result});
}

// Returns false and adds nothing if the nodes behind the product cannot work on its sums.
bool Lowering::lower_product(const Cluster& cluster) {
  const ir::Node& product = graph_.node(cluster.product);
  const auto factors = factors_of(graph_, product, catalog_);
  Terms terms(cluster.space, cluster.lanes);
  terms.add_product(graph_, product, cluster.product_view);
  for (const ir::NodeId id : cluster.nodes) terms.add(graph_, graph_.node(id));
  // Results have memory of their own (writes_into_given_memory), with the strides of their types.
  const auto strides = [&](ir::ValueId id) {
    const bool is_new = std::find(cluster.results.begin(), cluster.results.end(), id) != cluster.results.end();
    return is_new ? graph_.value(id).tensor().strides : strides_of(id);
  };
  const auto nest = make_epilogue(graph_, terms, cluster.results, strides, decisions_.ramps(), factors.sums);
  if (!nest) return false;
  for (const ir::ValueId id : cluster.results) buffers_->add_result(id, true);
  std::vector<ir::NodeId> nodes = {cluster.product};
  nodes.insert(nodes.end(), cluster.nodes.begin(), cluster.nodes.end());
  Task task = start_generated(factors.kind, nodes);
  for (const ir::ValueId factor : factors.values) task.operands.push_back(buffers_->operand(factor, Access::kRead));
  if (is_int8_product(graph_, product)) {
    // Products take [k, n].
    std::swap(task.operands[1].sizes[0], task.operands[1].sizes[1]);
    std::swap(task.operands[1].strides[0], task.operands[1].strides[1]);
  }
  finish_generated(std::move(task), *nest, nodes, {}, factors.head);
  return true;
}

// Lowers a node that is generated code by itself.
void Lowering::lower_generated(const ir::Node& node, const GeneratedNode& generated) {
  Task task = start_task(node);
  task.kind = generated.kind;
  task.name = generated.name;
  task.schema.clear();
  task.args = {generated.text};
  for (const ir::ValueId id : generated.reads) task.operands.push_back(buffers_->operand(id, Access::kRead));
  for (const ir::ValueId id : generated.writes) {
    buffers_->add_result(id, true);
    task.operands.push_back(buffers_->operand(id, Access::kWrite));
  }
  finish_task(node, std::move(task));
}

// A part that is computed in the concatenation needs no task; the others are copied.
void Lowering::lower_parts(ir::NodeId whole, const std::vector<Part>& parts) {
  const ir::Node& node = graph_.node(whole);
  buffers_->add_result(node.results[0], true);
  for (const Part& part : parts) {
    if (part.obstacle == nullptr) continue;
    Task task = start_task(node);
    task.kind = TaskKind::kKernel;
    task.name = "kernel.copy";
    task.reason = cat("not computed in its place in the concatenation: ", part.obstacle);
    task.schema.clear();
    task.args = {TensorRef{0}};
    task.operands = {buffers_->operand(part.value, Access::kRead), buffers_->operand(whole, part)};
    finish_task(node, std::move(task));
  }
}

// Whether the task of a node writes its results into given memory of any strides.
bool Lowering::writes_into_given_memory(const ir::Node& node) const {
  const bool has_result = !node.results.empty() && node.results.front() != ir::kNone;
  if (!has_result) return false;
  const Decision& decision = decisions_.of(graph_.value(node.results.front()).def);
  // A product needs evenly spaced rows, which a part of a concatenation may not have.
  if (decision.cluster != nullptr) return decision.cluster->product == ir::kNone;
  if (decision.kernel) return decision.kernel->any_strides;
  return decision.out_variant && decision.out_variant->any_strides;
}

void Lowering::lower_node(const ir::Node& node, const Decision& decision) {
  if (decision.generated) return lower_generated(node, *decision.generated);
  if (decision.kernel) return lower_kernel(node, *decision.kernel, decision.reason);
  const ir::Op& op = *node.op;
  if (op.is(ir::Trait::kCollective)) return lower_collective(node);
  const bool is_mark = op.is(Trait::kBeginsScope) || op.is(Trait::kEndsScope);  // merge_scopes() removes it
  if (!op.is(Trait::kOpaque) && !is_mark && !catalog_.can_run(op) && !keep_rest_) {
    const std::string& place = node.origin.source.empty() ? node.origin.node : node.origin.source;
    throw ir::OperatorRefused(node.origin.node, cat("operator ", op.name, place.empty() ? "" : cat(" (", place, ")"),
                                                    " cannot run on this host: ", decision.reason));
  }
  if (decision.out_variant) return lower_out_variant(node, *decision.out_variant, decision.reason);
  lower_functional(node, decision.reason);
}

void Lowering::lower(ir::NodeId id) {
  if (decisions_.of(id).is_made_where_read) return;
  const ir::Op* twin = decisions_.of(id).into_copy;
  if (const Cluster* cluster = cluster_of(id)) {
    if (cluster->anchor() == id) generate(*cluster);
  } else if (twin != nullptr) {
    lower_into_copy(id, *twin);
  } else if (const auto* parts = buffers_->parts(id)) {
    lower_parts(id, *parts);
  } else {
    lower_node(graph_.node(id), decisions_.of(id));
  }
}

program::Output Lowering::lower_output(const ir::Output& output) {
  if (const auto* ref = std::get_if<TensorRef>(&output)) return buffers_->output(ref->id);
  program::Output lowered;
  if (const auto* scalar = std::get_if<Expr>(&output)) {
    lowered.kind = program::Output::Kind::kScalar;
    lowered.scalar = program_.dim(*scalar);
    lowered.scalar_kind = scalar->kind();
  }
  return lowered;
}

}  // namespace

Lowered lower(const ir::Graph& graph, const OperatorCatalog& catalog, const LowerOptions& options) {
  Lowered lowered = Lowering(graph, catalog, options).run();
  if (options.generate) merge_factors(lowered.program, lowered.notes);
  return lowered;
}

}  // namespace npugraph::lower
