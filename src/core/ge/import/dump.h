// SPDX-License-Identifier: Apache-2.0
// Which tensors of a graph its runs write to files, and the nodes that do it.
//
//   y = Add(a, b) named add_1    ->    dump(a, b, "input"); y = Add(a, b); dump(y, "output")
//
// A dump reads its tensors, so they are computed as tensors of their own; operators that are not dumped become part of
// others as without it. Files are those of kernel.dump:
//
//   <path>/<time>/<device>/<graph>/<number of the graph>/<run>/
//     <type>.<name>.<number of the operator>.<stream>.<time in us>.input.<i>.npy     or .output.<i>.npy
//     <type>.<name>.<number of the operator>.<stream>.<time in us>.input.csv         or .output.csv, for statistics
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ge/import/context.h"
#include "ge/model.h"

namespace npugraph::ge {

namespace attr {
// Of an operator: true if it is one of those whose tensors a dump writes.
inline constexpr std::string_view kDumped = "torchair_enable_data_dump";
}  // namespace attr

// What options say of the dump of a graph.
struct Dump {
  std::string directory;
  std::string graph;           // "0/graph_1/3": device, name, number in this process
  std::vector<int64_t> steps;  // first and last run of each range; empty: all runs
  std::set<std::string, std::less<>> layers;
  bool inputs = true;
  bool outputs = true;
  bool statistics = false;  // of tensors, in place of them
};

using EngineOptions = std::map<std::string, std::string>;

// The options that dump_of() reads.
const std::set<std::string_view>& dump_options();
// nullopt if the options ask for no dump of the graph of that name. A file with further settings comes before the
// options. Both raise UserError for a value that is not allowed, and for a file that cannot be read or asks for other
// dumps.
void check_dump(const EngineOptions& options);
std::optional<Dump> dump_of(const EngineOptions& options, const std::string& graph, int64_t device);

// Adds the nodes. They write operators that the options name or that have the attribute; if there are none of either
// kind in the options and in the graph, all that compute something.
class Dumps {
 public:
  Dumps(const Dump* dump, const GraphDef& def);  // null: none; else it outlives this object

  // To be called before the nodes of an operator are added and after it. `number` is that of the operator.
  void add_inputs(Context& context, const OpDef& op, int64_t number, int32_t stream,
                  const std::vector<Operand*>& operands) const;
  void add_outputs(Context& context, const OpDef& op, int64_t number, int32_t stream,
                   std::vector<Operand>& results) const;
  // Whether tensors of the operator are written.
  bool has(const OpDef& op) const;

 private:
  void add(Context& context, const OpDef& op, int64_t number, int32_t stream, const char* side,
           const std::vector<Operand*>& tensors) const;

  const Dump* dump_;
  bool takes_all_ = false;
};

}  // namespace npugraph::ge
