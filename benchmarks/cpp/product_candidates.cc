// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "benchmarks/cpp/candidates.h"
#include "benchmarks/cpp/task_run.h"
#include "codegen/matmul/matmul.h"

namespace npugraph {
namespace {

// More than the caches hold; the layers of a model, of which each product takes the next one.
Bytes& weights() {
  static Bytes* const bytes = [] {
    auto* made = new Bytes(size_t{192} << 20);
    fill(*made);
    return made;
  }();
  return *bytes;
}

struct Matrix {
  Matrix(DType dtype, int64_t rows, int64_t columns) : dtype(dtype), sizes{rows, columns}, strides{columns, 1} {}
  ng_buffer at(char* data) const { return {data, nullptr, sizes, strides, 2, static_cast<int32_t>(dtype)}; }
  int64_t bytes() const { return sizes[0] * sizes[1] * size_of(dtype); }
  DType dtype;
  int64_t sizes[2], strides[2];
};

// The operands of all candidates.
struct Operands {
  explicit Operands(const Product& p)
      : a(p.dtype, p.m, p.k),
        b(p.dtype, p.b_is_nk ? p.n : p.k, p.b_is_nk ? p.k : p.n),
        c(p.dtype, p.m, p.n),
        of_a(static_cast<size_t>(a.bytes())),
        of_c(static_cast<size_t>(c.bytes())),
        copies(std::max<int64_t>(static_cast<int64_t>(weights().size) / b.bytes(), 1)) {
    fill(of_a);
  }
  std::vector<ng_buffer> buffers() const { return {a.at(of_a.data), b.at(weights().data), c.at(of_c.data)}; }

  Matrix a, b, c;
  Bytes of_a, of_c;
  int64_t copies;
  int64_t next = 0;
};

}  // namespace

Candidates product_candidates(const Product& p) {
  const target::Target& target = target::host_target();
  const auto operands = std::make_shared<Operands>(p);
  codegen::MatmulSpec spec;
  spec.a = spec.b = spec.c = p.dtype;
  spec.b_is_nk = p.b_is_nk;
  std::vector<ng_buffer> buffers = operands->buffers();
  const ng_call call{.buffers = buffers.data(), .num_buffers = 3, .abi_version = NG_TASK_ABI_VERSION};
  Candidates candidates;
  for (const codegen::MatmulBlocks& blocks : matmul_blocks(spec, target, call)) {
    spec.blocks = blocks;
    const auto task = std::make_shared<TaskRun>(make_matmul(spec, target), operands->buffers());
    candidates.push_back({str(blocks), [operands, task] {
                            const int64_t copy = operands->next++ % operands->copies;
                            task->buffer(1).data = weights().data + copy * operands->b.bytes();
                            task->run();
                          }});
  }
  return candidates;
}

}  // namespace npugraph
