# SPDX-License-Identifier: Apache-2.0
"""What vllm-ascend asks of the device, its memory and its numbers."""

from __future__ import annotations

import torch
import torch_npu
from torch import Tensor

from npugraph_vllm.ascend_operators.definitions import composite, whole


@whole("weak_ref_tensor", fake=lambda input: torch.empty_like(input))
def weak_ref_tensor(input: Tensor) -> Tensor:
    """A tensor over the same memory that does not keep it alive."""
    return torch_npu._C._weak_ref_tensor(input)


@whole("device_print", fake=lambda msg: None)
def device_print(msg: str) -> None:
    torch.npu.current_stream().synchronize()
    print(msg, flush=True)


@whole("device_print_tensor", fake=lambda tensor: None)
def device_print_tensor(tensor: Tensor) -> None:
    print(tensor.cpu(), flush=True)


@whole("get_physical_device_id")
def get_physical_device_id(user_device_id: int) -> int:
    return user_device_id


@whole("get_npu_storage_shape")
def get_npu_storage_shape(tensor: Tensor) -> list[int]:
    """Memory of npu has the shape of its tensor in every format that a tensor can have here."""
    return list(tensor.shape)


@whole("get_npu_view_from_cpu_tensor")
def get_npu_view_from_cpu_tensor(cpu_tensor: Tensor) -> Tensor | None:
    """None: memory of the host is not mapped, and vllm-ascend copies."""
    return None


@whole("is_minimax_sparse_attention_split_kv_available")
def is_minimax_sparse_attention_split_kv_available() -> bool:
    return False


# vllm-ascend registers a fake kernel for it if it has none, which a composite operator may not have.
@whole(
    "get_masked_input_and_mask",
    fake=lambda input, **_: (torch.empty_like(input), torch.empty_like(input, dtype=torch.bool)),
)
def get_masked_input_and_mask(
    input: Tensor,
    org_vocab_start_index: int,
    org_vocab_end_index: int,
    num_org_vocab_padding: int,
    added_vocab_start_index: int,
    added_vocab_end_index: int,
) -> tuple[Tensor, Tensor]:
    """Rows of this rank's part of an embedding, 0 for tokens of other ranks, and which tokens those are. A part holds
    tokens of the original vocabulary, padding, and added tokens."""
    original = (input >= org_vocab_start_index) & (input < org_vocab_end_index)
    added = (input >= added_vocab_start_index) & (input < added_vocab_end_index)
    first_added = org_vocab_end_index - org_vocab_start_index + num_org_vocab_padding
    row = torch.where(original, input - org_vocab_start_index, input - added_vocab_start_index + first_added)
    ours = original | added
    return row.masked_fill(~ours, 0), ~ours


@composite("npu_apply_top_k_top_p")
def apply_top_k_top_p(logits: Tensor, p: Tensor | None, k: Tensor | None) -> Tensor:
    return torch.ops.npu.npu_top_k_top_p(logits, p, k)
