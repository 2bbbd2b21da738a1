// SPDX-License-Identifier: Apache-2.0
#include "ge/import/import.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ge/data_types.h"
#include "ge/import/call.h"
#include "ge/import/context.h"
#include "ge/import/dump.h"
#include "ge/import/inputs.h"
#include "ge/import/rules.h"
#include "ge/import/streams.h"
#include "ge/import/user_operator.h"
#include "ge/ir/registry.h"
#include "ge/model.h"
#include "ir/alias.h"
#include "ir/bounds.h"
#include "ir/refused.h"
#include "libraries/library.h"
#include "ops/operators.h"
#include "tensor/shape.h"

namespace npugraph::ge {

namespace {

// The operators of an IR graph in an order in which producers come before readers.
struct OrderedGraph {
  std::vector<const OpDef*> order;
  std::map<std::string, const OpDef*, std::less<>> by_name;
};

// Operators keep the order of the graph where data and control edges leave a choice. UserError if a name is given
// twice or is empty, if an operator reads one that is not there, or if operators wait for each other.
OrderedGraph order_operators(const GraphDef& graph) {
  OrderedGraph ordered;
  std::map<const OpDef*, size_t> position;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const OpDef& op = graph.ops[i];
    if (op.name.empty()) throw UserError(cat("operator ", i, " of type ", op.type, " has no name"));
    if (!ordered.by_name.emplace(op.name, &op).second) throw UserError(cat("two operators are called '", op.name, "'"));
    position.emplace(&op, i);
  }
  std::vector<std::vector<size_t>> readers(graph.ops.size());
  std::vector<size_t> waits_for(graph.ops.size(), 0);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    for (const InputRef& input : graph.ops[i].inputs) {
      if (input.is_absent()) continue;
      const auto producer = ordered.by_name.find(input.producer);
      if (producer == ordered.by_name.end())
        throw UserError(
            cat("operator '", graph.ops[i].name, "' reads '", input.producer, "', which the graph does not have"));
      readers[position.at(producer->second)].push_back(i);
      ++waits_for[i];
    }
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (waits_for[i] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    ordered.order.push_back(&graph.ops[i]);
    for (const size_t reader : readers[i]) {
      if (--waits_for[reader] == 0) ready.push(reader);
    }
  }
  for (size_t i = 0; i < graph.ops.size() && ordered.order.size() < graph.ops.size(); ++i) {
    if (waits_for[i] != 0) throw UserError(cat("operator '", graph.ops[i].name, "' waits for its own results"));
  }
  return ordered;
}

// What to do about an operator without a rule, of a model that was not made here.
constexpr std::string_view kHowToAddParts =
    ", and the model does not say of which parts it is made: `python -m npugraph parts` adds those of Ascend's "
    "operators";

bool is_input(const OpDef& op) { return op.type == "Data" || op.type == "RefData"; }

int64_t index_of(const OpDef& op) {
  const auto* index = find_attr<int64_t>(op.attrs, "index");
  return index == nullptr ? 0 : *index;
}

class Importer {
 public:
  Importer(const OrderedGraph& ops, Context& context, const ImportOptions& options, const Dumps& dumps)
      : ops_(ops), context_(context), options_(options), dumps_(dumps), streams_(options.limits) {}

  // Adds all of the graph.
  void run() {
    for (const OpDef* op : inputs_in_order()) named(*op, [&] { add_input(*op); });
    for (size_t i = 0; i < ops_.order.size(); ++i) {
      const OpDef& op = *ops_.order[i];
      named(op, [&] {
        if (op.type == "Assign" || op.type == "NetOutput") write_references();
        const ir::NodeId first = context_.graph().num_nodes();
        if (op.type == "Assign") keep_views_of_written(i);
        if (dumps_.has(op))
          add_dumped(op, static_cast<int64_t>(i));
        else
          add(op);
        streams_.add(op, first, context_.graph().num_nodes());
      });
    }
    write_references();
    streams_.settle(context_.graph());
    for (const ir::Symbol& symbol : context_.graph().symbols) require_source(Expr::symbol(symbol.name));
  }

