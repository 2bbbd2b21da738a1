// SPDX-License-Identifier: Apache-2.0
// What runs at this moment, in a file that any process can read: for runs that do not end. A line for each thread at work, with
// the time since when, padded so that lines stay where they are. Thread-safe. The child of a fork records nothing.
#pragma once

#include <string>

namespace npugraph::runtime {

// The file (mode 0600) takes the place of the one before; an empty path: nothing is recorded any more. UserError when it
// cannot be made.
void record_running_tasks(const std::string& path);
bool running_tasks_recorded();

// The calling thread begins what `text` says, until end_running(). Nests: the innermost shows.
void begin_running(std::string text);
void end_running();

}  // namespace npugraph::runtime
