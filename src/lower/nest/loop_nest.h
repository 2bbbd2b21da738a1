// SPDX-License-Identifier: Apache-2.0
// Terms -> one loop kernel. A parallel loop over rows; inside, one vector loop over the row for each level of reductions.
// What later walks need again is kept in a local row where computing it anew would cost more than reading it.
//
//   softmax:   parallel i < rows
//                vector j < n   x            reduce max
//                vector j < n   e = exp(x - max), kept    reduce sum
//                vector j < n   store e / sum
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "lower/generators/generators.h"
#include "lower/nest/shape.h"
#include "lower/terms/terms.h"
#include "target/target.h"

namespace npugraph::lower {

struct LoopNest {
  loop::Kernel kernel;
  std::vector<ir::ValueId> reads;                    // of the kernel's first buffers, in order
  std::vector<ir::ValueId> writes;                   // of those behind them
  std::vector<Expr> symbols;                         // the kernel's scalars: symbols of the graph
  std::vector<std::pair<size_t, size_t>> may_share;  // (write, read): the same memory will do
  NestShape shape;
  std::vector<Expr> walked;  // elements of an iteration of each parallel loop
};

using StridesOf = std::function<std::vector<Expr>(ir::ValueId)>;

// Computes `results`, which may be operands that nodes write, and stores them. Every loaded value and every result broadcasts to
// the space; `strides_of` says how its memory is strided. Nothing is read of what `generators` has. The shape is one of
// nest_shapes().
LoopNest make_loop_nest(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
                        const StridesOf& strides_of, const Generators& generators, const NestShape& shape);
// The same, in the shape that costs least on the target; among equals, in the first one.
LoopNest make_cheapest_nest(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
                            const StridesOf& strides_of, const Generators& generators, const target::Target& target);
// Changes the grain of the shape: how many elements are worth a thread.
void set_grain(LoopNest& nest, int64_t elements);

// How the sums of a product in front lie in the space.
enum class Sums : uint8_t {
  kMatrix,  // a row is the last dimension; of all values, rows are evenly spaced
  kImages,  // of a convolution: a row is all dimensions behind the first two, which are images and channels
};

// The same behind a matrix product: one loop over rows with one over columns in it, as codegen::MatmulSpec wants it; buffer 0
// are the sums, and `reads` the buffers behind it. Nothing when the terms have reductions or values do not lie as `sums` says.
std::optional<LoopNest> make_epilogue(const ir::Graph& graph, const Terms& terms,
                                      const std::vector<ir::ValueId>& results, const StridesOf& strides_of,
                                      const Generators& generators, Sums sums);

}  // namespace npugraph::lower
