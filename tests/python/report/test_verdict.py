# SPDX-License-Identifier: Apache-2.0
"""The verdict on what bounds a model: recorded runs of four models with a known bound, and small cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import npugraph
from npugraph.report import machine as machines
from npugraph.report.facts import facts
from npugraph.report.verdict import KINDS, Verdict, at_least, outside, used, verdict

RECORDED = Path(__file__).with_name("recorded")
MACHINE = {"bytes": 10.0, "caches": 8e6, "f32": 100.0, "bf16": 200.0, "i8": 400.0}
FROM_MEMORY = 1 << 30  # bytes of a working set that no cache holds


def task(**given: Any) -> dict[str, Any]:
    known = {
        "name": "loop.add",
        "kind": "loop",
        "stream": 0,
        "waits": [],
        "reason": "",
        "type": "f32",
        "bytes_read": 0,
        "bytes_written": 0,
        "operations": 0,
        "nanoseconds": 10_000,
    }
    return {"least_nanoseconds": given.get("nanoseconds", 10_000), **known, **given}


def judged(
    tasks: list[dict[str, Any]], length: int, *spans: tuple[int, int], working_set: int = FROM_MEMORY
) -> Verdict:
    return verdict(tasks, [{"nanoseconds": length, "tasks": spans}], MACHINE, working_set)


@pytest.mark.parametrize("name", ["memory", "arithmetic", "host", "waiting"])
def test_models_with_a_known_bound(name: str) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    machine = at_least(recorded["machine"], recorded["tasks"])
    touched = sum(task["bytes_read"] + task["bytes_written"] for task in recorded["tasks"])
    found = verdict(recorded["tasks"], recorded["runs"], machine, touched)
    assert found.bound == name
    assert found.sentence.lower().startswith(("the host bounds", f"{name} bounds"))
    assert sum(found.parts.values()) == pytest.approx(recorded["runs"][0]["nanoseconds"])


def test_tasks_are_held_against_both_limits() -> None:
    of_memory = task(bytes_read=60_000, bytes_written=20_000, operations=10_000)
    of_products = task(bytes_read=20_000, operations=800_000)
    assert used(of_memory, MACHINE, FROM_MEMORY) == (0.8, 0.01)
    assert used(of_products, MACHINE, FROM_MEMORY) == (0.2, 0.8)
    assert used(task(operations=800_000, type="bf16"), MACHINE, FROM_MEMORY) == (0, 0.4)
    assert judged([of_memory], 11_000, (500, 10_000)).bound == "memory"
    assert judged([of_products], 11_000, (500, 10_000)).bound == "arithmetic"


def test_what_may_come_from_caches_has_no_verdict_of_memory() -> None:
    fast = task(name="loop.add", bytes_read=80_000)
    assert used(fast, MACHINE, 1 << 20) == (None, 0)
    found = judged([fast], 12_500, (1000, 10_000), working_set=1 << 20)
    assert found.bound == "caches"
    assert found.sentence.startswith(
        "Memory does not bound this model: 80 % of a run are tasks whose data fits the caches (8 MiB), most of all "
        "loop.add. "
    )
    # 19 times what memory gives: the operands were in caches, or the limit was measured on a busy machine.
    assert used(task(bytes_read=1_900_000), MACHINE, FROM_MEMORY) == (None, 0)
    assert judged([task(bytes_read=1_900_000)], 12_500, (1000, 10_000)).bound == "caches"
    products = task(bytes_read=1_900_000, operations=500_000)
    assert judged([products], 12_500, (1000, 10_000)).bound == "arithmetic"


def test_runs_of_microseconds_have_no_verdict_of_memory() -> None:
    short = task(bytes_read=32_000, nanoseconds=4000)
    assert used(short, MACHINE, FROM_MEMORY) == (None, 0)
    assert judged([short], 4500, (100, 4000)).bound == "host"


def test_limits_are_measured_until_two_agree() -> None:
    times = iter([50.0, 19.0, 900.0, 1.0, 30.0, 1.05, 0.5])
    assert machines._agreed(lambda: next(times)) == 1.0
    assert list(times) == [0.5]
    restless = iter([2.0**-i for i in range(100)])
    assert machines._agreed(lambda: next(restless)) == 2.0**-19


def test_a_machine_can_do_what_its_tasks_came_to() -> None:
    of_memory = task(bytes_read=16 << 20, nanoseconds=1 << 20)
    from_caches = task(bytes_read=1 << 20, nanoseconds=1 << 10)
    of_products = task(operations=1_500_000)
    slower = task(operations=1_500_000, nanoseconds=20_000, least_nanoseconds=10_000)
    assert at_least(MACHINE, [slower]) == MACHINE | {"f32": 150.0}
    raised = at_least(MACHINE, [of_memory, from_caches, of_products, task(nanoseconds=0)])
    assert raised == MACHINE | {"bytes": 16.0, "f32": 150.0}


def test_the_sentences_say_how_much_and_what_to_do() -> None:
    found = judged([task(bytes_read=80_000)], 12_500, (1000, 10_000))
    assert found.sentence == (
        "Memory bounds this model: 80 % of a run moves bytes, at 8.0 GB/s where memory gives 10.0. Fewer bytes help: "
        "weights of fewer bits, more rows for the same weights, or fewer operators left apart (below, under Fusion)."
    )
    found = judged([task(operations=500_000)], 10_000, (0, 10_000))
    assert "at 50 GFLOP/s where products come to 100" in found.sentence
    assert "bfloat16 computes 2.0 times as fast here" in found.sentence
    assert "bfloat16" not in judged([task(operations=500_000, type="bf16")], 10_000, (0, 10_000)).sentence
    slow = task(name="aten.sort", kind="aten", reason="no generated code for this operator", nanoseconds=90_000)
    found = judged([slow], 100_000, (0, 90_000))
    assert found.bound == "code"
    assert "most of all aten.sort, which is not generated code: no generated code for this operator" in found.sentence


def test_what_starts_and_ends_a_run_is_the_hosts() -> None:
    found = judged([task(bytes_read=80_000)] * 2, 100_000, (20_000, 10_000), (50_000, 10_000))
    assert (found.bound, found.parts["host"], found.parts["memory"]) == ("host", 80_000, 20_000)
    assert judged([task(kind="python", nanoseconds=90_000)], 100_000, (0, 90_000)).bound == "host"
    assert judged([task(nanoseconds=4000)], 4500, (0, 4000)).bound == "host"  # so short a task is only a start


def test_streams_that_stand_still_wait_or_are_the_hosts() -> None:
    first, second = task(bytes_read=80_000), task(bytes_read=80_000, stream=1, waits=[0])
    found = judged([first, second], 20_000, (0, 10_000), (10_000, 10_000))
    assert (found.parts["waiting"], found.parts["memory"]) == (5000, 15_000)
    found = judged([first, second | {"waits": []}], 20_000, (0, 10_000), (10_000, 10_000))
    assert (found.parts["waiting"], found.parts["host"]) == (0, 5000)
    assert (
        judged([task(kind="collective", name="c10d.all_reduce", nanoseconds=9000)], 9000, (0, 9000)).bound == "waiting"
    )


def test_where_a_run_goes() -> None:
    side_by_side = {"nanoseconds": 100, "tasks": [(10, 30), (20, 40), (70, 20)]}
    assert outside(side_by_side) == {"before": 10, "runs": 70, "between": 10, "after": 10, "tasks": 90}
    one_inside = {"nanoseconds": 50, "tasks": [(0, 40), (10, 5)]}
    assert outside(one_inside) == {"before": 0, "runs": 40, "between": 0, "after": 10, "tasks": 45}


def test_without_times_there_is_no_verdict() -> None:
    found = verdict([task()], [], MACHINE, FROM_MEMORY)
    assert (found.bound, found.parts) == ("", {})
    assert "call it again with the same sizes" in found.sentence


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(32, 32) for _ in range(2)])

    def forward(self, x):
        for block in self.blocks:
            x = torch.nn.functional.gelu(block(x))
        return x.cumsum(0)


@pytest.mark.parametrize("dynamic", [False, True])
def test_real_models_get_one(dynamic: bool) -> None:
    model, x = Net().eval(), torch.randn(16, 32)
    run = torch.compile(model, backend="npugraph_ex", dynamic=dynamic)
    for _ in range(12):
        run(x)
    (artifact,) = npugraph.artifacts()
    assert len(artifact.runs) == 9
    lengths = [timed.nanoseconds for timed in artifact.runs]
    assert lengths == sorted(lengths)
    shown = facts(artifact, MACHINE)
    assert shown["verdict"]["bound"] in KINDS
    assert sum(shown["verdict"]["parts"].values()) == pytest.approx(lengths[0])
    for told in shown["tasks"]:
        assert 0 < told["least_nanoseconds"] <= told["nanoseconds"] <= told["most_nanoseconds"]
    assert sum(told["operations"] for told in shown["tasks"]) == 2 * (2 * 16 * 32 * 32 + 16 * 32)
    assert {"blocks.0", "blocks.1", "Net"} == {module for told in shown["tasks"] for module in told["modules"]}
