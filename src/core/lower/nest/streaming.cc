// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <variant>

#include "lower/nest/loop_nest.h"
#include "tensor/shape.h"

namespace npugraph::lower {
namespace {

// Returns false if a size is symbolic.
bool is_more_than(std::span<const Expr> sizes, int64_t elements) {
  const std::optional<int64_t> count = numel(sizes).as_int();
  return count && *count > elements;
}

// A streaming loop needs two more loops, up to the first whole cache line and behind the last one, so it must have
// at least kLeastIterations. Rows of a multiple of kWholeLines elements are whole lines in every type, and these
// loops are empty.
constexpr int64_t kLeastIterations = 512, kWholeLines = 64;

bool is_long(const loop::For& loop) {
  if (loop.kind != loop::For::Kind::kVector) return false;
  const std::optional<int64_t> extent = loop.extent.as_int();
  return !extent || *extent >= kLeastIterations || (*extent > 0 && *extent % kWholeLines == 0);
}

void mark_stores(std::vector<loop::Stmt>& statements, int32_t buffer, bool in_long_loop) {
  for (loop::Stmt& statement : statements) {
    if (auto* store = std::get_if<loop::Store>(&statement.node); store != nullptr && store->buffer == buffer)
      store->streaming = in_long_loop && store->mask == loop::kNone;
    if (auto* loop = std::get_if<loop::For>(&statement.node)) mark_stores(loop->body, buffer, is_long(*loop));
  }
}

// Finds the loads of the last of several long loops over rows, which then fetches the next row: earlier loops are done
// soon and would wait for memory.
void find_last_loads(std::vector<loop::Stmt>& statements, int32_t buffer, std::vector<loop::Load*>& found) {
  for (loop::Stmt& statement : statements) {
    auto* loop = std::get_if<loop::For>(&statement.node);
    if (loop == nullptr) continue;
    if (!is_long(*loop)) {
      find_last_loads(loop->body, buffer, found);
      continue;
    }
    std::vector<loop::Load*> here;
    for (loop::Stmt& inner : loop->body) {
      auto* load = std::get_if<loop::Load>(&inner.node);
      if (load != nullptr && load->buffer == buffer && load->mask == loop::kNone) here.push_back(load);
    }
    if (!here.empty()) found = here;
  }
}

}  // namespace

void stream_large_operands(LoopNest& nest, const ir::Graph& graph, std::span<const Expr> space,
                           const target::Target& target) {
  std::vector<ir::ValueId> operands = nest.reads;
  operands.insert(operands.end(), nest.writes.begin(), nest.writes.end());
  for (size_t i = 0; i < operands.size(); ++i) {
    const ir::TensorType& type = graph.value(operands[i]).tensor();
    // Both the space and the operand must be large: the nest may access a small part of an operand, or one element for
    // each large row.
    const auto exceeds = [&](int64_t bytes) {
      const int64_t elements = bytes / size_of(type.dtype);
      return is_more_than(space, elements) && is_more_than(type.sizes, elements);
    };
    const auto buffer = static_cast<int32_t>(i);
    if (exceeds(target.l3_bytes)) mark_stores(nest.kernel.body, buffer, false);
    if (!exceeds(target.l2_bytes)) continue;
    std::vector<loop::Load*> loads;
    find_last_loads(nest.kernel.body, buffer, loads);
    for (loop::Load* load : loads) load->ahead = true;
  }
}

}  // namespace npugraph::lower
