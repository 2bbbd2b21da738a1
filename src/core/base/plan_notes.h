// SPDX-License-Identifier: Apache-2.0
// What a task says of the plan that it runs by, for the log of tasks. A thread has one note.
#pragma once

#include <string>

namespace npugraph {

// Whether somebody reads notes. Nobody does at first.
bool plan_notes_wanted();
void want_plan_notes(bool wanted);

void note_plan(std::string text);
// The note since the last call; empty if there is none.
std::string take_plan_note();

}  // namespace npugraph
