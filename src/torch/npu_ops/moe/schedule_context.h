// SPDX-License-Identifier: Apache-2.0
// What workers of attention and of feed-forward networks share: 1024 bytes of numbers and of addresses in memory of npu, which a
// scheduler fills in. The layout is the one that Ascend documents for its AttentionWorkerScheduler and FfnWorkerScheduler.
#pragma once

#include <cstdint>

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

struct ScheduleContext {
  // A piece of memory of npu.
  struct Memory {
    uint64_t address, bytes;
  };

  struct {
    uint32_t sessions;  // ranks of attention
    uint32_t micro_batches, tokens, experts_of_token, experts;
    uint32_t bytes_to_ffn, bytes_to_attention;  // from one token's row to the next one's
    int32_t mode;
    int8_t reserved[96];
  } common;
  struct {
    int32_t runs;
    int8_t reserved_1[4];
    uint64_t wait_buffer;
    int8_t reserved[112];
  } control;
  struct {
    Memory info;  // int32 [micro batches, tokens, experts of each]: 1 where the row is there
    Memory data;  // [micro batches, tokens, experts of each, bytes_to_attention]
    uint32_t micro_batch;
    int8_t reserved[92];
  } attention;
  struct {
    Memory info;  // int32 [sessions, micro batches, 2 + tokens * experts of each]: flag, layer, experts
    Memory data;  // [sessions, micro batches, tokens, experts of each, bytes_to_ffn]
    uint64_t polled;
    int8_t reserved_1[88];
    Memory layers, session_ids, micro_batch_ids;  // int32, of each batch that is scheduled
    Memory expert_ids;                            // int32 [batches that are scheduled, tokens, experts of each]
    uint32_t batches;                             // that are scheduled
    int8_t reserved[60];
  } ffn;
  int8_t reserved[384];
};
static_assert(sizeof(ScheduleContext) == 1024);

// Of a tensor of cpu. RuntimeError for one of fewer bytes.
ScheduleContext read_context(const char* op, const Tensor& tensor);

// `memory` as a tensor of cpu; `name` is that of a field. RuntimeError where it is too small, or is no live memory of npu.
Tensor tensor_of(const char* op, const char* name, const ScheduleContext::Memory& memory, at::IntArrayRef sizes,
                 at::ScalarType type);

}  // namespace npugraph::npu_ops
