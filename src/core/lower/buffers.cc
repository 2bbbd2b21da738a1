// SPDX-License-Identifier: Apache-2.0
#include "lower/buffers.h"

#include <utility>

#include "base/error.h"
#include "tensor/shape.h"

namespace npugraph::lower {

using program::Buffer;
using program::BufferClass;

BufferMap::BufferMap(const ir::Graph& graph, program::Program& program,
                     std::function<bool(const ir::Node&)> writes_into, const std::function<Apart(ir::NodeId)>& apart)
    : graph_(graph),
      program_(program),
      aliases_(graph),
      places_(graph, aliases_, std::move(writes_into), apart),
      buffer_of_root_(graph.num_values(), program::kNone),
      input_of_root_(graph.num_values(), program::kNone),
      returned_(graph.num_values(), false) {
  for (const ir::Output& output : graph.outputs) {
    if (const auto* ref = std::get_if<TensorRef>(&output)) returned_[aliases_.root(ref->id)] = true;
  }
  add_inputs();
  add_constants();
}

int32_t BufferMap::add_buffer(ir::ValueId root, Buffer buffer) {
  const ir::Value& value = graph_.value(root);
  buffer.name = value.name;
  if (value.is_tensor()) {
    const ir::TensorType& type = value.tensor();
    buffer.device = type.device;
    buffer.bytes = program_.dim(extent(type.sizes, type.strides) * Expr(size_of(type.dtype)));
  } else {
    buffer.opaque = true;
  }
  const auto index = static_cast<int32_t>(program_.buffers.size());
  program_.buffers.push_back(std::move(buffer));
  buffer_of_root_[root] = index;
  return index;
}

program::Input BufferMap::describe_input(const ir::Input& input) const {
  program::Input described;
  described.source = input.source;
  if (input.storage_offset) described.storage_offset = program_.dim(*input.storage_offset);
  if (input.value == ir::kNone || !graph_.value(input.value).is_tensor()) return described;
  const ir::TensorType& type = graph_.value(input.value).tensor();
  described.dtype = type.dtype;
  for (const Expr& size : type.sizes) described.sizes.push_back(program_.dim(size));
  for (const Expr& stride : type.strides) described.strides.push_back(program_.dim(stride));
  return described;
}

void BufferMap::add_inputs() {
  for (const ir::Input& input : graph_.inputs) {
    program::Input described = describe_input(input);
    const auto index = static_cast<int32_t>(program_.inputs.size());
    if (input.value != ir::kNone) {
      const auto cls = input.kind == ir::InputKind::kUser ? BufferClass::kInput : BufferClass::kParameter;
      described.buffer = add_buffer(input.value, {.cls = cls, .source = index});
      input_of_root_[input.value] = index;
    }
    program_.inputs.push_back(std::move(described));
  }
}

void BufferMap::add_constants() {
  for (const ir::Constant& constant : graph_.constants) {
    const ir::Value& value = graph_.value(constant.value);
    program::Constant entry;
    entry.name = value.name;
    entry.derived = constant.derived;
    entry.owner = constant.data->owner;
    entry.data = constant.data->data;
    entry.bytes = constant.data->bytes;
    if (value.is_tensor()) {
      entry.dtype = value.tensor().dtype;
      for (const Expr& size : value.tensor().sizes) entry.sizes.push_back(size.as_int().value());
      for (const Expr& stride : value.tensor().strides) entry.strides.push_back(stride.as_int().value());
    }
    add_buffer(constant.value,
               {.cls = BufferClass::kConstant, .source = static_cast<int32_t>(program_.constants.size())});
    program_.constants.push_back(std::move(entry));
  }
}

void BufferMap::add_result(ir::ValueId id, bool planned) {
  NG_CHECK(aliases_.root(id) == id, "%", graph_.value(id).name, " is not fresh memory");
  const ir::ValueId host = this->host(id);
  if (buffer_of_root_[host] != program::kNone) return;  // another part of the concatenation has added it
  if (planned) {
    add_buffer(host, {.cls = returned_[host] ? BufferClass::kOutput : BufferClass::kArena});
    return;
  }
  const int32_t index = add_buffer(host, {.cls = BufferClass::kHeap});
  program_.buffers[index].bytes = {};
}

program::Operand BufferMap::window(ir::ValueId host, const ir::TensorType& type, const Window& window,
                                   program::Access access) const {
  program::Operand operand;
  operand.access = access;
  operand.buffer = buffer_of_root_[host];
  operand.dtype = type.dtype;
  operand.byte_offset = program_.dim(window.byte_offset);
  for (const Expr& size : type.sizes) operand.sizes.push_back(program_.dim(size));
  for (const Expr& stride : window.strides) operand.strides.push_back(program_.dim(stride));
  return operand;
}

program::Operand BufferMap::operand(ir::ValueId id, program::Access access) const {
  const ir::Value& value = graph_.value(id);
  const ir::ValueId host = this->host(id);
  NG_CHECK(buffer_of_root_[host] != program::kNone, "no buffer for %", value.name);
  if (!value.is_tensor()) return {.buffer = buffer_of_root_[host], .access = access};
  NG_CHECK(aliases_.placement(id).placed, "no place for %", value.name);
  return window(host, value.tensor(), places_.window(id), access);
}

program::Operand BufferMap::out_argument(ir::ValueId id) const {
  program::Operand operand = this->operand(id, program::Access::kWrite);
  const std::vector<Expr>& sizes = graph_.value(id).tensor().sizes;
  std::vector<Expr> strides = places_.window(id).strides;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (!sizes[dim].is_int(1)) continue;
    strides[dim] = dim + 1 == sizes.size() ? Expr(1) : sizes[dim + 1] * strides[dim + 1];
    operand.strides[dim] = program_.dim(strides[dim]);
  }
  return operand;
}

program::Operand BufferMap::operand(ir::NodeId cat, const Part& part) const {
  return window(host(graph_.node(cat).results[0]), graph_.value(part.value).tensor(), part.window,
                program::Access::kWrite);
}

program::Output BufferMap::output(ir::ValueId id) const {
  program::Output output;
  const ir::ValueId root = aliases_.root(id);
  output.kind = program::Output::Kind::kTensor;
  output.input = input_of_root_[root];
  if (output.input != program::kNone && aliases_.same_view(id, root)) {
    output.kind = program::Output::Kind::kInput;
    return output;
  }
  output.tensor = operand(id, program::Access::kRead);
  return output;
}

}  // namespace npugraph::lower
