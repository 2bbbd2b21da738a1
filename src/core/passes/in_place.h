// SPDX-License-Identifier: Apache-2.0
// Turns a functional node into one that writes its result into its operand, if its operator can. Shared by the passes
// that decide when this is right.
//
//   %r = aten.index_copy(%x, 2, %i, %s)        ->  %r = aten.index_copy_(%x, 2, %i, %s)
//   %r = aten.slice_scatter(%x, %s, 0, 2, 4)   ->  %v = aten.slice.Tensor(%x, 0, 2, 4) view(...)
//                                                  aten.copy_(%v, %s)             (%r becomes %x)
#pragma once

#include <optional>
#include <vector>

#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {

struct InPlaceForm {
  const ir::Op* twin = nullptr;  // the in-place operator, or the view into which a scatter copies its source
  bool is_scatter = false;
  std::vector<Attr> args;          // of `twin`
  ir::ValueId target = ir::kNone;  // the operand that is written
  ir::ValueId source = ir::kNone;  // the tensor that a scatter copies
  ir::TensorType part;             // the view of the target that a scatter copies to
  Expr offset = 0;                 // offset of this view in the target, in elements
  bool same_strides = true;        // the result has exactly the type of the target
};

// Whether the types are the same, but for strides.
bool have_same_elements(const ir::TensorType& a, const ir::TensorType& b);

// The in-place form of a node, if there is one, the result has dtype, sizes and device of the operand that it would
// overwrite, and no two elements of that operand share memory. If strides differ, the result takes the strides of the
// operand: the caller must check that nothing depends on them. Does not check other readers of the operand.
std::optional<InPlaceForm> in_place_form(const ir::Graph& graph, const ir::Node& node);

// Whether the other operands permit the write: elementwise operators may read the very view that they write, others
// must not read a byte of it.
bool operands_permit(const MemoryTrace& trace, const ir::Graph& graph, ir::NodeId id, const InPlaceForm& form);

// Whether an operator that fails has written nothing: our own kernel of index_put_ looks at all indices first.
bool fails_before_writing(const ir::Op& op);

// Rewrites the node to its in-place form; the result takes the type of the target. Returns the copy_ that a scatter
// became, else kNone.
ir::NodeId write_in_place(ir::Graph& graph, ir::NodeId id, InPlaceForm form, Replacements& replacements);

}  // namespace npugraph::passes
