# SPDX-License-Identifier: Apache-2.0
"""Every option, on graphs that the process did not compile: loaded Programs, and graphs from a cache. An option of
running acts on them. An option of compiling is refused when a Program is loaded. In a cache it is part of the key, or
it keeps the graph out of the cache."""

from __future__ import annotations

import concurrent.futures
import functools
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch._dynamo.utils import counters

import npugraph
import npugraph_ex
from npugraph.options import OPTIONS, parse
from npugraph.request import RUN_OPTIONS, run_request

Run = Callable[[torch.Tensor], torch.Tensor]

_meeting = threading.Barrier(2)


@torch.library.custom_op("test_requests::meet", mutates_args=())
def meet(x: torch.Tensor) -> torch.Tensor:
    """Returns ``x + 1``, or ``x + 2`` if ``x`` has 12 elements and two calls meet here."""
    if x.numel() != 12:
        return x + 1
    try:
        _meeting.wait(0.2)
    except threading.BrokenBarrierError:
        return x + 1
    return x + 2


meet.register_fake(torch.empty_like)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.test_requests.meet(x) * self.w + x.sum()


def rows(count: int, value: float = 0.0) -> torch.Tensor:
    return torch.full((count, 4), value)


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


# --- what each option does ------------------------------------------------------------------------------------------


def modes(run: Run, model: Model) -> list[str]:
    """Returns the modes of calls with 5, 6 and 5 rows."""
    seen = []
    for count in (5, 6, 5):
        with npugraph.task_log() as log:
            run(rows(count))
        seen += sorted({record.mode for record in log})
    return seen


def modes_and_warnings(run: Run, model: Model) -> tuple[list[str], int]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", npugraph.NpugraphWarning)
        seen = modes(run, model)
    return seen, sum("capture_limit=1" in str(warning.message) for warning in caught)


def static_kernels(run: Run, model: Model) -> list[int]:
    """Returns the numbers of static kernels that are made for 5, 6 and 7 rows."""
    made = []
    for count in (5, 6, 7):
        before = npugraph._C.process_counters().get("static_kernels", 0)
        run(rows(count))
        made.append(npugraph._C.process_counters().get("static_kernels", 0) - before)
    return made


def result_is_overwritten(run: Run, model: Model) -> bool:
    first = run(rows(5))
    run(rows(5, 1.0))
    return bool(first.sum() != 40)


def result_is_overwritten_by_other_sizes(run: Run, model: Model) -> bool:
    first = run(rows(6))
    run(rows(5, 1.0))
    return bool(first.sum() != 48)


def input_is_overwritten(run: Run, model: Model) -> bool:
    first = rows(5)
    run(first)
    run(rows(5, 1.0))
    return first.sum().item() == 20


def input_is_copied(run: Run, model: Model) -> bool:
    run(rows(5))
    with npugraph.task_log() as log:
        run(rows(5))
    return any(record.name == "stage_inputs" for record in log)


def parameter_is_frozen(run: Run, model: Model) -> bool:
    old = model.w.data
    run(rows(5))
    model.w.data = torch.zeros(4)
    frozen = run(rows(5)).sum().item() == 40
    model.w.data = old
    return frozen


def calls_meet(run: Run, model: Model) -> bool:
    _meeting.reset()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = pool.map(torch.no_grad()(run), [rows(3), rows(3)])
        return all(result.sum().item() == 48 for result in results)


def pool_of_the_user(run: Run, model: Model) -> bool:
    run(rows(5))
    return any("pool (0, 7)" in pool.name for pool in npugraph.pools())


class Effect(NamedTuple):
    """``look`` returns ``seen`` with ``options``, and ``by_default`` without them."""

    options: dict[str, Any]
    look: Callable[[Run, Model], Any]
    seen: Any
    by_default: Any


