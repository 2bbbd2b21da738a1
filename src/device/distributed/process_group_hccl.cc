// SPDX-License-Identifier: Apache-2.0
// A group and how its calls run. The collectives themselves are in collectives.cc.
#include "device/distributed/process_group_hccl.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "device/npu/facts.h"
#include "device/npu/tensor.h"

namespace npugraph::distributed {

HcclWork::HcclWork(int rank, c10d::OpType type, const char* title, uint64_t sequence,
                   const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs)
    : Work(rank, type, title, inputs),
      title_(title),
      sequence_(sequence),
      outputs_(std::move(outputs)),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}

void HcclWork::be_recorded(const Recorded& calls) { recorded_.insert(recorded_.end(), calls.begin(), calls.end()); }

void HcclWork::complete(std::exception_ptr error, int source_rank) {
  source_rank_ = source_rank;
  finish(error);
  if (error)
    future_->setError(std::move(error));
  else
    future_->markCompleted(c10::IValue(outputs_));
}

bool HcclWork::wait(std::chrono::milliseconds timeout) {
  {
    std::unique_lock lock(mutex_);
    if (timeout == kNoTimeout) cv_.wait(lock, [this] { return completed_; });
    const bool ended = completed_ || cv_.wait_for(lock, timeout, [this] { return completed_; });
    if (!ended)
      C10_THROW_ERROR(DistBackendError, c10::str(title_, ": not done after ", timeout.count(), " ms of wait()"));
  }
  future_->waitAndThrow();  // short: complete() completes the future right after this
  for (const auto& call : recorded_) call->await();
  return true;
}

namespace {

std::atomic<int> groups = 0;

// The groups of this process; some may have been destroyed.
struct Known {
  std::mutex mutex;
  std::vector<c10::weak_intrusive_ptr<ProcessGroupHccl>> groups;
};

Known& known() {
  static auto* all = new Known;
  return *all;
}

// An error that Python sees as torch.distributed.DistBackendError.
std::exception_ptr failure(const std::string& what, const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  if (text.find("imed out") != std::string::npos) text += "; not every rank has come to this call";
  return std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, __LINE__}, what + " failed: " + text));
}

std::exception_ptr failure(const std::string& what, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return failure(what, caught);
  }
}

// Completes `whole` when all of its parts have ended, with the first error, if any.
void complete_with(const c10::intrusive_ptr<HcclWork>& whole, const std::vector<c10::intrusive_ptr<HcclWork>>& parts) {
  struct Count {
    std::mutex mutex;
    size_t left;
    std::exception_ptr error;
  };
  auto count = std::make_shared<Count>();
  count->left = parts.size();
  for (const auto& part : parts) {
    part->getFuture()->addCallback([count, whole](c10::ivalue::Future& ended) {
      std::unique_lock lock(count->mutex);
      if (ended.hasError() && !count->error) count->error = ended.exception_ptr();
      if (--count->left > 0) return;
      lock.unlock();
      whole->complete(count->error);
    });
  }
  if (parts.empty()) whole->complete(nullptr);
}

// CPU tensors over the memory of tensors.
Tensors memories_of(const char* call, const Tensors& tensors) {
  Tensors out;
  for (const Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.layout() == at::kStrided, call, ": takes dense tensors, got layout ", tensor.layout());
    const bool is_known = tensor.device().is_cpu() || npu::is_npu(tensor);
    TORCH_CHECK(is_known, call, ": takes tensors of npu, got one of ", tensor.device());
    out.push_back(tensor.device().is_cpu() ? tensor.detach() : npu::cpu_alias(tensor));
  }
  return out;
}

// The current stream of the device of the tensors, or of the current device if there are no tensors. Nullopt if they
// are not on npu, or if there is nothing to record for.
std::optional<c10::Stream> launch_stream(const Tensors& inputs, const Tensors& outputs) {
  const npu::CollectiveRecorder* recorder = npu::collective_recorder();
  if (recorder == nullptr || !recorder->is_watching()) return std::nullopt;
  const c10::impl::VirtualGuardImpl guard(npu::kNpu);
  if (inputs.empty() && outputs.empty()) return guard.getStream(guard.getDevice());
  for (const Tensors* tensors : {&inputs, &outputs}) {
    const auto on_npu = std::ranges::find_if(*tensors, [](const Tensor& tensor) { return npu::is_npu(tensor); });
    if (on_npu != tensors->end()) return guard.getStream(on_npu->device());
  }
  return std::nullopt;
}

