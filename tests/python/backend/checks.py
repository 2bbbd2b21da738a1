# SPDX-License-Identifier: Apache-2.0
"""Comparisons for the tests of the backend: results, inputs after the call, memory that tensors share, warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import torch
from torch.utils import _pytree as pytree

import npugraph

Make = Callable[[], tuple[Any, ...]]


def compile_ex(fn: Callable[..., Any], **arguments: Any) -> Callable[..., Any]:
    arguments.setdefault("fullgraph", True)
    return torch.compile(fn, backend="npugraph_ex", **arguments)


def compiled_artifacts() -> list[npugraph.Artifact]:
    """Returns the artifacts that this process holds, at least one, since what a test asserts of each holds if there are
    none."""
    artifacts = npugraph.artifacts()
    assert artifacts, "nothing was compiled"
    return artifacts


def assert_same(got: Any, want: Any, *, exact: bool = True) -> None:
    """Checks at every leaf that values, dtypes, sizes, strides (of dimensions with several elements) and layouts are
    equal."""
    got_leaves, want_leaves = pytree.tree_leaves(got), pytree.tree_leaves(want)
    assert len(got_leaves) == len(want_leaves)
    for a, b in zip(got_leaves, want_leaves, strict=True):
        if not isinstance(b, torch.Tensor):
            assert type(a) is type(b)
            assert a == b
            continue
        assert a.layout == b.layout
        assert a.is_quantized == b.is_quantized
        if b.layout is torch.strided:
            assert strides(a) == strides(b)
        else:
            a, b = a.to_dense(), b.to_dense()
        if b.is_quantized:
            a, b = a.dequantize(), b.dequantize()
        tolerance = {"rtol": 0, "atol": 0} if exact else {}
        torch.testing.assert_close(a, b, equal_nan=True, **tolerance)


def strides(tensor: torch.Tensor) -> list[int | None]:
    """Returns the strides, with None for each dimension of size 1, whose stride has no effect. The list is empty for an
    empty tensor."""
    if tensor.numel() == 0:
        return []
    return [stride if size > 1 else None for size, stride in zip(tensor.size(), tensor.stride(), strict=True)]


def shared_memory(values: Any) -> list[tuple[int, int]]:
    """Returns for each tensor with elements the index of the first tensor with the same storage, and the tensor's
    offset in that storage."""
    tensors = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]
    seen = [t.untyped_storage().data_ptr() for t in tensors]
    return [(seen.index(t.untyped_storage().data_ptr()), t.storage_offset()) for t in tensors if t.numel()]


def check(
    fn: Callable[..., Any],
    *calls: Make,
    rounds: int = 2,
    aliases: bool = False,
    exact: bool = True,
    **arguments: Any,
) -> list[npugraph.Artifact]:
    """Compiles `fn` and compares all `calls` with eager, `rounds` times: results, inputs after the call, the state of
    the random number generator and, with `aliases`, which tensors share memory. Returns the artifacts, at least one."""
    compiled = compile_ex(fn, **arguments)
    for make in calls * rounds:
        torch.manual_seed(0)
        given = make()
        want = fn(*given)
        state = torch.get_rng_state()
        torch.manual_seed(0)
        own = make()
        got = compiled(*own)
        assert torch.equal(torch.get_rng_state(), state)
        assert_same(got, want, exact=exact)
        assert_same(own, given, exact=exact)
        if aliases:
            assert shared_memory((own, got)) == shared_memory((given, want))
    return compiled_artifacts()


def check_partitioned(
    fn: Callable[..., Any], *calls: Make, names: Sequence[str], task: str | None = None, **arguments: Any
) -> list[npugraph.Artifact]:
    """Like `check`, for a graph whose operators `names` run in Python. Checks that one warning names the first of them
    and its line in `fn`, that the partitions have reasons and lines, and that `task` is captured beside them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", npugraph.NpugraphWarning)
        artifacts = check(fn, *calls, **arguments)
    texts = [str(w.message) for w in caught if issubclass(w.category, npugraph.NpugraphWarning)]
    assert len(texts) == 1
    (artifact,) = artifacts
    assert [p.target for p in artifact.partitions] == list(names)
    code = fn.__code__ if hasattr(fn, "__code__") else type(fn).forward.__code__
    places = [f"{code.co_filename}:{line}" for line in lines_of(code)]
    for partition in artifact.partitions:
        assert partition.runs_as == "python"
        assert partition.reason
        assert partition.source.split(" in ")[0] in places
    assert names[0] in texts[0]
    assert artifact.partitions[0].source in texts[0]
    kinds = [t.kind for t in artifact.tasks]
    assert kinds.count("python") == len(names)
    if task is not None:
        assert any(task in t.name for t in artifact.tasks if t.kind != "python")
    return artifacts


def lines_of(code: CodeType) -> set[int]:
    """Returns the numbers of the lines of a function and of the functions inside it."""
    lines = {line for _, _, line in code.co_lines() if line is not None}
    return lines.union(*(lines_of(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def check_captured(fn: Callable[..., Any], *calls: Make, **arguments: Any) -> list[npugraph.Artifact]:
    """Like `check`, for graphs that are captured whole: there must be no warning and no partition."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        artifacts = check(fn, *calls, **arguments)
    assert not any(artifact.partitions for artifact in artifacts)
    return artifacts


def task_names(artifact: npugraph.Artifact) -> list[str]:
    return [task.name for task in artifact.tasks]
