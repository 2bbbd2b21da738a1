// SPDX-License-Identifier: Apache-2.0
#include "device/capture/captured_graph.h"

#include <algorithm>
#include <atomic>
#include <sstream>
#include <unordered_map>
#include <utility>

#include <ATen/record_function.h>

#include "base/error.h"
#include "device/capture/recorded_program.h"
#include "device/capture/replay.h"
#include "device/capture/task_group.h"
#include "program/text.h"
#include "runtime/threads/worker_pool.h"

namespace npugraph::capture {

namespace {

const char* name_of(RecordedStep::Kind kind) {
  switch (kind) {
    case RecordedStep::Kind::kLaunches: return "launches";
    case RecordedStep::Kind::kCall: return "compiled graph";
    case RecordedStep::Kind::kWait: return "wait for ExternalEvent";
    case RecordedStep::Kind::kReset: return "reset ExternalEvent";
    case RecordedStep::Kind::kRecord: return "record ExternalEvent";
  }
  return "";
}

// Updates in progress, by their stream.
struct Updates {
  std::mutex mutex;
  std::unordered_map<c10::Stream, std::shared_ptr<TaskGroup>> groups;
};

Updates& updates() {
  static auto* all = new Updates;
  return *all;
}

std::shared_ptr<Segment> segment_of(std::string name, RecordedStep& step, const TouchedMemory& memory) {
  return step.launches.empty() ? nullptr : std::make_shared<RecordedProgram>(std::move(name), std::move(step), memory);
}

}  // namespace

c10::MempoolId_t new_pool() {
  static std::atomic<c10::CaptureId_t> last = 0;
  return {last.fetch_add(1) + 1, 0};
}

CapturedGraph::~CapturedGraph() {
  if (capture_) abandon();
  for (const Step& step : steps_)
    if (step.group) step.group->drop();
}

void CapturedGraph::begin(c10::Stream stream, std::optional<c10::MempoolId_t> pool, ErrorMode mode) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!is_captured_ && !capture_, "capture_begin: this graph ",
              capture_ ? "is being captured" : "was captured already", "; reset() makes it new");
  TORCH_CHECK(stream.id() != 0,
              "capture_begin: the default stream cannot be captured; use torch.npu.stream(torch.npu.Stream())");
  check_runs("capture_begin", stream, /*whole_device=*/false);
  auto capture = std::make_shared<Capture>(stream, mode, Purpose::kGraph);
  capture::begin(capture);
  capture_ = std::move(capture);
  pool_ = pool.value_or(c10::MempoolId_t{0, 0});
  if (pool_ == c10::MempoolId_t{0, 0}) pool_ = new_pool();
}

std::shared_ptr<Capture> CapturedGraph::take_capture() {
  const std::lock_guard lock(mutex_);
  auto capture = std::exchange(capture_, nullptr);
  if (capture) capture::end(*capture);
  return capture;
}

void CapturedGraph::end(c10::Stream stream) {
  {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(capture_, "capture_end: this graph is not being captured");
    TORCH_CHECK(capture_->origin() == stream, "capture_end: the capture began in stream ", capture_->origin().id(),
                ", and the current stream is ", stream.id());
  }
  const auto capture = take_capture();
  Recording recording = capture->finish();
  std::vector<Step> steps;
  for (RecordedStep& step : recording.steps) {
    Step made{.kind = step.kind, .segment = nullptr, .group = step.group, .call = step.call, .event = step.event};
    made.segment = segment_of(cat("capture.", steps.size()), step, recording.memory);
    if (made.group) made.group->replace(std::move(made.segment));
    if (made.group || made.call || made.event || made.segment) steps.push_back(std::move(made));
  }
  if (steps.empty())
    TORCH_WARN("capture_end: the graph is empty: nothing was launched in stream ", stream.id(), " of ", stream.device(),
               " while it was captured. Work goes to the current stream of the device that its tensors are on");
  const std::lock_guard lock(mutex_);
  in_pool_alone_ = std::ranges::all_of(steps, [](const Step& step) {
    const auto segment = step.group ? step.group->segment() : step.segment;
    return (!segment || runs_in_pool_alone(segment->program())) && (!step.call || step.call->runs_in_pool_alone());
  });
  steps_ = std::move(steps);
  launched_ = std::move(recording.launched);
  collectives_ = std::move(recording.collectives);
  starts_ = std::move(recording.starts);
  is_captured_ = true;
}

void CapturedGraph::abandon() {
  if (const auto capture = take_capture()) capture->abandon();
}

void CapturedGraph::replay(c10::Stream stream) {
  check_runs("replay", stream, /*whole_device=*/false);
  TORCH_CHECK(!capture_of(stream), "replay: the current stream is being captured; graphs do not nest");
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(is_captured_, "replay: no graph was captured");
  TORCH_CHECK(!waits_, "replay: the last replay of this graph still waits for an ExternalEvent");
  RECORD_USER_SCOPE("acl_graph_replay");
  for (const StartState& start : starts_) start.read();
  has_happened_.assign(steps_.size(), false);
  go_on(0, stream);
}

// Steps that run in the pool alone share one session of its threads.
void CapturedGraph::go_on(size_t step, c10::Stream stream) {
  if (stops_early(step, stream)) return;
  try {
    const runtime::ReplayInProgress replay;
    if (in_pool_alone_) return runtime::WorkerPool::instance().with_team([&] { run_steps(step, stream); });
    run_steps(step, stream);
  } catch (...) {
    for (const auto& collective : collectives_) collective->drop();
    throw;
  }
}

