// SPDX-License-Identifier: Apache-2.0
// Terms -> one loop kernel: a parallel loop over rows and, inside it, one vector loop over the row for each level of
// reductions. Values that later walks need again are kept in a local row if computing them again would cost more
// than reading them.
//
//   softmax:   parallel i < rows
//                vector j < n   x            reduce max
//                vector j < n   e = exp(x - max), kept    reduce sum
//                vector j < n   store e / sum
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "lower/generated/ramps.h"
#include "lower/nest/shape.h"
#include "lower/terms/terms.h"
#include "target/target.h"

namespace npugraph::lower {

struct LoopNest {
  loop::Kernel kernel;
  std::vector<ir::ValueId> reads;                    // values of the kernel's first buffers, in order
  std::vector<ir::ValueId> writes;                   // values of the buffers behind them
  std::vector<Expr> symbols;                         // the kernel's scalars: symbols of the graph
  std::vector<std::pair<size_t, size_t>> may_share;  // (write, read): may be the same memory
  NestShape shape;
  std::vector<Expr> walked;  // per parallel loop: elements of an iteration
};

using StridesOf = std::function<std::vector<Expr>(ir::ValueId)>;

// Computes `results`, which may be operands that nodes write, and stores them. Every loaded value and every result
// broadcasts to the space; `strides_of` says how its memory is strided. Values in `ramps` are computed instead of
// read. The shape is one of nest_shapes().
LoopNest make_loop_nest(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
                        const StridesOf& strides_of, const Ramps& ramps, const NestShape& shape);
// The same, in the shape that costs least on the target; of about equal ones, in the first.
LoopNest make_cheapest_nest(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
                            const StridesOf& strides_of, const Ramps& ramps, const target::Target& target);
// Changes the grain of the shape: the number of elements that are worth a thread.
void set_grain(LoopNest& nest, int64_t elements);

// How the sums of a product in front lie in the space.
enum class Sums : uint8_t {
  kMatrix,  // a row is the last dimension, and the rows of all values are evenly spaced
  kImages,  // of a convolution: a row is all dimensions behind the first two, which are images and channels
};

// The epilogue of a product: one loop over rows with one over columns in it, as codegen::MatmulSpec requires. Buffer 0
// holds the sums, and `reads` are the buffers behind it. Returns nullopt if the terms have reductions or values do not
// lie as `sums` says.
std::optional<LoopNest> make_epilogue(const ir::Graph& graph, const Terms& terms,
                                      const std::vector<ir::ValueId>& results, const StridesOf& strides_of,
                                      const Ramps& ramps, Sums sums);

// Large operands: results too large for the caches are stored past them, because a plain store reads
// each line before it writes it, and operands too large for the cache of a core are fetched ahead.

// Marks the stores of a nest over `space` to operands that are known to be larger than the last cache of `target`, and
// the loads of those known to be larger than the second one.
void stream_large_operands(LoopNest& nest, const ir::Graph& graph, std::span<const Expr> space,
                           const target::Target& target);

}  // namespace npugraph::lower