REPLAYS = ["capture", "capture", "replay"]
STATIC = {"static_kernel_compile": True}
EFFECTS = {
    "force_eager": Effect({"force_eager": True}, modes, ["eager"] * 3, REPLAYS),
    "max_instances": Effect({"max_instances": 1}, modes, ["capture"] * 3, REPLAYS),
    "max_concurrent": Effect({"max_concurrent": 1}, calls_meet, False, True),
    "force_recapture": Effect({"force_recapture": True}, modes, ["capture"] * 3, REPLAYS),
    "frozen_parameter": Effect({"frozen_parameter": True}, parameter_is_frozen, True, False),
    "static_kernel_compile": Effect(STATIC, static_kernels, [1, 1, 1], [0, 0, 0]),
    "_vllm_aclnn_static_kernel_sym_range": Effect(
        STATIC | {"_vllm_aclnn_static_kernel_sym_range": [6]}, static_kernels, [0, 1, 0], [0, 0, 0]
    ),
    "_vllm_aclnn_static_kernel_sym_index": Effect(
        STATIC | {"_vllm_aclnn_static_kernel_sym_range": [6], "_vllm_aclnn_static_kernel_sym_index": 3},
        static_kernels,
        [0, 0, 0],
        [0, 0, 0],
    ),
    "use_graph_pool": Effect({"use_graph_pool": (0, 7)}, pool_of_the_user, True, False),
    "reuse_graph_pool_in_same_fx": Effect(
        {"reuse_graph_pool_in_same_fx": True, "clone_output": False}, result_is_overwritten_by_other_sizes, True, False
    ),
    "capture_limit": Effect({"capture_limit": 1}, modes_and_warnings, (["capture", "eager", "eager"], 1), (REPLAYS, 0)),
    "clone_input": Effect({"clone_input": False}, input_is_overwritten, True, False),
    "clone_output": Effect({"clone_output": False}, result_is_overwritten, True, False),
}
# Options that have tests of their own.
ELSEWHERE = {
    "capture_error_mode": "tests/python/device/compiled/test_npu_inference_cache.py",
    "disable_static_kernel_compile_cache": "test_code_on_disk, below",
}
EFFECTS |= {"clone_input=True": Effect({"clone_input": True}, input_is_copied, True, False)}


def no_change(gm: Any, example_inputs: Any, config: Any) -> None:
    pass


OF_COMPILES = {
    "name": "mine",
    "remove_noop_ops": False,
    "remove_cat_ops": False,
    "inplace_pass": False,
    "input_inplace_pass": False,
    "pattern_fusion_pass": False,
    "post_grad_custom_pre_pass": no_change,
    "post_grad_custom_post_pass": no_change,
    "disable_passes": ["cse"],
    "generate_code": False,
    "horizontal_fusion": False,
    "release_original_weights": True,
    "dump_tensor_data": True,
    "data_dump_stage": "original",
    "data_dump_dir": "/",
    "deadlock_check": True,
    "super_kernel_optimize": True,
    "super_kernel_optimize_options": {"strict-scope-check": "abort"},
    "super_kernel_debug_options": {"debug-aic-num": 1},
    "verify": True,
}


# --- the table ------------------------------------------------------------------------------------------------------


class Files(NamedTuple):
    """The files of the model, compiled without any option."""

    program: Path
    cache: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder, model = tmp_path_factory.mktemp("files"), Model()
    function = npugraph_ex.inference.cache_compile(model.forward, cache_dir=folder)
    with torch.no_grad():
        function(rows(8))
    npugraph.artifacts()[-1].save(folder / "program")
    return Files(folder / "program", function.path)


def loaded(model: Model, options: dict[str, Any], files: Files, folder: Path) -> Run:
    run = npugraph.load(files.program, model, options=options)
    return lambda x: run(x)[0]


def cached(model: Model, options: dict[str, Any], files: Files, folder: Path) -> Run:
    run = npugraph_ex.inference.cache_compile(model.forward, cache_dir=folder, options=options)
    run.path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(files.cache, run.path)
    return run


def test_the_table_has_every_option() -> None:
    names = {option.name for option in OPTIONS}
    assert {name.partition("=")[0] for name in EFFECTS} | set(ELSEWHERE) == set(RUN_OPTIONS)
    assert set(OF_COMPILES) == names - set(RUN_OPTIONS) - {"mode"}


@pytest.mark.feature("1.02", "1.03", "1.04", "1.05", "1.06", "1.07", "1.08", "1.10", "1.16", "1.17", "5.01")
@pytest.mark.parametrize("make", [loaded, cached])
@pytest.mark.parametrize("effect", EFFECTS.values(), ids=EFFECTS.keys())
def test_options_of_running_act_on_graphs_from_files(effect, make, files, tmp_path) -> None:
    for options, seen in (({}, effect.by_default), (effect.options, effect.seen)):
        npugraph.reset()
        model = Model()
        assert effect.look(make(model, options, files, tmp_path), model) == seen
    assert counters["npugraph_ex"]["compiles"] == 0


