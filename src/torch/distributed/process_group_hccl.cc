// SPDX-License-Identifier: Apache-2.0
// What a group is, and how its calls run. What each collective asks of its tensors: collectives.cc.
#include "torch/distributed/process_group_hccl.h"

#include <algorithm>
#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "torch/capture/registry.h"

namespace npugraph::distributed {
namespace {

std::atomic<int> groups = 0;

// As torch.distributed.DistBackendError in Python.
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

// Completes `whole` when all of its parts have ended, with the first error that there is.
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

}  // namespace

ProcessGroupHccl::ProcessGroupHccl(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Backend> gloo,
                                   c10::intrusive_ptr<Options> options)
    : Backend(gloo->getRank(), gloo->getSize()),
      store_(std::move(store)),
      gloo_(std::move(gloo)),
      options_(std::move(options)) {
  init();
  ++groups;
}

ProcessGroupHccl::~ProcessGroupHccl() { --groups; }

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
  lane_.drain();
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
  return c10::make_intrusive<ProcessGroupHccl>(store, std::move(gloo), std::move(own));
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
  for (const auto& part : parts) {
    const Tensors more = part->result();
    outputs.insert(outputs.end(), more.begin(), more.end());
  }
  auto whole = c10::make_intrusive<HcclWork>(getRank(), c10d::OpType::COALESCED, "hccl:coalesced", sequence_, Tensors(),
                                             std::move(outputs));
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

// A replay would leave it out, and ranks would go on with different numbers.
void check_is_not_recorded(const char* title, const Tensors& inputs) {
  if (!capture::is_watching()) return;
  const auto x = std::ranges::find_if(inputs, [](const Tensor& input) { return input.is_privateuseone(); });
  if (x == inputs.end()) return;
  const c10::Stream stream = c10::impl::VirtualGuardImpl(x->device().type()).getStream(x->device());
  if (!capture::recorder_of(stream)) return;
  TORCH_CHECK(false, "hccl: ", title,
              " is called while torch.npu.graph captures its stream, and replays would not repeat it. "
              "Call it in a function that torch.compile compiles with the backend npugraph_ex: replays repeat those");
}

c10::intrusive_ptr<HcclWork> ProcessGroupHccl::make_work(const Call& call, const Tensors& inputs, Tensors outputs) {
  check_is_not_recorded(call.title, inputs);
  auto work = c10::make_intrusive<HcclWork>(getRank(), call.type, call.title, ++sequence_, inputs, std::move(outputs));
  const std::lock_guard lock(coalescing_mutex_);
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

WorkPtr ProcessGroupHccl::submit(const Call& call, const Tensors& inputs, Tensors outputs, Job job) {
  auto work = make_work(call, inputs, std::move(outputs));
  lane_.run([work, job = std::move(job), gloo = Gloo(gloo_, effective(call.timeout)),
             what = description(call, work->getSequencenumber())] {
    const at::NoGradGuard no_grad;
    std::exception_ptr error;
    try {
      job(gloo);
    } catch (const std::exception& caught) {
      error = failure(what, caught);
    }
    work->complete(error);
  });
  return work;
}

WorkPtr ProcessGroupHccl::transfer(const Call& call, const Tensor& tensor, const Landing& landing,
                                   const std::function<WorkPtr()>& start) {
  auto work = make_work(call, {tensor}, {tensor});
  const std::string what = description(call, work->getSequencenumber());
  WorkPtr started;
  try {
    started = start();
  } catch (const std::exception& caught) {
    work->complete(failure(what, caught));
    return work;
  }
  transfers_.watch(started, [work, landing, started, what,
                             receives = call.type != c10d::OpType::SEND](const std::exception_ptr& error) {
    const at::NoGradGuard no_grad;
    if (error) return work->complete(failure(what, error));
    if (receives) unpack(landing.data, landing.memory);
    work->complete(nullptr, receives ? started->sourceRank() : -1);
  });
  return work;
}

}  // namespace npugraph::distributed
