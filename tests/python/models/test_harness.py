# SPDX-License-Identifier: Apache-2.0
"""The benchmark harness: what its figures mean, and that a fast wrong result earns no ratio."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import changing_sizes, machine, memory, model_speed, plots, processes, report, results_index, sides
from benchmarks.bar_kinds import Bar, DifferenceBar, EachBar, FigureBar, GeneratedBar, GeometricBar, ShareBar
from benchmarks.harness import Request, Result, Side, SideResult, measure
from benchmarks.model_case import relative_error

EAGER = SideResult("eager", [4.0, 2.0, 8.0], error=1e-7)


def result(seconds: list[float], error: float) -> Result:
    return Result("overhead", "model", [EAGER, SideResult("npugraph_ex", seconds, error)])


def test_ratio_is_of_medians_with_the_extremes_of_rounds() -> None:
    ratio = result([2.0, 2.0, 2.0], error=1e-7).ratio("npugraph_ex", "eager")
    assert ratio is not None
    assert (ratio.value, ratio.low, ratio.high, ratio.accurate) == (0.5, 0.25, 1.0, True)


def test_a_wrong_side_shows_no_ratio_and_meets_no_bar() -> None:
    bar = Bar("overhead", "model", limit=0.9)
    right, wrong = result([2.0, 2.0, 2.0], error=9e-6), result([2.0, 2.0, 2.0], error=2e-5)
    assert bar.verdict([right]).startswith("met")
    assert bar.verdict([wrong]).startswith("NOT MET")
    assert "wrong results" in report.lines(wrong)
    assert "0.5 (0.25-1)" in report.lines(right)


def test_a_geometric_bar_compares_with_the_best_accurate_peer() -> None:
    def case(name: str, own: float, error: float = 1e-7) -> Result:
        sides = [
            SideResult("fast", [own * 2], 1e-7),
            SideResult("wrong", [own / 9], 1.0),
            SideResult("slow", [9.0], 1e-7),
        ]
        return Result("speed", name, [EAGER, *sides, SideResult("npugraph_ex", [own], error)])

    bar = GeometricBar("speed", "float32", limit=2.0, others=("fast", "wrong", "slow"))
    assert bar.verdict([case("a float32", 1.0), case("b float32", 2.0)]).startswith("met")
    assert bar.verdict([case("a float32", 1.0), case("b float32", 2.0, error=1.0)]).startswith("NOT MET")
    assert bar.verdict([case("a bfloat16", 1.0)]) is None


def test_a_geometric_bar_may_limit_how_many_cases_are_behind() -> None:
    def case(name: str, own: float) -> Result:
        return Result("speed", name, [EAGER, SideResult("npugraph_ex", [own], 1e-7)])

    mixed = [case("a", 0.1), case("b", 9.0)]
    assert GeometricBar("speed", "", 1.0, ("eager",), most_behind=1).verdict(mixed).startswith("met")
    assert GeometricBar("speed", "", 1.0, ("eager",), most_behind=0).verdict(mixed).startswith("NOT MET")


def test_a_generated_bar_takes_the_least_case_that_it_is_about() -> None:
    bar = GeneratedBar("speed", 0.9, but=("resnet",))
    cases = [Result("speed", name, [EAGER], generated=share) for name, share in (("bert", 0.95), ("resnet", 0.8))]
    assert bar.verdict(cases) == "met      speed but resnet: share of generated code >= 0.9: 0.95 (bert)"
    assert GeneratedBar("speed", 0.9).verdict(cases).startswith("NOT MET")
    assert bar.verdict([Result("speed", "bert", [EAGER])]) is None


def test_a_share_bar_takes_the_least_case_and_no_wrong_result() -> None:
    def case(name: str, own: float, error: float = 1e-7) -> Result:
        sides = [EAGER, SideResult("npugraph_ex", [own] * 3, error)]
        return Result("speed", name, sides, limit="MFU", limit_seconds=1.0)

    bar = ShareBar("speed", "float32", limit=0.5)
    good, bad, wrong = case("a float32", 1.25), case("b float32", 4.0), case("b float32", 1.0, error=1.0)
    assert bar.verdict([good]) == "met      speed float32: MFU of npugraph_ex >= 0.5: 0.80 (a float32)"
    assert bar.verdict([good, bad]).startswith("NOT MET")
    assert bar.verdict([good, wrong]).startswith("NOT MET")
    assert bar.verdict([case("a bfloat16", 1.0)]) is None
    assert "MFU: eager 0.25, npugraph_ex 0.80" in report.lines(good)


def test_a_bar_for_each_case_takes_the_worst_and_no_wrong_result() -> None:
    def case(name: str, own: float, error: float = 1e-7) -> Result:
        return Result("sizes", name, [EAGER, SideResult("npugraph_ex", [own] * 3, error)])

    bar = EachBar("sizes", "steady", limit=0.5)
    good, bad, wrong = case("a steady", 1.0), case("b steady", 3.0), case("b steady", 1.0, error=1.0)
    assert bar.verdict([good]) == "met      sizes steady: npugraph_ex / eager <= 0.5 in each: 0.25 (a steady)"
    assert bar.verdict([good, bad]).startswith("NOT MET")
    assert bar.verdict([good, wrong]).endswith("wrong results (b steady)")
    assert bar.verdict([case("a first", 9.0)]) is None


def test_a_difference_bar_is_about_medians() -> None:
    compared = Result("overhead", "model", [EAGER, SideResult("npugraph_ex", [4.5, 5.0, 9.0], 1e-7)])
    assert DifferenceBar("overhead", "model", 1.5, other="eager").verdict([compared]).startswith("met")
    assert DifferenceBar("overhead", "model", 0.5, other="eager").verdict([compared]).startswith("NOT MET")
    assert DifferenceBar("overhead", "model", 1.5).verdict([compared]) is None


def test_a_figure_bar_takes_the_largest_figure() -> None:
    def case(name: str, faults: float, error: float = 1e-7) -> Result:
        return Result("memory", name, [EAGER, SideResult("npugraph_ex", [1.0], error)], figures={"faults": faults})

    bar = FigureBar("memory", "faults", 0)
    assert bar.verdict([case("a", 0.0)]).startswith("met")
    assert bar.verdict([case("a", 0.0), case("b", 2.0)]).endswith("2 (b; 1 of 2 cases over)")
    assert bar.verdict([case("a", 0.0, error=1.0)]).startswith("NOT MET")
    assert FigureBar("memory", "copies", 0).verdict([case("a", 0.0)]) is None
    assert "faults: 2" in report.lines(case("b", 2.0))


def test_requests_of_changing_sizes() -> None:
    sizes = changing_sizes.sizes()
    assert len(sizes) == 64 and sizes == changing_sizes.sizes()
    assert len({length for _, length in sizes}) == 40
    assert {rows for rows, _ in sizes} == {1, 2, 3, 4}
    tokens = [rows * length for rows, length in (sizes[i] for i in changing_sizes.sampled(sizes))]
    assert (tokens[0], tokens[-1]) == (min(a * b for a, b in sizes), max(a * b for a, b in sizes))


def test_workspaces_are_above_what_is_needed_least() -> None:
    sizes = {"arena_bytes": 6, "live_bytes": 5, "heap_bytes": 5, "scratch_bytes": 4}
    assert memory.planned_over_least(sizes) == 1.5
    assert memory.planned_over_least(dict.fromkeys(sizes, 0)) == 1.0


def test_the_floor_computes_once() -> None:
    calls = []

    def count(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return x + 1

    graph = torch.fx.symbolic_trace(lambda x: x)
    graph.forward = count
    floor = sides.empty_backend(graph, [torch.zeros(1)])
    assert floor(torch.ones(1)) is floor(torch.ones(1)) and len(calls) == 1


def test_sides_in_processes_take_turns_and_one_that_fails_is_named() -> None:
    asked: list[str] = []

    def take(side: str) -> processes.Sample:
        asked.append(side)
        if side == "b":
            raise RuntimeError("many words\nno such thing")
        return {"seconds": float(len(asked)), "error": 0.0}

    compared = processes.compare("speed", "model", ("a", "b", "c"), 2, take)
    assert asked == ["a", "b", "c", "c", "a"]
    assert {side.name: side.seconds for side in compared.sides} == {"a": [1.0, 5.0], "c": [3.0, 4.0]}
    assert compared.notes == {"b": "does not run: no such thing"}
    with pytest.raises(RuntimeError, match="No module named"):
        processes.run_module("benchmarks.no_such_sample", ())


def test_models_are_timed_again_on_the_sides_that_matter() -> None:
    seconds = {"eager": 4.0, "inductor": 5.0, "inductor-freezing": 3.5, "zentorch": 1.4, "npugraph_ex": 1.0}
    take = lambda side: {"seconds": seconds[side], "error": 0.0}  # noqa: E731
    compared = processes.compare("model_speed", "model", list(seconds), 3, take, model_speed.contenders)
    rounds = {side.name: len(side.seconds) for side in compared.sides}
    assert rounds == {"eager": 1, "inductor": 1, "inductor-freezing": 3, "zentorch": 3, "npugraph_ex": 3}
    assert compared.ratio("eager", "npugraph_ex").value == 4.0


def test_the_index_of_results_is_current() -> None:
    assert (results_index.FOLDER / "README.md").read_text() == results_index.page(), (
        "benchmarks/results/README.md is not current: run python -m benchmarks.results_index"
    )


def test_plots_show_what_was_measured(tmp_path: Path) -> None:
    file, folder = tmp_path / "results.json", tmp_path / "plots"
    right, wrong = result([2.0, 2.0, 2.0], error=1e-7), result([1.0, 1.0, 1.0], error=1.0)
    wrong.case = "<wrong>"
    report.write_json(file, report.Record([{"processor": "any"}], [right, wrong]))
    assert [plots.speedups(record) for record in json.loads(file.read_text())["results"]] == [{"eager": 2.0}, {}]
    plots.main(str(file), str(folder))
    assert (folder / "overhead.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "index.html").read_text()
    assert '<img src="overhead.png"' in page and "&lt;wrong&gt;" in page and "wrong results" in page


def test_a_bar_without_its_comparison_says_nothing() -> None:
    assert Bar("overhead", "another model", limit=0.9).verdict([result([1.0, 1.0, 1.0], 0.0)]) is None


def recording_sides(calls: list[str]) -> list[Side]:
    return [
        Side(name, lambda name=name: calls.append(name), before=lambda name=name: calls.append(f"before {name}"))
        for name in ("a", "b")
    ]


def test_sides_take_turns_and_are_prepared_before_each_sample() -> None:
    calls: list[str] = []
    measured = measure("overhead", "model", recording_sides(calls), samples=16, most_calls=1)
    assert [len(side.seconds) for side in measured.sides] == [16, 16]
    measuring = calls[8:]
    assert all(before == f"before {call}" for before, call in zip(measuring[::2], measuring[1::2], strict=True))
    timed = measuring[1::2]
    rounds = {tuple(timed[i : i + 2]) for i in range(0, len(timed), 2)}
    assert rounds == {("a", "b"), ("b", "a")}


def test_a_sample_keeps_within_the_calls_a_side_has_room_for() -> None:
    calls: list[str] = []
    measure("overhead", "model", recording_sides(calls), samples=3, most_calls=5)
    samples = " ".join(calls).split("before ")[1:]
    assert [sample.split()[1:] for sample in samples[-6:]] == [[sample.split()[0]] * 5 for sample in samples[-6:]]
    assert max(len(sample.split()) - 1 for sample in samples) == 5


def test_json_holds_machine_results_and_ratios(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    report.write_json(file, report.Record([{"processor": "any"}], [result([2.0, 2.0, 2.0], error=1e-7)]))
    record = json.loads(file.read_text())
    assert record["runs"] == [{"processor": "any"}]
    eager, ours = record["results"][0]["sides"]
    assert (eager["median"], ours["ratio"]["value"]) == (4.0, 0.5)


RUN = {"commit": "abc", "processor": "any", "threads": 2, "packages": {"torch": "2"}}


def test_an_interrupted_run_is_resumed_on_the_same_commit_only(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    first = result([2.0, 2.0, 2.0], error=1e-7)
    report.write_json(file, report.Record([RUN | {"started": "noon"}], [first]))
    record = report.resume(file, RUN | {"started": "evening"})
    assert record.results == [first]
    assert [run["started"] for run in record.runs] == ["noon", "evening"]
    with pytest.raises(SystemExit, match="another commit"):
        report.resume(file, RUN | {"commit": "def"})


def test_only_wanted_cases_that_are_not_known_are_measured() -> None:
    request = Request(["eager"], 1, cases=["bert*", "gpt2 base"], known=frozenset([("speed", "bert long")]))
    cases = ("bert base", "bert long", "gpt2 base", "gpt2 long")
    assert [case for case in cases if request.wants("speed", case)] == ["bert base", "gpt2 base"]
    assert request.wants("memory", "bert long")


@pytest.mark.parametrize(
    ("y", "y64", "error"),
    [
        (torch.tensor([1.0, 3.0]), torch.tensor([1.0, 4.0]).double(), 0.25),
        (torch.tensor([float("nan")]), torch.tensor([1.0]).double(), float("inf")),
        (torch.tensor([float("-inf"), 2.0]), torch.tensor([float("-inf"), 2.0]).double(), 0.0),
        (torch.tensor([float("-inf"), 2.0]), torch.tensor([float("inf"), 2.0]).double(), float("inf")),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), float("inf")),
        (torch.zeros(2), torch.zeros(3).double(), float("inf")),
        (torch.zeros(0), torch.zeros(0).double(), 0.0),
    ],
)
def test_relative_error(y: torch.Tensor, y64: torch.Tensor, error: float) -> None:
    assert relative_error(y, y64) == error


def test_a_share_above_the_limit_of_the_machine_is_an_error() -> None:
    fast = Result("speed", "model float32", [EAGER, SideResult("npugraph_ex", [1.0], 1e-7)], limit="MFU")
    fast.limit_seconds = 1.26
    (error,) = report.errors(fast)
    assert "MFU of npugraph_ex is 1.26" in error
    assert ShareBar("speed", "float32", limit=0.8).verdict([fast]).startswith("NOT MET")
    fast.limit = "share of copy speed"  # caches are faster
    assert not report.errors(fast)


def test_limits_of_the_machine_are_measured_until_two_agree() -> None:
    runs = iter([{"read": read, "copy": 2**-read} for read in (7.0, 9.9, 8.0, 10.0)])
    assert machine.limits(["read"], lambda: next(runs)) == {"read": 10.0}
    assert not list(runs)
    falling = iter(range(100, 0, -5))
    with pytest.raises(machine.UnsteadyMachine, match="differ"):
        machine.limits(["read"], lambda: {"read": 1 / next(falling)})


def test_a_result_has_no_share_of_a_limit_that_cannot_be_measured() -> None:
    speeds = iter([*range(100, 90, -1), 50, 50])
    limits = machine.Limits(["read"], lambda: {"read": 2.0 ** next(speeds)})
    known, unknown = (Result("speed", "model", [EAGER]) for _ in range(2))
    limits.set_share(known, "MBU", "read", 2.0**49)
    assert known.limit == "MBU" and known.limit_seconds == 0.5
    speeds = iter(range(100, 70, -1))
    limits = machine.Limits(["read"], lambda: {"read": 2.0 ** next(speeds)})
    limits.set_share(unknown, "MBU", "read", 2.0**49)
    assert unknown.limit == "" and "differ" in unknown.notes["MBU"]


# A server that ends, with status 0, before its own child does.
SERVER = """
import os, signal, subprocess, sys
busy = "import time; sum(range(10**7)); print('busy', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", busy])
signal.signal(signal.SIGTERM, lambda *_: (child.terminate(), os._exit(0)))
child.wait()
"""
STARTS_A_SERVER = """
import os, sys
from pathlib import Path
from benchmarks import machine, servers

servers.LOGS = Path(sys.argv[1])
with (servers.LOGS / "log").open("w") as log:
    server = servers.Server([sys.executable, "-c", sys.argv[2]], os.environ, log)
    while (servers.LOGS / "log").read_text() != "busy\\n":
        assert server.alive()
    before = machine.own_seconds()
    server.stop()
    print(before <= machine.own_seconds())
"""


def test_the_time_of_a_server_is_that_of_the_benchmark_once_it_has_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_A_SERVER, tmp_path, SERVER]
    assert subprocess.run(command, cwd=processes.ROOT, stdout=subprocess.PIPE, check=True).stdout == b"True\n"
