// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/over_aliases.h"

#include <utility>

namespace npugraph::npu {
namespace {

constexpr c10::DeviceIndex kNone = -1;

thread_local c10::DeviceIndex current = kNone;

}  // namespace

OverAliases::OverAliases(c10::DeviceIndex device) : outer_(std::exchange(current, device)) {}

OverAliases::~OverAliases() { current = outer_; }

std::optional<c10::DeviceIndex> device_of_aliases() noexcept {
  return current == kNone ? std::nullopt : std::make_optional(current);
}

}  // namespace npugraph::npu
