// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/row_writes.h"

#include <set>
#include <utility>

namespace npugraph::npu {
namespace {

thread_local const RowsAnnounced* listener = nullptr;

// Filled while the library is loaded, and only read afterwards.
std::set<std::pair<std::string, std::string>>& row_arguments() {
  static auto* all = new std::set<std::pair<std::string, std::string>>;
  return *all;
}

}  // namespace

void declare_row_writes(const std::string& op, std::initializer_list<std::string> arguments) {
  for (const std::string& argument : arguments) row_arguments().emplace(op, argument);
}

bool announces_rows(const std::string& op, const std::string& argument) {
  return row_arguments().contains({op, argument});
}

HearRowWrites::HearRowWrites(RowsAnnounced heard) : heard_(heard), before_(std::exchange(listener, &heard_)) {}

HearRowWrites::~HearRowWrites() { listener = before_; }

bool are_rows_heard() { return listener != nullptr; }

void announce_rows(const at::Tensor& into, const c10::List<std::optional<at::Tensor>>& places) {
  if (listener != nullptr) (*listener)(into, places);
}

}  // namespace npugraph::npu