  // Adds the operators as parts of another one, which has these operands, and returns its results. Nodes keep the
  // origin of that operator. UserError if a part writes an operand.
  std::vector<Operand> run_parts(const std::vector<Operand*>& operands) {
    std::vector<Operand> results;
    for (const OpDef* op : ops_.order) {
      named(*op, [&] {
        if (op->type == "Assign" || op->type == "RefData") throw UserError("a part of an operator writes nothing");
        if (op->type == "Data")
          results_[op] = {operand_of_parts(*op, operands)};
        else if (op->type == "NetOutput")
          results = results_of_parts(*op);
        else
          results_[op] = results_of(*op);
      });
    }
    return results;
  }

 private:
  // Errors say of which operator they are, and where the user's program has it.
  template <typename Fn>
  static void named(const OpDef& op, Fn&& fn) {
    try {
      fn();
    } catch (const UserError& error) {
      const std::string source = text_attr(op, attr::kSource);
      const std::string line = source.empty() ? "" : cat(" (", source, ")");
      throw ir::OperatorRefused(op.name, cat("operator '", op.name, "' of type ", op.type, line, ": ", error.what()));
    }
  }

  // Results of operators are values, also those that are views here. What later assignments and outputs read in the
  // memory that assignment `at` writes is copied before. Inputs and results of assignments mean what is written.
  void keep_views_of_written(size_t at) {
    const std::vector<Operand*> written = operands_of(*ops_.order[at]);
    if (written.empty() || written[0] == nullptr || written[0]->value == ir::kNone) return;
    const ir::AliasInfo aliases(context_.graph());
    const ir::ValueId root = aliases.root(written[0]->value), end = context_.graph().num_values();
    for (const OpDef* later : std::span(ops_.order).subspan(at)) {
      if (later->type != "Assign" && later->type != "NetOutput") continue;
      for (const InputRef& input : later->inputs) {
        ir::ValueId* value = input.is_absent() || input.is_control() ? nullptr : made_by_operator(input);
        if (value != nullptr && *value != ir::kNone && *value < end && aliases.root(*value) == root)
          *value = context_.add(aten::clone::op(), {TensorRef{*value}});
      }
    }
  }

  // The tensor of a result that is there already; null for those of inputs and assignments.
  ir::ValueId* made_by_operator(const InputRef& input) {
    const OpDef* producer = ops_.by_name.find(input.producer)->second;
    const auto found = results_.find(producer);
    if (is_input(*producer) || producer->type == "Assign" || found == results_.end() ||
        static_cast<size_t>(input.index) >= found->second.size())
      return nullptr;
    return &found->second[static_cast<size_t>(input.index)].value;
  }

  // A call has to say the value of each symbol: as a number, or as a size of a tensor.
  void require_source(const Expr& symbol) {
    const auto tells = [&](const Expr& size) { return ir::tells(size, symbol); };
    for (const ir::Input& input : context_.graph().inputs) {
      if (input.value == ir::kNone ? input.scalar == symbol : std::ranges::any_of(context_.sizes(input.value), tells))
        return;
    }
    throw UserError(cat("the size ", symbol.str(), " is part of other sizes, and no input has it"));
  }

  std::vector<const OpDef*> inputs_in_order() const {
    std::vector<const OpDef*> inputs;
    std::ranges::copy_if(ops_.order, std::back_inserter(inputs), [](const OpDef* op) { return is_input(*op); });
    std::ranges::stable_sort(inputs, {}, [](const OpDef* op) { return index_of(*op); });
    return inputs;
  }

  void add_input(const OpDef& op) {
    ir::Graph& graph = context_.graph();
    if (index_of(op) != static_cast<int64_t>(graph.inputs.size()))
      throw UserError(cat("its index is ", index_of(op), "; indices of inputs are 0, 1, ... without gaps"));
    const ir::TensorType type = input_type(context_, op);
    const std::string source = text_attr(op, attr::kSource);
    ir::Input input{.kind = input_kind(op), .source = source.empty() ? op.name : source};
    if (const std::string number = text_attr(op, attr::kValue); !number.empty()) {
      input.scalar = context_.parse_size(number);
      results_[&op] = {{.numbers = Numbers{type.dtype, {}, {input.scalar}}}};
    } else {
      input.value = graph.add_value(type, op.name);
      results_[&op] = {Operand::of(input.value)};
      if (op.type == "RefData") references_[{&op, 0}] = &op;
    }
    graph.inputs.push_back(std::move(input));
  }

