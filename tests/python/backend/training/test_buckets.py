# SPDX-License-Identifier: Apache-2.0
"""All-reduces of gradients that are merged into one, and those that must stay apart."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.distributed as dist
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

import npugraph.collectives  # noqa: F401  (defines the operators)
from npugraph.fx.decompose import buckets

REDUCE = torch.ops.npugraph.all_reduce.default


@pytest.fixture(scope="module", autouse=True)
def one_rank(tmp_path_factory):
    store = dist.FileStore(str(tmp_path_factory.mktemp("group") / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def reduced(x: torch.Tensor, op: str = "sum") -> torch.Tensor:
    return REDUCE([x], op, dist.group.WORLD.group_name, [0])[0]


def bucketed(function, *inputs: torch.Tensor) -> tuple[int, list[fx.Node]]:
    """Returns how many all-reduces were removed, and those that are left. Checks that the results stay the same."""
    gm = make_fx(function)(*inputs)
    for node in gm.graph.nodes:
        if node.target is REDUCE:
            node.meta["val"] = list(node.meta["val"])
    wanted = gm(*inputs)
    gone = buckets.bucket_all_reduces(gm)
    gm.graph.lint()
    gm.recompile()
    torch.testing.assert_close(gm(*inputs), wanted, rtol=0, atol=0)
    return gone, [node for node in gm.graph.nodes if node.target is REDUCE]


X = torch.arange(6.0)


def test_independent_ones_become_one_behind_the_last() -> None:
    def function(x):
        a = reduced(x) / 2
        b = reduced(x.sin()) / 2
        c = reduced(x.cos()) / 2
        return a, b, c

    gone, (left,) = bucketed(function, X)
    assert gone == 2
    assert len(left.args[0]) == 3
    divisions = [node for node in left.graph.nodes if node.target is torch.ops.aten.div.Tensor]
    nodes = list(left.graph.nodes)
    assert len(divisions) == 3 and all(nodes.index(node) > nodes.index(left) for node in divisions)


KEPT_APART = {
    "one needs the other": lambda x: reduced(reduced(x) + 1),
    "another reduction": lambda x: (reduced(x), reduced(x + 1, "max")),
    "another dtype": lambda x: (reduced(x), reduced(x.double())),
    "a collective between": lambda x: (
        reduced(x),
        torch.ops.npugraph.all_gather([x], dist.group.WORLD.group_name, [0])[0],
        reduced(x + 1),
    ),
    "a write between": lambda x: (reduced(x), x.clone().add_(1), reduced(x + 2)),
}


@pytest.mark.parametrize("function", KEPT_APART.values(), ids=KEPT_APART.keys())
def test_others_stay(function) -> None:
    assert bucketed(function, X)[0] == 0


def test_a_bucket_is_full(monkeypatch) -> None:
    monkeypatch.setattr(buckets, "_MOST_BYTES", 2 * X.nbytes)
    gone, left = bucketed(lambda x: [reduced(x + i) for i in range(5)], X)
    assert gone == 2
    assert [len(node.args[0]) for node in left] == [2, 2, 1]
    assert all(user.target is operator.getitem for node in left for user in node.users)


def order_after_sinking(function, *inputs: torch.Tensor) -> list[str]:
    """Returns the operators in order. Checks that the results stay the same."""
    gm = make_fx(function)(*inputs)
    wanted = gm(*inputs)
    buckets.sink_results(gm)
    gm.graph.lint()
    gm.recompile()
    torch.testing.assert_close(gm(*inputs), wanted, rtol=0, atol=0)
    calls = [node.target for node in gm.graph.nodes if node.op == "call_function"]
    return [str(call).split(".")[1] for call in calls if call is not operator.getitem]


def test_results_are_used_behind_what_does_not_wait() -> None:
    def function(x):
        a = reduced(x) / 2
        b = reduced(x.sin()) / 3
        return a, b, x.cos()

    assert order_after_sinking(function, X) == ["all_reduce", "sin", "all_reduce", "cos", "div", "div"]


def test_results_are_used_before_writes_and_collectives_that_need_them() -> None:
    def writes(x):
        a = reduced(x) / 2
        return a, x.clone().add_(1), x.sin()

    def needs(x):
        a = reduced(x) / 2
        b = x.sin()
        return reduced(a), b.cos()

    assert order_after_sinking(writes, X) == ["all_reduce", "clone", "div", "add_", "sin"]
    assert order_after_sinking(needs, X) == ["all_reduce", "sin", "div", "all_reduce", "cos"]
