// SPDX-License-Identifier: Apache-2.0
#include "lower/streaming.h"

#include <optional>
#include <variant>

#include "tensor/shape.h"

namespace npugraph::lower {
namespace {

// False where a size is symbolic.
bool is_more_than(std::span<const Expr> sizes, int64_t elements) {
  const std::optional<int64_t> count = numel(sizes).as_int();
  return count && *count > elements;
}

// A loop that streams has two more ends, up to the first whole line and behind the last one.
constexpr int64_t kLeastIterations = 512;

bool is_long(const loop::For& loop) {
  const std::optional<int64_t> extent = loop.extent.as_int();
  return loop.kind == loop::For::Kind::kVector && (!extent || *extent >= kLeastIterations);
}

void mark_stores(std::vector<loop::Stmt>& statements, int32_t buffer, bool in_long_loop) {
  for (loop::Stmt& statement : statements) {
    if (auto* store = std::get_if<loop::Store>(&statement.node); store != nullptr && store->buffer == buffer)
      store->streaming = in_long_loop && store->mask == loop::kNone;
    if (auto* loop = std::get_if<loop::For>(&statement.node)) mark_stores(loop->body, buffer, is_long(*loop));
  }
}

}  // namespace

void stream_large_results(LoopNest& nest, const ir::Graph& graph, std::span<const Expr> space,
                          const target::Target& target) {
  for (size_t w = 0; w < nest.writes.size(); ++w) {
    const ir::TensorType& type = graph.value(nest.writes[w]).tensor();
    const int64_t elements = target.l3_bytes / size_of(type.dtype);
    // What is written may be a small part of an operand, or one element of a large row.
    if (is_more_than(space, elements) && is_more_than(type.sizes, elements))
      mark_stores(nest.kernel.body, static_cast<int32_t>(nest.reads.size() + w), false);
  }
}

}  // namespace npugraph::lower