  void add_dumped(const OpDef& op, int64_t number) {
    const int32_t stream = streams_.number_of(op);
    context_.set_origin(op.name, text_attr(op, attr::kSource));
    dumps_.add_inputs(context_, op, number, stream, operands_of(op));
    add(op);
    const auto results = results_.find(&op);
    if (results != results_.end()) dumps_.add_outputs(context_, op, number, stream, results->second);
  }

  void add(const OpDef& op) {
    context_.set_origin(op.name, text_attr(op, attr::kSource));
    if (is_input(op)) return;
    if (op.type == "NetOutput") return add_outputs(op);
    results_[&op] = results_of(op);
    note_written(op);
  }

  // An output with the name of an input is that tensor with a new value. Readers that come later read this value if the
  // input is one of the graph which the graph may write.
  void note_written(const OpDef& op) {
    if (op.type == "Assign") return;
    std::vector<Operand>& results = results_.at(&op);
    size_t place = 0;
    for (const InputRef& input : op.inputs) {
      if (!input.is_absent() && input.is_control()) continue;
      const size_t described = place++;
      if (input.is_absent() || described >= op.input_descs.size()) continue;
      const auto reference = references_.find({ops_.by_name.find(input.producer)->second, input.index});
      const auto output = std::ranges::find(op.output_descs, op.input_descs[described].name, &TensorDesc::name);
      const auto index = static_cast<size_t>(output - op.output_descs.begin());
      if (reference == references_.end() || index >= results.size() || !results[index].is_set()) continue;
      const OpDef* data = reference->second;
      Operand& current = results_.at(data)[0];
      const ir::ValueId before = context_.value_of(current);
      context_.require_broadcast(context_.sizes(before), context_.sizes(context_.value_of(results[index])));
      written_.try_emplace(data, Written{before}).first->second.by = &op;
      references_[{&op, static_cast<int32_t>(index)}] = data;
      current = results[index];
    }
  }

  // Writes the values that inputs of the graph have got by now into their memory.
  void write_references() {
    for (const auto& [data, written] : written_) {
      const ir::ValueId value = context_.value_of(results_.at(data)[0]);
      context_.set_origin(written.by->name, text_attr(*written.by, attr::kSource));
      context_.add(aten::copy_::op(), {TensorRef{written.memory}, TensorRef{value}});
      results_.at(data)[0] = Operand::of(written.memory);
    }
    written_.clear();
  }

  std::vector<Operand> results_of(const OpDef& op) {
    if (op.type == "Const" || op.type == "Constant") return {constant(op)};
    return apply_rule(op);
  }

  static Operand operand_of_parts(const OpDef& op, const std::vector<Operand*>& operands) {
    const int64_t index = index_of(op);
    if (index < 0 || static_cast<size_t>(index) >= operands.size() || operands[static_cast<size_t>(index)] == nullptr)
      throw UserError(cat("it is input ", index, " of an operator that does not have this input"));
    return *operands[static_cast<size_t>(index)];
  }

  std::vector<Operand> results_of_parts(const OpDef& op) {
    std::vector<Operand> results;
    for (const Operand* operand : operands_of(op)) results.push_back(operand == nullptr ? Operand{} : *operand);
    return results;
  }

  std::vector<Operand> apply_rule(const OpDef& op) {
    const std::vector<Operand*> operands = operands_of(op);
    const Rule rule = find_rule(op.type);
    if (const auto schema = schema_of(op, rule != nullptr, options_.host))
      return call_operator(context_, op, *schema, operands);
    const IrOperator* ir = find_operator(op.type);
    const auto* parts = find_attr<std::shared_ptr<const GraphDef>>(op.attrs, attr::kParts);
    if (ir == nullptr && parts != nullptr) return add_parts(**parts, operands);
    if (ir == nullptr)
      throw UserError(cat("Ascend IR has no operator of this type, and no library that is loaded has a kernel for it; ",
                          libraries::kHowToLoad));
    const Call call(context_, op, *ir, operands);
    if (parts != nullptr) return add_parts(**parts, operands);
    if (std::optional<Operand> folded = fold_numbers(call, operands)) return {*folded};
    if (rule == nullptr) throw UserError(cat("the engine does not compute operators of this type", kHowToAddParts));
    return rule(call);
  }

