// SPDX-License-Identifier: Apache-2.0
#include "device/npu/format.h"

#include <algorithm>
#include <atomic>
#include <sstream>

#include "device/npu/messages.h"

namespace npugraph::npu {
namespace {

std::atomic<bool> internal_allowed = false;

const Format* find(int64_t code) {
  const auto* found =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& row) { return row.code == code; });
  return found == kFormats.end() ? nullptr : found;
}

}  // namespace

void allow_internal_formats(bool allowed) noexcept { internal_allowed.store(allowed, std::memory_order_relaxed); }
bool internal_formats_allowed() noexcept { return internal_allowed.load(std::memory_order_relaxed); }

void check_format(const char* op, int64_t code) {
  if (code >= 0 && find(code) != nullptr) return;
  std::ostringstream names;
  for (const Format& row : kFormats)
    if (row.code >= 0) names << (row.code == 0 ? "" : ", ") << row.code << " (" << row.name << ")";
  TORCH_CHECK(false, op, ": ", code, " is no format of tensors, allowed are ", names.str());
}

int permitted_format(const char* op, int64_t code) {
  check_format(op, code);
  const Format& format = *find(code);
  if (format.base == format.code || internal_formats_allowed()) return format.code;
  warn(c10::str(op, ": the format ", format.name, " becomes ", find(format.base)->name,
                ", as torch.npu.config.allow_internal_format is False"));
  return format.base;
}

}  // namespace npugraph::npu
