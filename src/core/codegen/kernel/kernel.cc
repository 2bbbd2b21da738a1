// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernel/kernel.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/jit/code_cache.h"
#include "codegen/jit/make_code.h"
#include "codegen/kernel/emit.h"
#include "loop/slices.h"
#include "loop/text.h"

namespace npugraph::codegen {
namespace {

using loop::Buffer;
using target::Target;

struct KernelCode {
  std::shared_ptr<const MachineCode> code;
  // Either `main` or `chunk` is set.
  MainFunction* main = nullptr;
  ChunkFunction* chunk = nullptr;
  std::vector<std::string> messages;
};
using SharedCode = CodeCache<KernelCode>::Shared;

KernelCode make(const loop::Kernel& kernel, const Target& target, std::optional<int> copies, std::string_view text) {
  KernelCode out;
  out.messages = check_messages(kernel);
  out.code = make_code(target, text, [&] { return emit_kernel(kernel, target, copies); });
  if (sole_parallel_loop(kernel) != nullptr)
    out.chunk = out.code->function<ChunkFunction>("chunk");
  else
    out.main = out.code->function<MainFunction>("main");
  return out;
}

SharedCode code_of(const loop::Kernel& kernel, const Target& target, std::optional<int> copies) {
  static auto* cache = new CodeCache<KernelCode>;
  const std::string text = cat("kernel ", copies.value_or(0), "\n", loop::print(kernel));
  return cache->get(target, text, [&] { return make(kernel, target, copies, text); });
}

// State that depends on sizes alone.
struct KernelState {
  int64_t shared_bytes = 0;
  int64_t local_bytes = 0;         // of all local buffers of one iteration
  std::vector<int64_t> shared_at;  // where each shared buffer begins
  int64_t extent = 0;              // of sole_parallel_loop(), if there is one
  int64_t grain = 1;
};

class KernelTask {
 public:
  KernelTask(const loop::Kernel& kernel, const Target& target, std::optional<int> copies)
      : code_(code_of(kernel, target, copies)), scalars_(kernel.scalars) {
    for (const Buffer& buffer : kernel.buffers) {
      if (!is_scratch(buffer.kind)) {
        ++arguments_;
        continue;
      }
      auto& buffers = buffer.kind == Buffer::Kind::kShared ? shared_ : locals_;
      buffers.push_back({buffer.elements, size_of(buffer.dtype)});
    }
    if (const loop::For* loop = sole_parallel_loop(kernel)) {
      extent_ = loop->extent;
      grain_ = loop->grain;
    }
  }

  bool has_scratch() const { return !locals_.empty() || !shared_.empty(); }

  // Throws UserError if a size overflows.
  KernelState bind(const ng_call& call) const {
    const auto lookup = [&](const std::string& name) { return scalar(call.scalars, name); };
    KernelState out = {.extent = evaluate(extent_, lookup).i, .grain = evaluate(grain_, lookup).i};
    const auto bytes_of = [&](const Scratch& buffer) {
      const int64_t bytes = evaluate(buffer.elements, lookup).i * buffer.element_bytes;
      return (bytes + kLocalAlignment - 1) / kLocalAlignment * kLocalAlignment;
    };
    for (const Scratch& buffer : locals_) out.local_bytes += bytes_of(buffer);
    for (const Scratch& buffer : shared_) {
      out.shared_at.push_back(out.shared_bytes);
      out.shared_bytes += bytes_of(buffer);
    }
    return out;
  }