  // Parts come before the rule, which may compute less than the operator can say.
  std::vector<Operand> add_parts(const GraphDef& parts, const std::vector<Operand*>& operands) {
    const OrderedGraph ordered = order_operators(parts);
    const Dumps none(nullptr, parts);
    return Importer(ordered, context_, options_, none).run_parts(operands);
  }

  std::vector<Operand*> operands_of(const OpDef& op) {
    std::vector<Operand*> operands;
    for (const InputRef& input : op.inputs) {
      if (!input.is_absent() && input.is_control()) continue;
      operands.push_back(input.is_absent() ? nullptr : &result(input));
    }
    while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
    return operands;
  }

  Operand& result(const InputRef& input) {
    std::vector<Operand>& results = results_.at(ops_.by_name.find(input.producer)->second);
    if (static_cast<size_t>(input.index) >= results.size())
      throw UserError(cat("it reads result ", input.index, " of '", input.producer, "', which has ", results.size()));
    Operand& result = results[static_cast<size_t>(input.index)];
    if (!result.is_set())
      throw UserError(cat("it reads result ", input.index, " of '", input.producer, "', which no part of it computes"));
    return result;
  }

  Operand constant(const OpDef& op) {
    const auto* tensor = find_attr<TensorValue>(op.attrs, "value");
    if (tensor == nullptr) throw UserError("it has no attribute 'value' of type Tensor");
    return context_.constant(*tensor, element_type(tensor->desc));
  }

  // Results are dense and row-major, unless their descriptor states other strides.
  void add_outputs(const OpDef& op) {
    const std::vector<Operand*> operands = operands_of(op);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == nullptr) throw UserError(cat("output ", i, " of the graph is absent"));
      ir::ValueId value = context_.value_of(*operands[i]);
      const ir::TensorType& type = context_.type(value);
      const auto stated = i < op.input_descs.size() ? stated_strides(context_, op.input_descs[i]) : std::nullopt;
      if (!is_contiguous(type.sizes, type.strides) && stated != type.strides)
        value = context_.add(aten::clone::op(), {TensorRef{value}, MemoryFormat::kContiguous});
      context_.graph().outputs.emplace_back(TensorRef{value});
    }
  }

  const OrderedGraph& ops_;
  Context& context_;
  const ImportOptions& options_;
  const Dumps& dumps_;
  Streams streams_;
  std::map<const OpDef*, std::vector<Operand>> results_;
  using Result = std::pair<const OpDef*, int32_t>;  // an operator, and the number of an output
  struct Written {
    ir::ValueId memory;
    const OpDef* by = nullptr;  // the last one
  };
  std::map<Result, const OpDef*> references_;  // results that are an input of the graph, and this input
  std::map<const OpDef*, Written> written_;    // inputs with a new value that is not in their memory yet
};

// Every symbol of `known` that `solved` names is replaced, so that no replacement names another one.
void add_substitution(Substitutions& known, const SizesMustBeEqual& equation) {
  const auto replace = [&](const Expr& symbol) {
    return symbol.symbol_name() == equation.symbol ? equation.solved : symbol;
  };
  for (auto& [symbol, expr] : known) expr = substitute(expr, replace);
  known.emplace(equation.symbol, equation.solved);
}

}  // namespace

ir::Graph import_graph(const Model& model, const GraphDef& def, const Device& device, const ImportOptions& options) {
  const OrderedGraph ordered = order_operators(def);
  const Dumps dumps(options.dump ? &*options.dump : nullptr, def);
  SizeBounds bounds = stated_bounds(def);
  Substitutions substitutions;
  while (true) {
    try {
      Context context(substitutions, bounds, device, model.owner);
      context.graph().name = def.name.empty() ? "graph" : def.name;
      Importer(ordered, context, options, dumps).run();
      return std::move(context.graph());
    } catch (const SizesMustBeEqual& equation) {
      add_substitution(substitutions, equation);  // one symbol less in each round, or a multiple in the place of one
    } catch (const SizeMustBeAtMost& bound) {
      bounds[bound.symbol].max = bound.max;  // lower in each round, because min(c, size) was not yet size
    }
  }
}

std::set<std::string_view> imported_types() {
  std::set<std::string_view> types = {"Const", "Constant", "Data", "NetOutput", "RefData"};
  for (const auto& some : {ruled_types(), folded_types()}) types.insert(some.begin(), some.end());
  return types;
}

}  // namespace npugraph::ge