bool CapturedGraph::stops_at(size_t wait, size_t next, c10::Stream stream) {
  if (has_happened_[wait]) return false;
  waits_ = true;
  const auto rest = [graph = shared_from_this(), wait, next, stream] {
    const std::lock_guard lock(graph->mutex_);
    graph->waits_ = false;
    graph->has_happened_[wait] = true;
    graph->go_on(next, stream);
  };
  if (!steps_[wait].event->wait_or_stop(stream, rest)) return true;
  waits_ = false;
  has_happened_[wait] = true;
  return false;
}

bool CapturedGraph::stops_early(size_t step, c10::Stream stream) {
  std::vector<const ExternalEvent*> reset;
  for (size_t i = step; i < steps_.size(); ++i) {
    const Step& at = steps_[i];
    if (at.kind == RecordedStep::Kind::kRecord) return false;
    if (at.kind == RecordedStep::Kind::kReset) reset.push_back(at.event.get());
    if (at.kind != RecordedStep::Kind::kWait) continue;
    if (std::ranges::count(reset, at.event.get()) != 0) return false;
    if (stops_at(i, step, stream)) return true;
  }
  return false;
}

void CapturedGraph::run_steps(size_t step, c10::Stream stream) {
  for (; step < steps_.size(); ++step) {
    const Step& at = steps_[step];
    switch (at.kind) {
      case RecordedStep::Kind::kLaunches: {
        const auto segment = at.group ? at.group->segment() : at.segment;
        if (segment) segment->run(stream);
        break;
      }
      case RecordedStep::Kind::kCall: at.call->run(); break;
      case RecordedStep::Kind::kReset: at.event->forget(); break;
      case RecordedStep::Kind::kRecord: at.event->happen(stream); break;
      case RecordedStep::Kind::kWait:
        if (stops_at(step, step + 1, stream)) return;
    }
  }
}

void CapturedGraph::reset() {
  abandon();
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!waits_, "reset: a replay of this graph waits for an ExternalEvent");
  for (const Step& step : steps_)
    if (step.group) step.group->drop();
  steps_.clear();
  launched_.clear();
  collectives_.clear();
  starts_.clear();
  is_captured_ = false;
  pool_ = {0, 0};
}

c10::MempoolId_t CapturedGraph::pool() const {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(is_captured_ || capture_, "pool: no graph was captured");
  return pool_;
}

std::string CapturedGraph::text() const {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(is_captured_, "debug_dump: no graph was captured");
  std::ostringstream out;
  for (const Step& step : steps_) {
    const auto segment = step.group ? step.group->segment() : step.segment;
    out << "// " << (step.group ? "task group" : name_of(step.kind)) << "\n";
    if (segment) out << program::print(segment->program());
    if (step.call) out << program::print(step.call->program());
  }
  return std::move(out).str();
}

runtime::MemoryInfo CapturedGraph::memory() const {
  const std::lock_guard lock(mutex_);
  runtime::MemoryInfo all;
  const auto add = [&](const runtime::MemoryInfo& one) {
    all.arena_bytes += one.arena_bytes;
    all.copied_bytes_per_replay += one.copied_bytes_per_replay;
  };
  for (const Step& step : steps_) {
    if (const auto segment = step.group ? step.group->segment() : step.segment) add(segment->memory());
    if (step.call) add(step.call->memory());
  }
  return all;
}

std::vector<Launch> CapturedGraph::launched() const {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(is_captured_, "debug_dump: no graph was captured");
  return launched_;
}

void begin_update(c10::Stream stream, std::shared_ptr<TaskGroup> group) {
  TORCH_CHECK(group->is_captured(),
              "graph_task_update_begin: the graph of the task group has not been captured, or was reset");
  capture::begin(std::make_shared<Capture>(stream, ErrorMode::kRelaxed, Purpose::kUpdate));
  const std::lock_guard lock(updates().mutex);
  updates().groups.insert_or_assign(stream, std::move(group));
}

namespace {

// Ends the update in `stream`, and returns its capture and the group that it is for.
std::pair<std::shared_ptr<Capture>, std::shared_ptr<TaskGroup>> take_update(c10::Stream stream) {
  auto capture = capture_of(stream);
  TORCH_CHECK(capture && capture->purpose() == Purpose::kUpdate,
              "graph_task_update_end: no update was begun in stream ", stream.id(), " of ", stream.device());
  capture::end(*capture);
  const std::lock_guard lock(updates().mutex);
  return {std::move(capture), std::move(updates().groups.extract(stream).mapped())};
}

}  // namespace

void abandon_update(c10::Stream stream) { take_update(stream).first->abandon(); }

void end_update(c10::Stream stream) {
  const auto [capture, group] = take_update(stream);
  Recording recording = capture->finish();
  const bool is_direct = !recording.direct.empty();
  TORCH_CHECK(is_direct || (recording.steps.size() == 1 && !recording.steps.front().launches.empty()),
              "graph_task_update_end: no operator was launched between begin and end");
  TORCH_CHECK(group->is_captured(), "graph_task_update_end: the graph of the task group was reset");
  group->replace(is_direct ? std::make_shared<DirectCalls>(std::move(recording.direct))
                           : segment_of("update", recording.steps.front(), recording.memory));
}

std::shared_ptr<Capture> graph_capture_of(const char* what, c10::Stream stream) {
  auto capture = capture_of(stream);
  TORCH_CHECK(capture && capture->purpose() == Purpose::kGraph, what, ": stream ", stream.id(), " of ", stream.device(),
              " is not being captured");
  return capture;
}

}  // namespace npugraph::capture
