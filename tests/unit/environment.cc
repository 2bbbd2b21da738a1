// SPDX-License-Identifier: Apache-2.0
// Environment variables of every test program, and of the programs that it starts.
#include <cstdlib>

namespace {

// Tests generate their code. They neither load code from the user's disk nor leave code there.
[[gnu::constructor]] void keep_no_code() { ::setenv("NPUGRAPH_CACHE", "0", 1); }

}  // namespace
