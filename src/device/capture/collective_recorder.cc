// SPDX-License-Identifier: Apache-2.0
#include "device/capture/collective_recorder.h"

#include <utility>

#include "device/capture/capture.h"
#include "device/capture/collective_call.h"
#include "device/npu/collective_recorder.h"

namespace npugraph::capture {
namespace {

class GraphCollectiveRecorder final : public npu::CollectiveRecorder {
 public:
  bool is_watching() const override { return capture::is_watching(); }

  bool record(npu::CollectiveLaunch launch, c10::Stream stream,
              c10::function_ref<WorkPtr(const std::shared_ptr<const npu::RecordedCollective>&)> run) const override {
    const auto capture = recorder_of(stream);
    if (!capture) return false;
    if (launch.host_reads) check_host_may_wait(launch.title, stream);
    const auto call = std::make_shared<CollectiveCall>(std::move(launch.name), std::move(launch.group),
                                                       launch.inputs.size(), std::move(launch.replay));
    capture->launch(call, std::move(launch.inputs), std::move(launch.outputs), stream, [&] { return run(call); });
    return true;
  }
};

}  // namespace

void install_collective_recorder() {
  static const GraphCollectiveRecorder& recorder = *new GraphCollectiveRecorder;
  npu::set_collective_recorder(&recorder);
}

}  // namespace npugraph::capture