@pytest.mark.feature("3.13", "12b.6")
def test_graphs_from_files_have_labels_and_counters(files) -> None:
    run, graphs = loaded(Model(), {}, files, files.cache), f"captured_{npugraph.load(files.program).name}"
    before = counters["npugraph_ex"][graphs]
    with torch.profiler.profile() as profile:
        run(rows(5))
        run(rows(6))
    assert "npu_fx_compiler inference" in {event.name for event in profile.events()}
    assert counters["npugraph_ex"][graphs] - before == 2


def test_where_code_of_static_kernels_is_kept() -> None:
    for off in (False, True):
        options = run_request(parse({"disable_static_kernel_compile_cache": off}))
        assert options.static_kernels.on_disk == (not off)


@pytest.mark.parametrize("name", OF_COMPILES)
def test_options_of_compiles_are_refused_by_load(name, files) -> None:
    with pytest.raises(ValueError) as caught:
        npugraph.load(files.program, options={name: OF_COMPILES[name]})
    assert str(caught.value) == (
        f"option {name!r} of backend 'npugraph_ex' acts when a graph is compiled, and this one was before; "
        f"a loaded Program takes: {', '.join(RUN_OPTIONS)}"
    )


def test_wrong_options_are_refused_by_load(files) -> None:
    with pytest.raises(ValueError, match="unknown option 'force_eagr'"):
        npugraph.load(files.program, options={"force_eagr": True})
    with pytest.raises(ValueError, match="option 'max_instances' of backend 'npugraph_ex' takes an int from 1"):
        npugraph.load(files.program, options={"max_instances": 0})
    npugraph.load(files.program, options={"mode": "npugraph_ex"})


@pytest.mark.feature("5.04")
def test_options_are_part_of_the_key_of_a_cache(tmp_path) -> None:
    """The exception is the handle of a pool, which is a number that only one process knows."""
    model, paths = Model(), {}
    settings = [{}, *({name: value} for name, value in OF_COMPILES.items())]
    settings += [effect.options for effect in EFFECTS.values()]
    for options in settings:
        function = npugraph_ex.inference.cache_compile(model.forward, cache_dir=tmp_path, options=options)
        paths.setdefault(function.path, []).append(options)
    assert [same for same in paths.values() if len(same) > 1] == [[{}, {"use_graph_pool": (0, 7)}]]


class Pass:
    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, gm: Any, example_inputs: Any, config: Any) -> None:
        pass


def pass_that_closes_over(number: int) -> Callable[..., None]:
    return lambda gm, example_inputs, config: print(number)


def other_pass(number: int, gm: Any, example_inputs: Any, config: Any) -> None:
    pass


@pytest.mark.feature("5.04")
@pytest.mark.parametrize("make_pass", [Pass, pass_that_closes_over, functools.partial(functools.partial, other_pass)])
def test_what_a_custom_pass_holds_is_part_of_the_key(make_pass, tmp_path) -> None:
    paths = [
        npugraph_ex.inference.cache_compile(
            Model().forward, cache_dir=tmp_path, options={"post_grad_custom_post_pass": make_pass(number)}
        ).path
        for number in (1, 2, 1)
    ]
    assert paths[0] == paths[2] != paths[1]


@pytest.mark.feature("5.03", "1.19", "1.20")
@pytest.mark.parametrize("name", ["release_original_weights", "deadlock_check", "dump_tensor_data"])
def test_options_that_keep_graphs_out_of_the_cache(name, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    model = torch.nn.Linear(4, 4)
    function = npugraph_ex.inference.cache_compile(model.forward, cache_dir=tmp_path, options={name: True})
    with torch.autocast("cpu", torch.bfloat16):
        want = model(rows(3, 1.0))
        with pytest.warns(
            UserWarning, match=f"Linear.forward is compiled, but not cached for later processes: option '{name}'"
        ):
            torch.testing.assert_close(function(rows(3, 1.0)), want)
    assert not function.path.exists()
    acts = {
        "release_original_weights": lambda: any(a.released_weights for a in npugraph.artifacts()),
        "deadlock_check": lambda: "No deadlock risks detected" in capsys.readouterr().out,
        "dump_tensor_data": lambda: list(tmp_path.glob("worldsize1_global_rank0/*.pt")),
    }
    assert acts[name]()


@pytest.mark.feature("1.10")
def test_a_cached_function_forgets_frozen_parameters(tmp_path) -> None:
    for _ in range(2):
        npugraph.reset()
        model = Model()
        function = npugraph_ex.inference.cache_compile(
            model.forward, cache_dir=tmp_path, options={"frozen_parameter": True}
        )
        assert parameter_is_frozen(function, model)
        model.w.data = torch.zeros(4)
        function.refresh()
        assert function(rows(5)).sum() == 0
