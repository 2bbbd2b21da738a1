// SPDX-License-Identifier: Apache-2.0
// The buffers of a Program under construction, and the windows of values into them.
#pragma once

#include <functional>
#include <vector>

#include "ir/alias.h"
#include "ir/graph.h"
#include "lower/place_parts.h"
#include "program/program.h"

namespace npugraph::lower {

// Makes the buffers of inputs and constants when constructed, those of results as nodes are lowered.
class BufferMap {
 public:
  // `writes_into`, `apart`: see PartPlaces.
  BufferMap(const ir::Graph& graph, program::Program& program, std::function<bool(const ir::Node&)> writes_into,
            const std::function<Apart(ir::NodeId)>& apart);

  // The window of a value whose buffer exists.
  program::Operand operand(ir::ValueId id, program::Access access) const;
  // The window of a result, for a kernel of the host that writes it. Dimensions of one element have the strides that
  // they have in contiguous tensors, whatever they are in the value: kernels step from batch to batch by them.
  program::Operand out_argument(ir::ValueId id) const;
  // The window of a part in its concatenation, whose buffer exists, for a task that writes it.
  program::Operand operand(ir::NodeId cat, const Part& part) const;
  // The parts of a concatenation that is taken apart (see PartPlaces), else null.
  const std::vector<Part>* parts(ir::NodeId cat) const { return places_.parts(cat); }
  // Adds a buffer for the fresh result `id`. `planned`: its size is known before its task runs and the task writes
  // into memory that it is given; otherwise the task allocates and the buffer is on the heap. Results that share
  // memory have one buffer.
  void add_result(ir::ValueId id, bool planned);
  // The graph's output `id`: a window, or an input that is returned as it is.
  program::Output output(ir::ValueId id) const;

 private:
  int32_t add_buffer(ir::ValueId root, program::Buffer buffer);
  void add_inputs();
  void add_constants();
  program::Input describe_input(const ir::Input& input) const;
  ir::ValueId host(ir::ValueId id) const { return places_.host(aliases_.root(id)); }
  program::Operand window(ir::ValueId host, const ir::TensorType& type, const Window& window,
                          program::Access access) const;

  const ir::Graph& graph_;
  program::Program& program_;
  ir::AliasInfo aliases_;
  PartPlaces places_;
  std::vector<int32_t> buffer_of_root_;
  std::vector<int32_t> input_of_root_;
  std::vector<bool> returned_;  // per root: whether the graph returns a value in its memory
};

}  // namespace npugraph::lower
