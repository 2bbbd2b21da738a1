# SPDX-License-Identifier: Apache-2.0
"""``torchair.ops``: operators of the namespace ``air`` for graphs in GE mode."""

from __future__ import annotations

from typing import Any

import torch

torch.fx.node.has_side_effect(torch.ops.air.print.default)


def npu_fused_infer_attention_score(*args: Any, **kwargs: Any) -> Any:
    """``torch_npu.npu_fused_infer_attention_score`` with lengths in tensors of integers, which may change from call to
    call of one graph."""
    return torch.ops.air.npu_fused_infer_attention_score(*args, **kwargs)


def npu_fused_infer_attention_score_v2(*args: Any, **kwargs: Any) -> Any:
    """The same for ``torch_npu.npu_fused_infer_attention_score_v2``."""
    return torch.ops.air.npu_fused_infer_attention_score_v2(*args, **kwargs)


def record() -> torch.Tensor:
    """Returns the point of the current stream behind the work that it has so far, for ``wait``."""
    return torch.ops.air.record()


def wait(tensors: list[torch.Tensor]) -> None:
    """Makes the current stream wait for points that ``record`` returned, and for what computes the other tensors.
    Raises ValueError for what is no list of tensors, and for an empty one."""
    is_list = isinstance(tensors, (list, tuple)) and all(isinstance(tensor, torch.Tensor) for tensor in tensors)
    if not is_list or not tensors:
        raise ValueError(f"wait takes a list of tensors that is not empty, got {tensors!r}")
    torch.ops.air.wait(tensors)


class TaggedEvent:
    """An event that ``npu_create_tagged_event`` has made."""

    def __init__(self, tag: str) -> None:
        self.tag = tag


_tags: set[str] = set()


def npu_create_tagged_event(tag: str) -> TaggedEvent:
    """Returns an event for streams of compiled functions. Raises TypeError for a tag that is no str, and ValueError for
    one that another event of the process has."""
    if not isinstance(tag, str):
        raise TypeError(f"npu_create_tagged_event: tag is a {type(tag).__name__}; it has to be a str")
    if tag in _tags:
        raise ValueError(f"npu_create_tagged_event: another event has the tag {tag!r}; tags are unique in a process")
    _tags.add(tag)
    return TaggedEvent(tag)


def npu_tagged_event_record(event: TaggedEvent) -> None:
    """Records an event in the current stream. Raises AssertionError for what ``npu_create_tagged_event`` has not
    made."""
    torch.ops.air.tagged_event_record(_tag_of(event))


def npu_tagged_event_wait(event: TaggedEvent) -> None:
    """Makes the current stream wait for an event, which the same graph has recorded. Raises AssertionError for what
    ``npu_create_tagged_event`` has not made."""
    torch.ops.air.tagged_event_wait(_tag_of(event))


def _tag_of(event: Any) -> str:
    if not isinstance(event, TaggedEvent):
        raise AssertionError(f"an event with a tag is made by npu_create_tagged_event, got {event!r}")
    return event.tag


def npu_record_tagged_stream(input: torch.Tensor, tagged_stream: str) -> None:
    """Says that the stream of that name uses the memory of ``input``. Nothing has to be done here: events say when."""
    torch.ops.air.record_tagged_stream(input, tagged_stream)


def npu_print(*args: Any, summarize_size: int = 3, tensor_detail: bool = False) -> None:
    """Prints tensors, texts and numbers in a line of the standard output, whenever the graph runs. Of each dimension of
    a tensor it prints ``summarize_size`` elements at both ends, all for -1; ``tensor_detail`` adds sizes and type.
    Prints keep their order. Raises TypeError for arguments of other kinds, and ValueError without a tensor, for complex
    tensors and for another ``summarize_size``."""
    for arg in args:
        if not isinstance(arg, (torch.Tensor, str, bool, int, float)):
            raise TypeError(f"npu_print takes tensors, str, bool, int and float, got a {type(arg).__name__}")
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if not tensors:
        raise ValueError("npu_print takes at least one tensor, got none")
    if any(tensor.is_complex() for tensor in tensors):
        raise ValueError("npu_print does not print complex numbers: torch.view_as_real makes real ones of them")
    if summarize_size != -1 and summarize_size < 1:
        raise ValueError(f"npu_print: summarize_size is -1, for all elements, or at least 1, got {summarize_size}")
    mark = _placeholder("".join(arg for arg in args if isinstance(arg, str)))
    words = []
    for arg in args:
        if not isinstance(arg, torch.Tensor):
            words.append(str(arg))
        elif tensor_detail:
            words.append(f"tensor({mark}, shape={mark}.shape, dtype={arg.dtype})")
        else:
            words.append(mark)
    torch.ops.air.print(tensors, " ".join(words), mark, summarize_size)


def _placeholder(text: str) -> str:
    """What stands for a tensor, which ``text`` does not have."""
    mark = "{}"
    while mark in text:
        mark = "{" + mark + "}"
    return mark
