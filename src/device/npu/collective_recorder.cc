// SPDX-License-Identifier: Apache-2.0
#include "device/npu/collective_recorder.h"

#include <atomic>

namespace npugraph::npu {
namespace {

std::atomic<const CollectiveRecorder*> recorder_of_process = nullptr;

}  // namespace

const CollectiveRecorder* collective_recorder() { return recorder_of_process.load(std::memory_order_acquire); }

void set_collective_recorder(const CollectiveRecorder* recorder) {
  recorder_of_process.store(recorder, std::memory_order_release);
}

}  // namespace npugraph::npu