// "hccl:all_reduce" -> "hccl.all_reduce"
std::string task_name(std::string title) {
  std::ranges::replace(title, ':', '.');
  return title;
}

}  // namespace

ProcessGroupHccl::ProcessGroupHccl(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Backend> gloo,
                                   c10::intrusive_ptr<Options> options)
    : Backend(gloo->getRank(), gloo->getSize()),
      store_(std::move(store)),
      gloo_(std::move(gloo)),
      options_(std::move(options)) {
  init();
  group_thread_.emplace();
  ++groups;
}

c10::intrusive_ptr<ProcessGroupHccl> ProcessGroupHccl::create(c10::intrusive_ptr<c10d::Store> store,
                                                              c10::intrusive_ptr<c10d::Backend> gloo,
                                                              c10::intrusive_ptr<Options> options) {
  auto group = c10::make_intrusive<ProcessGroupHccl>(std::move(store), std::move(gloo), std::move(options));
  const std::lock_guard lock(known().mutex);
  std::erase_if(known().groups, [](const auto& other) { return other.expired(); });
  known().groups.emplace_back(group);
  return group;
}

ProcessGroupHccl::~ProcessGroupHccl() { end(); }

// Ends jobs first, because they may need everything else; then transfers; then the connections of both.
void ProcessGroupHccl::end() {
  if (!group_thread_) return;
  group_thread_.reset();
  transfers_.abort();
  gloo_.reset();
  --groups;
}

void ProcessGroupHccl::shutdown_all() {
  std::vector<c10::intrusive_ptr<ProcessGroupHccl>> all;
  {
    const std::lock_guard lock(known().mutex);
    for (const auto& group : known().groups)
      if (auto alive = group.lock()) all.push_back(std::move(alive));
  }
  for (const auto& group : all) group->shutdown();
}

int ProcessGroupHccl::count() noexcept { return groups; }

void ProcessGroupHccl::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  gloo_->setTimeout(timeout);
}

void ProcessGroupHccl::reconnect(c10::intrusive_ptr<c10d::Backend> gloo) {
  shutdown();
  gloo_ = std::move(gloo);
  ++reconnections_;
}

void ProcessGroupHccl::shutdown() {
  group_thread_->drain();
  transfers_.abort();
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupHccl::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                          const std::vector<int>& ranks,
                                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  auto gloo = gloo_->split(store, ranks, gloo_->getBackendOptions());
  if (!gloo) return nullptr;
  auto own = c10::dynamic_intrusive_pointer_cast<Options>(options);
  TORCH_CHECK(own, "hccl: split takes options of ProcessGroupHCCL.Options");
  own->group_id = own->group_name;
  return create(store, std::move(gloo), std::move(own));
}

void ProcessGroupHccl::startCoalescing() {
  const std::lock_guard lock(coalescing_mutex_);
  coalescing_ = true;
}

WorkPtr ProcessGroupHccl::endCoalescing() {
  std::vector<c10::intrusive_ptr<HcclWork>> parts;
  {
    const std::lock_guard lock(coalescing_mutex_);
    coalescing_ = false;
    parts.swap(coalesced_);
  }
  Tensors outputs;
  HcclWork::Recorded recorded;
  for (const auto& part : parts) {
    const Tensors more = part->result();
    outputs.insert(outputs.end(), more.begin(), more.end());
    recorded.insert(recorded.end(), part->recorded().begin(), part->recorded().end());
  }
  auto whole = c10::make_intrusive<HcclWork>(getRank(), c10d::OpType::COALESCED, "hccl:coalesced", sequence_, Tensors(),
                                             std::move(outputs));
  whole->be_recorded(recorded);
  complete_with(whole, parts);
  return whole;
}

std::chrono::milliseconds ProcessGroupHccl::effective(std::chrono::milliseconds timeout) const {
  return timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
}

std::string ProcessGroupHccl::description(const Call& call, uint64_t sequence) const {
  return c10::str(call.title, " (call ", sequence, " of group '", comm_name(), "', rank ", getRank(), " of ", getSize(),
                  ", timeout ", effective(call.timeout).count(), " ms)");
}

