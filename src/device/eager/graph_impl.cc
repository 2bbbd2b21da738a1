// SPDX-License-Identifier: Apache-2.0
#include "device/eager/graph_impl.h"

#include <fstream>
#include <memory>
#include <string>

#include <ATen/core/GraphImplInterface.h>
#include <c10/core/DeviceType.h>

#include "device/capture/captured_graph.h"
#include "device/npu/facts.h"
#include "device/runtime/streams.h"

namespace npugraph::eager {

namespace {

capture::ErrorMode mode_of(at::GraphCaptureMode mode) {
  switch (mode) {
    case at::GraphCaptureMode::ThreadLocal: return capture::ErrorMode::kThreadLocal;
    case at::GraphCaptureMode::Relaxed: return capture::ErrorMode::kRelaxed;
    default: return capture::ErrorMode::kGlobal;
  }
}

c10::Stream here() { return device::current_stream(npu::current_device()); }

class Graph final : public at::GraphImplInterface {
 public:
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) override {
    graph_->begin(here(), pool, mode_of(mode));
  }
  void capture_end() override { graph_->end(here()); }
  // A capture is ready to run when it ends.
  void instantiate() override {}
  void replay() override { graph_->replay(here()); }
  void reset() override { graph_->reset(); }
  c10::MempoolId_t pool() const override { return graph_->pool(); }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override {
    std::ofstream file(path);
    file << graph_->text();
    TORCH_CHECK(file.flush().good(), "debug_dump: cannot write ", path);
  }

 private:
  std::shared_ptr<capture::CapturedGraph> graph_ = std::make_shared<capture::CapturedGraph>();
};

}  // namespace

void register_graphs() {
  at::GraphImplRegistry()->Register(
      c10::DeviceTypeName(npu::kNpu, /*lower_case=*/false),
      [](const at::GraphImplArgs&) -> std::unique_ptr<at::GraphImplInterface> { return std::make_unique<Graph>(); });
}

}  // namespace npugraph::eager
