// SPDX-License-Identifier: Apache-2.0
// Text form of a Graph, and its verifier. print and parse round-trip (bytes of large constants excepted, see below).
//
//   npugraph.graph 1 @forward {
//     symbol s0 : int [2, 1024]
//     op "my::op(Tensor x, int n) -> Tensor" traits(may_throw)         // rows that the table does not know
//     section 0 stream(0)                                             // Graph::sections; a sole default is left out
//     section 1 stream(1) after(0) limits(1, 2)                         // of cube and vector cores
//     input %x : f32[s0, 64]{64, 1} user "L['x']"
//     input s0 : int user "s0"
//     input %cache : f32[1, 8]{8, 1} static "L['cache']" at(s1)          // Input::storage_offset
//     const %c : i64[3]{1} = [1, 2, 3]                                  // `= external` when larger than 64 elements
//     const %d : f32[]{} derived = [2.5]
//     %t : f32[64, 64]{1, 64} = aten.t(%w) view(0) @ "t" "model.py:12 in forward"
//     %a, %b : f32[4]{1}, f32[4]{1} = aten.split.Tensor(%x, 4, 0) view(0; 4)
//     %n : i64[u0, 2]{2, 1} = aten.nonzero(%m) defines(u0 = result 0 dim 0)
//     aten._assert_async(%m) section(1)
//     %p : opaque "sparse_coo f32[4, 4]" = aten.to_sparse(%x)
//     %q, none : f32[4]{1}, none = my.pair(%a)                          // an undefined result
//     %r : f32[4]{1} = higher_order.cond(%a) callable(0)
//     return %t, 4*s0 + 1, none
//   }
//
// Arguments are written in schema order. Arguments at the end that equal their default are left out. Keyword-only
// arguments are written by name, and any other may be. A contiguous stride list may be left out: f32[s0, 64] means
// f32[s0, 64]{64, 1}. A device other than cpu follows the type: f32[4]{1} device("npu", 0).
// Types of results may be left out if the rule of the operator infers them (ops/), and with them the places of views:
// %a, %b = aten.split.Tensor(%x, 4).
// A row has the name of its schema without the overload "default": aten.t. A symbol needs no declaration when a scalar
// input or a node defines it; it then has no bounds. An input without a kind is of kind user. The bytes of an external
// constant are missing after parsing (data is null).
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace npugraph::ir {

inline constexpr int kGraphTextVersion = 1;

// Also prints graphs that break the rules, as far as possible.
std::string print(const Graph& graph);
// UserError with line and column on malformed text, unknown operators, undefined or redefined values, wrong arity.
Graph parse(std::string_view text, std::string source_name, OpResolver& ops);

// Checks every rule that the head of ir/graph.h states and that can be checked: definitions before uses, arity and
// kinds of arguments against the schema, view offsets present, symbols defined before use, names unique. Returns an
// empty string, or the first violation with the node that breaks it. ops/table.h checks types against the rules
// of the operators.
std::string verify(const Graph& graph);

std::string to_text(const Type& type);

}  // namespace npugraph::ir
