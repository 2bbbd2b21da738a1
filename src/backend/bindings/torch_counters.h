// SPDX-License-Identifier: Apache-2.0
// torch keeps all counters in one dictionary, which users may clear. npugraph's entry in it is a view (a Python class)
// of what the process has counted since the view was made.
#pragma once

namespace npugraph::bindings {

// Puts a new view into the dictionary if npugraph's is missing. Called under the GIL when a call or a compile starts.
void ensure_counters();

}  // namespace npugraph::bindings
