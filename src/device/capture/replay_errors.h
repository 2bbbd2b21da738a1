// SPDX-License-Identifier: Apache-2.0
// Errors of replays say where they arose: a replay is far from the code that was captured.
#pragma once

#include <string>

#include <c10/util/Exception.h>

#include "program/program.h"
#include "runtime/call.h"

namespace npugraph::capture {

// Calls `run`, and adds the text that `place()` returns to errors of torch that come out of it. Other exceptions, such
// as those of Python, stay as they are.
template <typename Run, typename Place>
void with_place(const Run& run, const Place& place) {
  try {
    run();
  } catch (c10::Error& error) {
    error.add_context(place());
    throw;
  }
}

// Throws if `result` is an error: what an operator threw, with the task that threw it.
void check_replay(const runtime::RunResult& result, const program::Program& program);

}  // namespace npugraph::capture
