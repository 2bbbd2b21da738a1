// SPDX-License-Identifier: Apache-2.0
// What holds in every test program, and in the programs that it starts.
#include <cstdlib>

namespace {

// Tests make their code: none of it comes from the user's disk or stays there.
[[gnu::constructor]] void keep_no_code() { ::setenv("NPUGRAPH_CACHE", "0", 1); }

}  // namespace
