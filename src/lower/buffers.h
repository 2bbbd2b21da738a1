// SPDX-License-Identifier: Apache-2.0
// Where values live: the buffers of a Program under construction, and windows into them.
#pragma once

#include <vector>

#include "ir/alias.h"
#include "ir/graph.h"
#include "program/program.h"

namespace npugraph::lower {

// Makes the buffers of inputs and constants when constructed, those of results as nodes are lowered.
class BufferMap {
 public:
  BufferMap(const ir::Graph& graph, program::Program& program);

  // The window of a value whose buffer exists.
  program::Operand operand(ir::ValueId id, program::Access access) const;
  // A buffer for the fresh result `id`. `planned`: its size is known before its task runs and the task writes into memory that
  // it is given; otherwise the task allocates and the buffer is on the heap.
  void add_result(ir::ValueId id, bool planned);
  // The window that the graph's output `id` returns, or the input that it is.
  program::Output output(ir::ValueId id) const;

 private:
  int32_t add_buffer(ir::ValueId root, program::Buffer buffer);
  void add_inputs();
  void add_constants();
  program::Input describe_input(const ir::Input& input) const;

  const ir::Graph& graph_;
  program::Program& program_;
  ir::AliasInfo aliases_;
  std::vector<int32_t> buffer_of_root_;
  std::vector<int32_t> input_of_root_;
  std::vector<bool> returned_;  // per root: the graph returns a value in its memory
};

}  // namespace npugraph::lower
