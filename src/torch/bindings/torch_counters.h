// SPDX-License-Identifier: Apache-2.0
// torch keeps counters of everyone in one dictionary, which users clear at will. Ours there is a view (a Python class)
// of what the process counted since the view was made.
#pragma once

namespace npugraph::bindings {

// Puts a new view into the dictionary when ours is gone: at the start of each call and compile, under the GIL.
void ensure_counters();

}  // namespace npugraph::bindings
