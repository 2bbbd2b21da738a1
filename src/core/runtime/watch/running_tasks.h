// SPDX-License-Identifier: Apache-2.0
// The tasks that run at this moment, in a file that other processes can read: for runs that do not end. The file has a
// line for each thread at work, which says since when; lines are padded to a fixed length. Thread-safe. The child of a
// fork records nothing.
#pragma once

#include <string>

namespace npugraph::runtime {

// Records to this file (mode 0600) instead of the previous one; an empty path ends the recording. UserError if the file
// cannot be made.
void record_running_tasks(const std::string& path);
bool running_tasks_recorded();

// Records that the calling thread does what `text` says, until end_running(). Calls nest: the innermost text is shown.
void begin_running(std::string text);
void end_running();

}  // namespace npugraph::runtime
