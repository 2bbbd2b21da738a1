// SPDX-License-Identifier: Apache-2.0
// How many cube and vector cores work of a device and of a stream may use. Eager work takes what it likes; compiled graphs that are
// called on the stream follow. Thread-safe.
#pragma once

#include <c10/core/Stream.h>

#include "tensor/core_limits.h"

namespace npugraph::device {

// All its cores, unless somebody has said otherwise.
CoreLimits device_limits(c10::DeviceIndex device);
void limit_device(c10::DeviceIndex device, CoreLimits limits);

// Its own, or else those of its device.
CoreLimits stream_limits(c10::Stream stream);
void limit_stream(c10::Stream stream, CoreLimits limits);
void reset_stream_limits(c10::Stream stream);

// stream_limits(), with 0 for all cores of the device. One load until somebody sets limits.
CoreLimits limits_in_force(c10::Stream stream);

}  // namespace npugraph::device