  ng_status run(const KernelState& state, ng_call& call) const {
    constexpr size_t kInline = 32;
    void* few[kInline];
    const size_t count = arguments_ + shared_.size();
    std::vector<void*> many(count > kInline ? count : 0);
    void** data = count > kInline ? many.data() : few;
    auto* workspace = static_cast<char*>(call.workspace);
    for (size_t i = 0; i < arguments_; ++i) data[i] = call.buffers[i].data;
    for (size_t i = 0; i < shared_.size(); ++i) data[arguments_ + i] = workspace + state.shared_at[i];
    KernelFrame frame = {.data = data,
                         .scalars = call.scalars,
                         .parallel = run_parallel,
                         .fail = record_failure,
                         .captured = nullptr,
                         .host = call.host,
                         .locals = workspace + state.shared_bytes,
                         .locals_bytes = state.local_bytes};
    const int32_t failed = code_->chunk != nullptr ? run_parallel(&frame, code_->chunk, state.extent, state.grain)
                                                   : code_->main(&frame, frame.locals);
    return failed == 0 ? NG_OK : report(frame);
  }

 private:
  struct Scratch {
    Expr elements;
    int64_t element_bytes;
  };

  Scalar scalar(const ng_scalar* scalars, const std::string& name) const {
    const auto found = std::find_if(scalars_.begin(), scalars_.end(), [&](const auto& s) { return s.name == name; });
    NG_CHECK(found != scalars_.end(), "no scalar ", name);
    const ng_scalar value = scalars[found - scalars_.begin()];
    return found->kind == ScalarKind::kBool ? Scalar::of_bool(value.i != 0) : Scalar::of_int(value.i);
  }

  ng_status report(const KernelFrame& frame) const {
    const std::string message = loop::fill_in(code_->messages[static_cast<size_t>(frame.message)], frame.shown,
                                              [&](const std::string& name) { return scalar(frame.scalars, name); });
    frame.host->set_error(frame.host, message.c_str());
    return NG_ERROR;
  }

  SharedCode code_;
  std::vector<loop::ScalarArg> scalars_;
  size_t arguments_ = 0;
  std::vector<Scratch> shared_;
  std::vector<Scratch> locals_;
  Expr extent_;
  Expr grain_ = 1;
};

const KernelTask& task_of(void* context) { return *static_cast<const KernelTask*>(context); }

ng_status bind_task(void* context, const ng_call* call, void** state) {
  try {
    const KernelState bound = task_of(context).bind(*call);
    if (*state == nullptr) *state = new KernelState;
    *static_cast<KernelState*>(*state) = bound;
    return NG_OK;
  } catch (const std::exception&) {
    return NG_ERROR;
  }
}

int64_t workspace_of(void* context, const ng_call* call) {
  try {
    const KernelState state = task_of(context).bind(*call);
    return state.shared_bytes + state.local_bytes * most_slots();
  } catch (const std::exception&) {
    return 0;  // bind fails in the same way
  }
}

ng_status run_task(void* context, void* state, ng_call* call) {
  return task_of(context).run(*static_cast<const KernelState*>(state), *call);
}

}  // namespace

ng_task make_kernel_task(const loop::Kernel& kernel, const Target& target, std::optional<int> copies) {
  auto task = std::make_unique<KernelTask>(kernel, target, copies);
  ng_task out = {};
  out.run = run_task;
  out.bind = bind_task;
  out.unbind = [](void*, void* state) { delete static_cast<KernelState*>(state); };
  out.workspace = task->has_scratch() ? workspace_of : nullptr;
  out.destroy = [](void* context) { delete static_cast<KernelTask*>(context); };
  out.context = task.release();
  return out;
}

SliceCode::SliceCode(const loop::Kernel& kernel, const Target& target) {
  NG_CHECK(loop::find_slices(kernel), "the kernel ", kernel.name, " computes no slices");
  const SharedCode code = code_of(kernel, target, {});
  chunk_ = code->chunk;
  code_ = code;
}

void SliceCode::run(void* const* data, int64_t first, int64_t last) const {
  KernelFrame frame = {.data = data,
                       .scalars = nullptr,
                       .parallel = run_parallel,
                       .fail = record_failure,
                       .captured = nullptr,
                       .host = nullptr,
                       .locals = nullptr,
                       .locals_bytes = 0};
  chunk_(&frame, nullptr, first, last);
}

std::string kernel_assembly(const loop::Kernel& kernel, const Target& target) {
  return assembly(emit_kernel(kernel, target), target);
}

}  // namespace npugraph::codegen
