// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels/place_of_extreme.h"

#include <array>
#include <vector>

#include <ATen/ops/empty.h>

#include "backend/own_kernels/eager_task.h"
#include "codegen/kernel/kernel.h"
#include "loop/builder.h"
#include "target/target.h"

namespace npugraph::own {
namespace {

constexpr int64_t kFewElements = 4096;

// x [rows, n] -> places [rows]
loop::Kernel kernel_for(loop::Combine combine, DType dtype) {
  loop::Builder b(combine == loop::Combine::kMax ? "argmax" : "argmin");
  const Expr rows = b.scalar("rows"), n = b.scalar("n");
  const loop::BufferId x = b.in("x", dtype), places = b.out("places", DType::kI64);
  b.parallel_for(rows, 1, [&](const Expr& row) {
    loop::Builder::Extreme found;
    b.vector_for(n, [&](const Expr& i) {
      found = b.reduce_with_index(combine, loop::cast(b.load(x, row * n + i), DType::kF32));
    });
    b.store(places, row, found.index);
  });
  return b.finish();
}

// The task for rows of any number and length. Never destroyed, because threads may still run it when the process ends.
template <loop::Combine combine, DType dtype>
const EagerTask& task() {
  static const auto* made = new EagerTask(codegen::make_kernel_task(kernel_for(combine, dtype), target::host_target()));
  return *made;
}
template <loop::Combine combine>
const EagerTask& task_of(DType dtype) {
  if (dtype == DType::kF32) return task<combine, DType::kF32>();
  return dtype == DType::kBF16 ? task<combine, DType::kBF16>() : task<combine, DType::kF16>();
}

bool has_rows(const at::Tensor& self, std::optional<int64_t> dim) {
  const bool is_last = dim ? *dim == -1 || *dim == self.dim() - 1 : self.dim() == 1;
  return is_last && self.dim() > 0 && self.is_contiguous() && self.numel() >= kFewElements;
}

}  // namespace

std::optional<at::Tensor> place_of_extreme(loop::Combine extreme, const at::Tensor& self, std::optional<int64_t> dim,
                                           bool keepdim) {
  const auto dtype = generated_dtype(self.scalar_type());
  if (!dtype || !has_rows(self, dim)) return std::nullopt;
  const bool wants_max = extreme == loop::Combine::kMax;
  const EagerTask& task = wants_max ? task_of<loop::Combine::kMax>(*dtype) : task_of<loop::Combine::kMin>(*dtype);
  const int64_t n = self.size(-1);
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes.back() = 1;
  const at::Tensor places = at::empty(sizes, self.options().dtype(at::kLong));
  std::array<ng_buffer, 2> buffers{buffer_of(self, 0), buffer_of(places, 0)};
  const std::array<ng_scalar, 2> scalars{ng_scalar{.i = self.numel() / n}, ng_scalar{.i = n}};
  if (task.run(buffers, scalars)) return std::nullopt;
  return keepdim ? places : places.squeeze(-1);
}

}  // namespace npugraph::own
