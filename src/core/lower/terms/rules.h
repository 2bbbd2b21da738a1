// SPDX-License-Identifier: Apache-2.0
// Which nodes have terms, and how these are written. Internal to lower/; terms/terms.h is the interface
// for other files.
#pragma once

#include "lower/terms/writer.h"

namespace npugraph::lower {

// Requires that the node has terms.
void write_terms(TermWriter& writer, const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::lower
