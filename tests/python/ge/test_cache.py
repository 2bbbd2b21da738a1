# SPDX-License-Identifier: Apache-2.0
"""Graphs of the graph engine that later processes use: ``torchair.inference.cache_compile``."""

from __future__ import annotations

import json
import os
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

import npugraph
import npugraph_ex
import torchair
from npugraph.counters import forget
from npugraph.options import parse
from npugraph.request import run_request
from npugraph.stored import container, programs
from tests.python.backend.checks import assert_same
from tests.python.forks import run_python

cache_compile, readable_cache = torchair.inference.cache_compile, torchair.inference.readable_cache


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    forget()
    with torch.no_grad():
        yield
    forget()


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.total = torch.nn.Buffer(torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.softmax(self.linear(x), -1) * 2)

    def several(self, x: torch.Tensor, steps: int = 3) -> dict[str, Any]:
        found = {"sum": x + steps, "same": x, "rows": x.shape[0], "twice": x.shape[0] * 2 + steps, "none": None}
        return {**found, "turned": (x * 2).t()}

    def adds(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        return self.total * 2

    def with_eager_part(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.det(x @ x.t()) + x.sum()


def later(model: Model, folder: Path, method: str = "forward", **arguments: Any) -> Any:
    """Returns the function as a later process gets it, in which nothing is compiled yet."""
    npugraph.reset()
    return cache_compile(getattr(model, method), cache_dir=folder, **arguments)


def compiles_and_hits() -> tuple[int, int]:
    counts = counters["npugraph_ex"]
    return counts["compiles"], counts["inference_cache_hits"]


@pytest.mark.feature("5.02", "5.10")
@pytest.mark.parametrize("ge_cache", [False, True])
def test_a_later_process_compiles_nothing(tmp_path, ge_cache) -> None:
    x = torch.randn(3, 8)
    for method in ("forward", "several", "adds"):
        for expected in ((1, 0), (0, 1)):
            model, eager = Model(), Model()
            function = later(model, tmp_path, method, ge_cache=ge_cache)
            for rows in (x, torch.randn(5, 8)):
                assert_same(function(rows), getattr(eager, method)(rows), exact=False)
            assert compiles_and_hits() == expected, method
            assert_same(model.total, eager.total, exact=False)
            word = "dynamic_gecache_" if ge_cache else "dynamic_"
            assert function.path.parts[-3].startswith(f"Model_{word}") and function.path.parts[-2] == method


SCRIPT = """
import json, sys, torch, torchair
from npugraph import _C
from model import Model

model, x = Model(), torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
with torch.no_grad():
    y = torchair.inference.cache_compile(model.forward, ge_cache=True)(x)
    close = torch.allclose(y, model(x), atol=1e-6)
imported = sorted({"torch._dynamo", "torch._inductor", "sympy", "google.protobuf"} & set(sys.modules))
print(json.dumps([close, imported, _C.process_counters()]))
"""
MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x)).softmax(-1)
"""


@pytest.mark.feature("5.02", "5.10", "12e.9")
def test_a_second_process_compiles_nothing_and_imports_no_compiler(tmp_path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"TORCHAIR_CACHE_HOME": str(tmp_path / "cache"), "NPUGRAPH_CACHE": str(tmp_path / "code")}
    found = []
    for _ in range(2):
        done = run_python("-c", SCRIPT, env=environment, cwd=tmp_path, check=True)
        close, imported, counts = json.loads(done.stdout)
        assert close
        kinds = ("compiles", "kernel_builds", "inference_cache_hits")
        found.append([bool(counts.get(kind)) for kind in kinds] + [bool(imported)])
    assert found == [[True, True, False, True], [False, False, True, False]]


@pytest.mark.feature("5.02")
def test_modes_of_npugraph_ex(tmp_path) -> None:
    x = torch.randn(3, 8)
    legacy = torchair.CompilerConfig()
    legacy.mode = "npugraph_ex"
    for arguments in (
        {"config": legacy},
        {"backend": "npugraph_ex"},
        {"backend": "npugraph_ex", "config": npugraph_ex.CompilerConfig()},
    ):
        function = later(Model(), tmp_path, **arguments)
        assert_same(function(x), Model()(x), exact=False)
        assert function.path.parts[-3].startswith("Model_dynamic_aclgraphcache_")


@pytest.mark.feature("5.02", "5.03")
def test_what_is_refused() -> None:
    of_ge, of_ex, eager = torchair.CompilerConfig(), npugraph_ex.CompilerConfig(), torchair.CompilerConfig()
    eager.debug.run_eagerly = True
    for message, arguments in (
        ("backend 'torchair' takes a CompilerConfig of that backend", {"config": of_ex}),
        ("backend 'npugraph_ex' takes a CompilerConfig of that", {"config": of_ge, "backend": "npugraph_ex"}),
        ("takes 'torchair' or 'npugraph_ex' as backend, got 'inductor'", {"backend": "inductor"}),
        ("takes ge_cache for graphs of the .* backend 'npugraph_ex' has none", {"backend": "npugraph_ex"}),
        ("takes ge_cache for graphs of the .* with debug.run_eagerly has none", {"config": eager}),
        ("takes True or False as ge_cache, got 1", {"ge_cache": 1}),
        ("takes a number of a rank, 0 or more, as tp_rank, got -1", {"tp_rank": -1}),
    ):
        with pytest.raises(ValueError, match=message):
            cache_compile(Model().forward, **{"ge_cache": True} | arguments)
    with pytest.raises(ValueError, match=r"a bound method of a torch.nn.Module, .* got Model.forward \(function\)"):
        cache_compile(Model.forward)


@pytest.mark.feature("5.03")
def test_a_graph_with_eager_parts_is_not_cached(tmp_path) -> None:
    x = torch.randn(3, 8)
    function = later(Model(), tmp_path, "with_eager_part")
    with pytest.warns(UserWarning, match="with_eager_part is compiled, but not cached for later processes: .* eager"):
        assert_same(function(x), Model().with_eager_part(x), exact=False)
    assert not function.path.exists()


@pytest.mark.feature("5.04")
def test_the_key_holds_options_and_decompositions(tmp_path) -> None:
    def path(**arguments: Any) -> Path:
        return cache_compile(Model().forward, cache_dir=tmp_path, **arguments).path

    def relu(x: torch.Tensor) -> torch.Tensor:
        return x.clamp(min=0)

    option = torchair.CompilerConfig()
    option.debug.missing_converters = "error"
    paths = [path(), path(dynamic=False), path(ge_cache=True), path(config=option)]
    paths += [path(custom_decompositions={torch.ops.aten.relu.default: relu}), path(global_rank=1)]
    assert len(set(paths)) == len(paths)
    assert path() == paths[0]


@pytest.fixture
def written(tmp_path) -> tuple[Path, torch.Tensor]:
    """Returns the path of a cache file with one graph, and the input of that graph."""
    x = torch.randn(3, 8)
    function = later(Model(), tmp_path, ge_cache=True)
    function(x)
    return function.path, x


@pytest.mark.feature("5.05", "5.10", "11.17")
@pytest.mark.parametrize("damage", ["truncated", "foreign", "of another mode", "changed"])
def test_a_file_that_does_not_fit_is_made_anew(written, tmp_path, damage) -> None:
    path, x = written
    data = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(data[:1000])
        reason = f"it is damaged: 1000 bytes where there should be {len(data)}"
    elif damage == "foreign":
        path.write_bytes(b"\x80\x04\x95" + bytes(1000))
        reason = "it holds no compiled graphs of npugraph"
    elif damage == "of another mode":
        content = container.read(path)
        container.write(path, content.meta | {"build": "00"}, content.entries)
        reason = "it was made with build 00, and this is"
    else:
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        reason = "it is damaged: the checksum does not match"
    function = later(Model(), tmp_path, ge_cache=True)
    with pytest.warns(UserWarning, match=f"the cache {path} is not used: {reason}"):
        assert_same(function(x), Model()(x), exact=False)
    assert compiles_and_hits() == (1, 0)
    assert_same(later(Model(), tmp_path, ge_cache=True)(x), Model()(x), exact=False)
    assert compiles_and_hits() == (0, 1)


@pytest.mark.feature("5.05", "5.10", "11.17")
@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.long)])
def test_mutated_files_are_refused_by_name(written, count) -> None:
    """A file is refused if bytes of it are others, and so is a Program in it, even if the file around it is right."""
    path, _ = written
    data, content = path.read_bytes(), container.read(path)
    program = content.entries[0].program
    options = run_request(parse(None))
    draw = random.Random(0)
    for index in range(count):
        with pytest.raises(container.Unusable):
            container.unpack(_mutated(data, draw))
        if index % 20 == 0:
            with pytest.raises(ValueError, match="cannot load a Program"):
                programs.load(_mutated(program, draw), options)


def _mutated(data: bytes, draw: random.Random) -> bytes:
    """Returns other bytes: some are changed, or a piece is cut out, doubled, or moved to the end."""
    kind, changed = draw.randrange(4), bytearray(data)
    begin = draw.randrange(len(data) - 1)
    end = begin + 1 + draw.randrange(min(64, len(data) - begin - 1))
    if kind == 0:
        for at in range(begin, end):
            changed[at] ^= draw.randrange(1, 256)
        return bytes(changed)
    piece, rest = data[begin:end], data[:begin] + data[end:]
    moved = {1: rest, 2: data[:end] + piece + data[end:], 3: rest + piece}[kind]
    return moved if moved != data else rest


@pytest.mark.feature("5.05", "5.10", "11.17")
@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.long)])
def test_a_file_with_another_description_gives_a_result(written, tmp_path, count) -> None:
    """The checksum of such a file is right, so that only its own texts are wrong: the graph is used, or another one is
    compiled."""
    path, x = written
    content = container.read(path)
    record = content.entries[0].record
    draw = random.Random(0)
    for _ in range(count):
        name = draw.choice([name for name in record if name != "result"])  # it says what the results are
        changed = _changed(record[name], draw)
        container.write(path, content.meta, [container.Entry(record | {name: changed}, content.entries[0].program)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(later(Model(), tmp_path, ge_cache=True)(x), Model()(x), exact=False)


def _changed(value: Any, draw: random.Random) -> Any:
    """Returns a value of JSON that differs from ``value`` in one place."""
    if isinstance(value, (list, dict)) and value and draw.randrange(4):
        made = value.copy()
        place = draw.choice(list(made) if isinstance(made, dict) else range(len(made)))
        made[place] = _changed(made[place], draw)
        return made
    return draw.choice([None, 1, -1, 2**70, "", "L", "L['x']", "L['self'].none", [], [1], {}, {"L": 1}, True])


@pytest.mark.feature("5.09")
def test_readable_cache(written, capsys) -> None:
    text = readable_cache(written[0])
    assert capsys.readouterr().out == f"{text}\n"
    for part in ("# name: Model.forward", "softmax", "L['x']", "class GraphModule", "task"):
        assert part in text
