// SPDX-License-Identifier: Apache-2.0
// Shared by workers of attention and of feed-forward networks: 1024 bytes with numbers and addresses of npu
// memory, which a scheduler fills in. The layout is the one that Ascend documents for its
// AttentionWorkerScheduler and FfnWorkerScheduler.
#pragma once

#include <cstdint>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

struct ScheduleContext {
  // A piece of npu memory.
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
    Memory info;  // int32 [micro batches, tokens, experts of each]: 1 if the row has come
    Memory data;  // [micro batches, tokens, experts of each, bytes_to_attention]
    uint32_t micro_batch;
    int8_t reserved[92];
  } attention;
  struct {
    Memory info;  // int32 [sessions, micro batches, 2 + tokens * experts of each]: flag, layer, experts
    Memory data;  // [sessions, micro batches, tokens, experts of each, bytes_to_ffn]
    uint64_t polled;
    int8_t reserved_1[88];
    Memory layers, session_ids, micro_batch_ids;  // int32, for each scheduled batch
    Memory expert_ids;                            // int32 [scheduled batches, tokens, experts of each]
    uint32_t batches;                             // number of scheduled batches
    int8_t reserved[60];
  } ffn;
  int8_t reserved[384];
};
static_assert(sizeof(ScheduleContext) == 1024);

// Reads the context from a cpu tensor. Raises RuntimeError if it has fewer bytes.
ScheduleContext read_context(const char* op, const Tensor& tensor);

// `memory` as a cpu tensor; `name` is the name of its field. Raises RuntimeError if it is too small,
// or no npu memory in use.
Tensor tensor_of(const char* op, const char* name, const ScheduleContext::Memory& memory, at::IntArrayRef sizes,
                 at::ScalarType type);

}  // namespace npugraph::npu_ops
