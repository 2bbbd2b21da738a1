// SPDX-License-Identifier: Apache-2.0
#include "device/npu/facts.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <c10/util/Exception.h>

#include "base/env.h"

namespace npugraph::npu {
namespace {

thread_local c10::DeviceIndex current_index = 0;

// ASCEND_RT_VISIBLE_DEVICES lists numbers of cards; every card in the list exists.
int visible_devices() {
  const char* list = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
  if (list == nullptr || *list == '\0') return 2;
  const std::string_view cards = list;
  return std::min(static_cast<int>(std::count(cards.begin(), cards.end(), ',')) + 1, kMaxDevices);
}

}  // namespace

const Facts& facts() {
  static const Facts values = [] {
    const Environment& set = environment();
    const int devices = set.devices > 0 ? set.devices : visible_devices();
    return Facts{.devices = devices, .name = set.device_name, .soc_version = set.soc_version};
  }();
  return values;
}

c10::DeviceIndex current_device() noexcept { return current_index; }

void set_current_device(c10::DeviceIndex index) noexcept { current_index = index; }

c10::DeviceIndex checked_device(int64_t index) {
  if (index == -1) return current_index;
  TORCH_CHECK(index >= 0 && index < facts().devices, "there is no device npu:", index, ": this process has ",
              facts().devices, ", and NPUGRAPH_DEVICES sets how many");
  return static_cast<c10::DeviceIndex>(index);
}

}  // namespace npugraph::npu
