// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/over_aliases.h"

#include <utility>

namespace npugraph::npu {
namespace {

constexpr c10::DeviceIndex kNone = -1;

thread_local c10::DeviceIndex alias_device = kNone;

}  // namespace

OverAliases::OverAliases(c10::DeviceIndex device) : outer_(std::exchange(alias_device, device)) {}

OverAliases::~OverAliases() { alias_device = outer_; }

std::optional<c10::DeviceIndex> device_of_aliases() noexcept {
  return alias_device == kNone ? std::nullopt : std::make_optional(alias_device);
}

}  // namespace npugraph::npu
