// SPDX-License-Identifier: Apache-2.0
// Obfuscation of activations by a service outside the NPU. Its definition is not published.
#include "device/npu/facts.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

// The result stands for the file descriptor of the service.
Tensor initialize(int64_t, int64_t, int64_t, std::optional<at::ScalarType>, std::optional<int64_t>,
                  std::optional<int64_t>, std::optional<int64_t>, std::optional<double>) {
  return at::empty({1}, at::TensorOptions().dtype(at::kInt).device(npu::kNpu));
}

Tensor calculate(const Tensor&, const Tensor& x, const Tensor&, std::optional<double>) {
  return x.new_empty_symint(x.sym_sizes());
}

Tensor finalize(const Tensor& fd) { return fd.new_empty_symint(fd.sym_sizes()); }

}  // namespace

void define_obfuscation(OperatorLibrary& library) {
  library.add({
      .schema =
          "npu::obfuscation_initialize(int hidden_size, int tp_rank, int cmd, *, ScalarType? data_type=None, int? "
          "model_obf_seed_id=0, int? data_obf_seed_id=0, int? thread_num=4, float? obf_coefficient=1.0) -> Tensor",
      .kernel = sizes_only(&initialize),
      .definition = "Opens a service outside of the NPU that obfuscates activations. The obfuscation is not published, "
                    "so only the size of the result is known: it is [1] in int32 on npu, and stands for the file "
                    "descriptor of the service.",
  });
  library.add({
      .schema =
          "npu::obfuscation_calculate(Tensor fd, Tensor x, Tensor param, *, float? obf_coefficient=1.0) -> Tensor",
      .kernel = sizes_only(&calculate),
      .definition = "Obfuscates the activations x by the service with the file descriptor fd, which "
                    "obfuscation_initialize returned. The obfuscation is not published, so only the size of the result "
                    "is known: it has the shape and the type of x.",
  });
  library.add({
      .schema = "npu::obfuscation_finalize(Tensor fd_to_close) -> Tensor",
      .kernel = sizes_only(&finalize),
      .definition = "Closes the service with the file descriptor fd_to_close, which obfuscation_initialize returned. "
                    "The result has the shape and the type of fd_to_close.",
  });
}

}  // namespace npugraph::npu_ops
