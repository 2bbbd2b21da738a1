// SPDX-License-Identifier: Apache-2.0
// Writing rows into caches.
#pragma once

#include <vector>

#include "torch/npu/row_writes.h"
#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

using npu::announce_rows;
using npu::declare_row_writes;

// into[places[0][i], places[1][i], ...] = rows[i], where none of the places is below 0; the other rows are skipped. Of several
// rows for one place any may stay. Announces what it writes (torch/npu/row_writes.h).
void put_rows(const Tensor& into, const std::vector<Tensor>& places, const Tensor& rows);

// starts[i], starts[i] + 1, ..., for each i as many as `count`, one after the other; -1 where starts[i] is below 0.
Tensor spans(const Tensor& starts, const c10::SymInt& count);

// Writes rows[i] to place slots[i] % places of page slots[i] / places of `cache`, which is (pages, places of a page, ...);
// slots below 0 are skipped.
void put_in_pages(const Tensor& cache, const Tensor& rows, const Tensor& slots);

// A cache of Ascend's layout NZ, (pages, pieces of a row, places of a page, length of a piece), as (pages, places of a page,
// pieces, length).
Tensor pages_of_pieces(const Tensor& cache);

}  // namespace npugraph::npu_ops
