// SPDX-License-Identifier: Apache-2.0
// npu as a device of torch, and the registrations that make it, by topic. Those with a library register kernels of aten
// operators that npu brings itself, at PrivateUse1.
#pragma once

#include <torch/library.h>

namespace npugraph::eager {

// Makes npu a device of this process, torch.device("npu"), that runs the operators of torch and, if they are
// registered, of Ascend. Does nothing after the first call. Must not be called while other threads use torch.
// c10::Error when the process already has another PrivateUse1 device.
void register_device();

// Registers what torch asks a backend for: availability, devices, generators and pinned memory. Once per process.
void register_hooks();

// torch.autocast("npu"): the operators that run in lower precision, in float32 or in the widest type of their operands
// are those of torch's lists for accelerators.
void register_autocast();

// Makes files of npu tensors hold their formats, which the tensors get back when they are loaded to npu.
void register_serialized_format();

// torch.accelerator.Graph on npu. Once per process, after the device has its name.
void register_graphs();

// Kinds of tensors that npu does not support: sparse, quantised, and nested ones of layout torch.strided.
// Makes operators that would make such npu tensors, or work on them, raise NotImplementedError.
void register_refusals();

// Operators that make, reshape and copy tensors.
void register_factories(torch::Library& library);
// Operators for which cpu has no kernel, as histc of integers, or one that would draw from the generator of cpu.
void register_special_kernels(torch::Library& library);
// Products, whose operands may be of several floating-point types.
void register_products(torch::Library& library);
// The parts of torch.nn.SyncBatchNorm.
void register_synced_batch_norm(torch::Library& library);
// Scaled dot product attention chooses the implementation that cpu would.
void register_attention_choice();

// Kernels of npu for the operators that programs call most: as boxed.h, but without boxing the arguments.
void register_unboxed_kernels(torch::Library& library);

}  // namespace npugraph::eager