ProcessGroupHccl::HcclWorkPtr ProcessGroupHccl::make_work(const Call& call, const Tensors& inputs,
                                                          const Tensors& outputs) {
  auto work = c10::make_intrusive<HcclWork>(getRank(), call.type, call.title, ++sequence_,
                                            inputs.empty() ? outputs : inputs, outputs);
  const std::lock_guard lock(coalescing_mutex_);
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

WorkPtr ProcessGroupHccl::start(const Call& call, const Tensors& inputs, const Tensors& outputs, const Begin& begin) {
  const auto run = [&] { return begin(*this, inputs, outputs); };
  const auto stream = launch_stream(inputs, outputs);
  if (!stream) return run();
  c10::weak_intrusive_ptr<ProcessGroupHccl> self(c10::intrusive_ptr<ProcessGroupHccl>::reclaim_copy(this));
  const auto replay = [self, begin, call, name = comm_name()](const Tensors& inputs, const Tensors& outputs) {
    const auto group = self.lock();
    TORCH_CHECK(group, call.title, ": the graph was captured with the process group '", name,
                "', which was destroyed; capture it anew");
    return begin(*group, inputs, outputs);
  };
  npu::CollectiveLaunch launch{.name = task_name(call.title),
                               .group = comm_name(),
                               .title = call.title,
                               .host_reads = call.type == c10d::OpType::RECVANYSOURCE,  // the sender's rank
                               .inputs = inputs,
                               .outputs = outputs,
                               .replay = replay};
  HcclWorkPtr work;
  const auto begin_recorded = [&](const std::shared_ptr<const npu::RecordedCollective>& recorded) -> WorkPtr {
    work = run();
    work->be_recorded({recorded});
    return work;
  };
  if (npu::collective_recorder()->record(std::move(launch), *stream, begin_recorded)) return work;
  return run();
}

WorkPtr ProcessGroupHccl::submit(const Call& call, const Tensors& inputs, const Tensors& outputs, const Job& job) {
  memories_of(call.title, inputs), memories_of(call.title, outputs);
  return start(call, inputs, outputs, [call, job](ProcessGroupHccl& group, const Tensors& from, const Tensors& into) {
    return group.run_job(call, from, into, job);
  });
}

ProcessGroupHccl::HcclWorkPtr ProcessGroupHccl::run_job(const Call& call, const Tensors& inputs, const Tensors& outputs,
                                                        const Job& job) {
  auto work = make_work(call, inputs, outputs);
  group_thread_->run([work, job, gloo = Gloo(gloo_, effective(call.timeout)),
                      what = description(call, work->getSequencenumber()), from = memories_of(call.title, inputs),
                      into = memories_of(call.title, outputs)] {
    const at::NoGradGuard no_grad;
    std::exception_ptr error;
    try {
      job(gloo, from, into);
    } catch (const std::exception& caught) {
      error = failure(what, caught);
    }
    work->complete(error);
  });
  return work;
}

WorkPtr ProcessGroupHccl::transfer(const Call& call, const Tensors& tensors, const Transfer& begin) {
  memories_of(call.title, tensors);
  const auto run = [call, begin](ProcessGroupHccl& group, const Tensors& from, const Tensors& into) {
    return group.run_transfer(call, from.empty() ? into : from, begin);
  };
  const bool sends = call.type == c10d::OpType::SEND;
  return start(call, sends ? tensors : Tensors(), sends ? Tensors() : tensors, run);
}

ProcessGroupHccl::HcclWorkPtr ProcessGroupHccl::run_transfer(const Call& call, const Tensors& tensors,
                                                             const Transfer& begin) {
  const Tensor memory = memories_of(call.title, tensors)[0];
  const Tensor data = packed(memory);
  auto work = make_work(call, tensors, tensors);
  const std::string what = description(call, work->getSequencenumber());
  WorkPtr started;
  try {
    Tensors bytes = {data.view(at::kByte)};
    started = begin(*gloo_, bytes);
  } catch (const std::exception& caught) {
    work->complete(failure(what, caught));
    return work;
  }
  const bool receives = call.type != c10d::OpType::SEND;
  transfers_.watch(started, [work, data, memory, started, what, receives](const std::exception_ptr& error) {
    const at::NoGradGuard no_grad;
    if (error) return work->complete(failure(what, error));
    if (receives) unpack(data, memory);
    work->complete(nullptr, receives ? started->sourceRank() : -1);
  });
  return work;
}

}  // namespace npugraph::distributed
