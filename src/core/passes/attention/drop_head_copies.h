// SPDX-License-Identifier: Apache-2.0
// Lets attention read heads side by side in rows, as products write them, and write its result in the same layout.
//
//   %t : {.., 64, 512, 1} = aten.transpose.int(%x, 1, 2) view(0)    %t : {.., 64, 512, 1} = aten.transpose.int(%x, 1,
//   2) view(0)
//   %q : {.., 96000, 64, 1} = aten.clone(%t, contiguous)        ->  %o : {.., 64, 512, 1} = flash_attention(%t, ...)
//   %o : {.., 96000, 64, 1} = flash_attention(%q, ...)              %u : {.., 512, 64, 1} = aten.transpose.int(%o, 1,
//   2) view(0)
//   %u : {.., 64, 96000, 1} = aten.transpose.int(%o, 1, 2) view(0)  %c : {.., 512, 64, 1} = aten.clone(%u, contiguous)
//   %c : {.., 512, 64, 1} = aten.clone(%u, contiguous)
//
// The first copy then has no reader, and the last one has the layout of its source.
//
// Guarantees: values and the strides of what the graph returns stay as they are; a result keeps its strides unless all
// its readers are such copies.
// Must not: read tensors that are written between the copy and attention; read rows whose elements are not adjacent.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int drop_head_copies(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
