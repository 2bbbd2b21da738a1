// SPDX-License-Identifier: Apache-2.0
#include "base/plan_notes.h"

#include <atomic>
#include <utility>

namespace npugraph {
namespace {

std::atomic<bool> g_plan_notes_wanted{false};

std::string& note_of_thread() {
  thread_local std::string note;
  return note;
}

}  // namespace

bool plan_notes_wanted() { return g_plan_notes_wanted.load(std::memory_order_relaxed); }
void want_plan_notes(bool wanted) { g_plan_notes_wanted.store(wanted, std::memory_order_relaxed); }

void note_plan(std::string text) { note_of_thread() = std::move(text); }
std::string take_plan_note() { return std::exchange(note_of_thread(), {}); }

}  // namespace npugraph
