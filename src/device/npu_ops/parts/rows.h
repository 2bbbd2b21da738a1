// SPDX-License-Identifier: Apache-2.0
// Writing rows into caches.
#pragma once

#include <vector>

#include "device/npu/call_record.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

using npu::announce_rows;

// into[places[0][i], places[1][i], ...] = rows[i]. Rows with a negative place are skipped. If several rows have one
// place, any of them may stay. Announces what it writes (device/npu/call_record.h).
void put_rows(const Tensor& into, const std::vector<Tensor>& places, const Tensor& rows);

// starts[i], starts[i] + 1, ..., starts[i] + count - 1 for each i in turn; `count` times -1 if starts[i] is negative.
Tensor spans(const Tensor& starts, const c10::SymInt& count);

// Writes rows[i] to place slots[i] % places of page slots[i] / places of `cache`, which is (pages, places of a page,
// ...). Negative slots are skipped.
void put_in_pages(const Tensor& cache, const Tensor& rows, const Tensor& slots);

// Views a cache of Ascend's layout NZ, (pages, pieces of a row, places of a page, length of a piece), as (pages, places
// of a page, pieces, length).
Tensor pages_of_pieces(const Tensor& cache);

}  // namespace npugraph::npu_ops
