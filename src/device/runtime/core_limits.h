// SPDX-License-Identifier: Apache-2.0
// Limits of the cube and vector cores that work of a device or of a stream may use. Compiled graphs that are called on
// the stream obey them; eager work does not. Thread-safe.
#pragma once

#include <c10/core/Stream.h>

#include "tensor/core_limits.h"

namespace npugraph::device {

// All cores of the device, unless it was limited.
CoreLimits device_limits(c10::DeviceIndex device);
void limit_device(c10::DeviceIndex device, CoreLimits limits);

// The limits of the stream, or else those of its device.
CoreLimits stream_limits(c10::Stream stream);
void limit_stream(c10::Stream stream, CoreLimits limits);
void reset_stream_limits(c10::Stream stream);

// stream_limits(), with 0 for all cores of the device. Costs one load until limits are set.
CoreLimits limits_in_force(c10::Stream stream);

}  // namespace npugraph::device
