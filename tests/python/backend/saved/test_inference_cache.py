# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs that later processes use: ``npugraph_ex.inference.cache_compile``, within one process."""

from __future__ import annotations

import errno
import marshal
import os
import pickle
import platform
import re
import stat
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch._dynamo.utils import counters

import npugraph
import npugraph_ex
from npugraph.counters import forget
from npugraph.inference import plain_values
from npugraph.inference.conditions import Condition
from npugraph.inference.difference import difference
from npugraph.stored import container
from tests.python.backend.checks import assert_same

cache_compile, readable_cache = npugraph_ex.inference.cache_compile, npugraph_ex.inference.readable_cache


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    forget()  # torch._dynamo.reset() resets only backends that Dynamo has called
    with torch.no_grad():
        yield
    forget()


class Result(NamedTuple):
    rows: int
    values: torch.Tensor


class Cache:
    def __init__(self) -> None:
        self.keys = torch.zeros(6, 8)
        self.at = torch.zeros((), dtype=torch.int64)
        self.grown = torch.zeros(2, 8)


class Model(torch.nn.Module):
    def __init__(self, factor: float = 0.5) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)
        self.factor = factor
        self.settings = {"sign": 1}

    def forward(self, x: torch.Tensor, scale: float = 2.0, *, mask: torch.Tensor | None = None) -> dict[str, Any]:
        y = self.changed(self.linear(x).relu() * scale * self.factor * self.settings["sign"] + OFFSET)
        return {"y": y if mask is None else y * mask, "rows": x.shape[0], "pair": (y.sum(), None)}

    def changed(self, y: torch.Tensor) -> torch.Tensor:
        return y

    def pieces(self, inputs: dict[str, torch.Tensor], *more: torch.Tensor) -> Result:
        return Result(inputs["a"].shape[0], inputs["a"] + sum(more))

    def step(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
        cache.keys.index_copy_(0, cache.at[None], x[None])
        cache.at.add_(1)
        cache.grown = torch.cat([cache.grown, x[None]])
        return self.linear(cache.keys.sum(0)) + cache.grown.sum(0)

    @torch.no_grad()
    def decorated(model, x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
        return model.linear(x) * factor

    def of_another(self, other: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return other(x) + 1

    def many(self, x: torch.Tensor) -> dict[str, Any]:
        return {f"x{i}": i for i in range(300)} | {"x": x + 1}

    def writes(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return a + b

    def drops(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(self.linear(x), 0.5)

    def sets_a_global(self, x: torch.Tensor) -> torch.Tensor:
        global OFFSET
        OFFSET = 3.0
        return x + 1

    def makes_a_function(self, x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return x + 1, lambda: 1

    def branches(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond((x.sum() > 0).float(), lambda t: t.sin(), lambda t: t.cos(), (x,)) + 1


OFFSET = 0.0


def cached(model: Model, folder: Path, method: str = "forward", **arguments: Any) -> Any:
    return cache_compile(getattr(model, method), cache_dir=folder, **arguments)


def later(model: Model, folder: Path, method: str = "forward", **arguments: Any) -> Any:
    """Returns the function as a later process gets it, in which nothing is compiled yet."""
    npugraph.reset()
    return cached(model, folder, method, **arguments)


def assert_not_compiled() -> None:
    counts = counters["npugraph_ex"]
    assert counts["compiles"] == 0
    assert counts["inference_cache_hits"] >= 1


@pytest.mark.feature("5.01", "12e.9")
def test_a_later_process_compiles_nothing(tmp_path) -> None:
    model = Model()
    first = cached(model, tmp_path)
    for rows in (3, 5):
        x = torch.randn(rows, 8)
        assert_same(first(x), model(x), exact=False)
    assert counters["npugraph_ex"]["compiles"] == 1
    second = later(Model(), tmp_path)
    for rows in (4, 7):
        x = torch.randn(rows, 8)
        assert_same(second(x), model(x), exact=False)
    assert_not_compiled()


@pytest.mark.feature("5.01")
def test_arguments_and_results_of_all_kinds(tmp_path) -> None:
    model = Model()
    a, b, c = torch.randn(3, 8), torch.randn(3, 8), torch.randn(8)
    for make in (cached, later):
        function = make(model, tmp_path, "pieces")
        result = function({"a": a}, b, c)
        assert type(result) is Result
        assert_same(result, model.pieces({"a": a}, b, c))
    assert_not_compiled()
    with pytest.raises(TypeError, match="missing a required argument: 'inputs'"):
        function()


@pytest.mark.feature("5.01")
def test_written_inputs_that_overlap_others(tmp_path) -> None:
    model, base = Model(), torch.arange(8.0)
    for make in (cached, later):
        function = make(model, tmp_path, "writes")
        assert_same(function(torch.ones(6), torch.ones(6)), torch.full((6,), 3.0))
        ours, eagers = base.clone(), base.clone()
        assert_same(function(ours[:6], ours[2:]), model.writes(eagers[:6], eagers[2:]))
        assert_same(ours, eagers)
    assert_not_compiled()


@pytest.mark.feature("5.01")
def test_inside_of_another_compiled_function(tmp_path) -> None:
    model, x = Model(), torch.randn(3, 8)
    function = cached(model, tmp_path)
    outer = torch.compile(lambda x: function(x)["y"] + 1, backend="npugraph_ex")
    with warnings.catch_warnings():
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        for _ in range(2):
            assert_same(outer(x), model(x)["y"] + 1, exact=False)
    assert function.path.exists()


@pytest.mark.feature("5.01")
def test_more_names_than_one_byte_counts(tmp_path) -> None:
    model, x = Model(), torch.randn(3)
    for make in (cached, later):
        assert_same(make(model, tmp_path, "many")(x), model.many(x))
    assert_not_compiled()


@pytest.mark.feature("5.01", "5.03")
def test_a_decorated_method(tmp_path) -> None:
    model, x = Model(), torch.randn(3, 8)
    for make in (cached, later):
        function = make(model, tmp_path, "decorated")
        assert_same(function(x, factor=3.0), model.decorated(x, 3.0), exact=False)
    assert_not_compiled()


@pytest.mark.feature("5.03")
def test_weights_of_a_module_that_is_an_argument_are_not_cached(tmp_path) -> None:
    model, other, x = Model(), torch.nn.Linear(8, 8), torch.randn(3, 8)
    function = cached(model, tmp_path, "of_another")
    with pytest.warns(UserWarning, match="not cached for later processes: weights are of the argument other"):
        assert_same(function(other, x), other(x) + 1, exact=False)


@pytest.mark.feature("5.01")
def test_inputs_that_are_written_and_attributes_that_are_set(tmp_path) -> None:
    model = Model()
    for make in (cached, later):
        step = make(model, tmp_path, "step")
        ours, eagers = Cache(), Cache()
        for seed in range(4):
            x = torch.randn(8, generator=torch.Generator().manual_seed(seed))
            assert_same(step(x, ours), model.step(x, eagers), exact=False)
            assert_same(vars(ours), vars(eagers), exact=False)
    assert_not_compiled()


@pytest.mark.feature("5.01", "5.04")
def test_options_as_a_configuration(tmp_path) -> None:
    model, x = Model(), torch.randn(3, 8)
    config = npugraph_ex.CompilerConfig()
    config.force_eager = True
    with_options = cache_compile(model.forward, options={"force_eager": True}, cache_dir=str(tmp_path))
    with_config = cache_compile(model.forward, config=config, cache_dir=str(tmp_path))
    assert_same(with_config(x), with_options(x))
    assert len(list(tmp_path.rglob("compiled_module"))) == 1
    with pytest.raises(ValueError, match="takes options or config, not both"):
        cache_compile(model.forward, options={}, config=config)
    with pytest.raises(TypeError, match=r"config is a CompilerConfig, got \{\} \(dict\)"):
        cache_compile(model.forward, config={})


def test_determinism_needs_the_npu_device() -> None:
    missing = r"scope\.deterministic is for the npu device, and torch_npu is not installed"
    with pytest.raises(RuntimeError, match=missing), npugraph_ex.scope.deterministic(1):
        pass


def test_custom_decompositions(tmp_path) -> None:
    def relu(x: torch.Tensor) -> torch.Tensor:
        return x.clamp(min=0.25)

    model, x = Model(), torch.randn(3, 8)
    want = (model.linear(x).clamp(min=0.25) * 2.0 * model.factor).sum()
    decompositions = {torch.ops.aten.relu.default: relu}
    for make in (cached, later):
        function = make(model, tmp_path, custom_decompositions=decompositions)
        assert_same(function(x)["pair"][0], want, exact=False)
    assert_not_compiled()
    assert function.path != cached(model, tmp_path).path


@pytest.mark.feature("5.06", "12b.10")
def test_other_arguments_compile_again_and_join_the_cache(tmp_path) -> None:
    model = Model()
    calls = [
        ((torch.randn(3, 8),), {}),
        ((torch.randn(3, 8, dtype=torch.float64),), {}),
        ((torch.randn(3, 8), 3.0), {}),
        ((torch.randn(3, 8),), {"mask": torch.ones(8)}),
        ((torch.randn(1, 8),), {}),
    ]
    last_was_other_in = [
        "",
        "dtype of L['x'] is torch.float64, and was torch.float32",
        "dtype of L['x'] is torch.float32, and was torch.float64",
        "constant of L['mask'] is that of a Tensor, and was ['NoneType', 'None']",
        "L['mask'] is a NoneType, and was a tensor",
    ]
    first = cached(model, tmp_path)
    for i, (args, kwargs) in enumerate(calls):
        model.to(args[0].dtype)
        if i == 0:
            first(*args, **kwargs)
            continue
        again = rf"Model.forward is compiled again: none of the {i} graph.*{re.escape(last_was_other_in[i])}"
        with pytest.warns(UserWarning, match=again):
            assert_same(first(*args, **kwargs), model(*args, **kwargs), exact=False)
    second = later(model, tmp_path)
    for args, kwargs in calls:
        model.to(args[0].dtype)
        assert_same(second(*args, **kwargs), model(*args, **kwargs), exact=False)
    assert_not_compiled()


class Odd(Exception):
    pass


class Refuses:
    @property
    def size(self) -> int:
        raise Odd("not now")


DENSE = plain_values.of_tensor(torch.ones(2, 2), [2, None], [None, 1])


@pytest.mark.parametrize(
    ("condition", "x", "said"),
    [
        (Condition("has", "L['x']", True, "shape"), 3, "attribute 'shape' of L['x'] is False, and was True"),
        (Condition("constant", "L['x']", ["int", "3"]), list(range(99)), "constant of L['x'] is ['list', "),
        (Condition("constant", "L['x'].size", ["int", "3"]), Refuses(), "a condition cannot be looked at: Odd: not"),
        (Condition("holds", "2 % L['x'] == 0", True), 0, "2 % L['x'] == 0 does not hold"),
        (Condition("tensor", "L['x']", DENSE), torch.ones(3, 2), "sizes of L['x'] is [3, 2], and was [2, 'any']"),
        (Condition("tensor", "L['x']", DENSE), torch.eye(2).to_sparse_csr(), "layout of L['x'] is torch.sparse_csr,"),
        (Condition("constant", "L['x']", ["int", "3"]), 3, "settings of torch (grad mode, autocast, "),
    ],
)
def test_what_differs_is_said(condition: Condition, x: object, said: str) -> None:
    assert difference([condition], {"x": x}, {}).startswith(said)


def set_factor(model: Model, patch: pytest.MonkeyPatch) -> None:
    model.factor = 4.0


def set_global(model: Model, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys.modules[__name__], "OFFSET", 1.0)


def set_method(model: Model, patch: pytest.MonkeyPatch) -> None:
    model.changed = lambda y: y + 3


def set_item(model: Model, patch: pytest.MonkeyPatch) -> None:
    model.settings["sign"] = -1


def set_module(model: Model, patch: pytest.MonkeyPatch) -> None:
    model.linear = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())


def set_hook(model: Model, patch: pytest.MonkeyPatch) -> None:
    model.linear.register_forward_hook(lambda module, args, output: output + 1)


def set_class(model: Model, patch: pytest.MonkeyPatch) -> None:
    class Doubling(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * 2

    model.linear.__class__ = Doubling


@pytest.mark.feature("5.03", "5.06", "12b.10")
@pytest.mark.each_value
@pytest.mark.parametrize("change", [set_factor, set_global, set_method, set_item, set_module, set_hook, set_class])
@pytest.mark.parametrize("before_load", [False, True])
def test_a_model_that_was_changed_is_not_served_stale(tmp_path, monkeypatch, change, before_load) -> None:
    x = torch.randn(3, 8)
    cached(Model(), tmp_path)(x)
    model = Model()
    function = later(model, tmp_path)
    if not before_load:
        assert_same(function(x), model(x), exact=False)
        assert_not_compiled()
    change(model, monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        # ``repr(model)`` is part of the key of the file, so a model of another structure has another file.
        assert_same(function(x), model(x), exact=False)
    assert counters["npugraph_ex"]["compiles"] == 1


@pytest.mark.feature("12b.10")
def test_a_method_that_was_replaced_in_its_class_is_not_served_stale(tmp_path, monkeypatch) -> None:
    x = torch.randn(3, 8)
    cached(Model(), tmp_path)(x)
    monkeypatch.setattr(Model, "changed", lambda self, y: y + 3)
    model = Model()
    assert_same(later(model, tmp_path)(x), model(x), exact=False)
    assert counters["npugraph_ex"]["compiles"] == 1


@pytest.mark.feature("5.03")
def test_weights_may_be_others(tmp_path) -> None:
    x = torch.randn(3, 8)
    cached(Model(), tmp_path)(x)
    model = Model()
    function = later(model, tmp_path)
    for _ in range(2):
        assert_same(function(x), model(x), exact=False)
        model.linear.weight.mul_(2)
        model.linear.bias = torch.nn.Parameter(torch.randn(8))
    assert_same(function(x), model(x), exact=False)
    assert_not_compiled()


@pytest.mark.feature("5.03", "11.17")
def test_what_cannot_be_cached(tmp_path) -> None:
    model, x = Model(), torch.randn(3, 8)
    message = r"cache_compile takes a bound method of a torch.nn.Module, such as model.forward, got "
    for wrong, name in (
        (model, r"Model\("),
        (torch.relu, "relu"),
        (lambda x: x, "<lambda>"),
        (threading.Event().wait, "Event.wait"),
    ):
        with pytest.raises(ValueError, match=message + f".*{name}"):
            cache_compile(wrong)
    with pytest.raises(ValueError, match="takes a number of a rank, 0 or more, as tp_rank, got -1"):
        cache_compile(model.forward, tp_rank=-1)
    with pytest.raises(ValueError, match="takes True or False as dynamic, got None"):
        cache_compile(model.forward, dynamic=None)
    with pytest.raises(ValueError, match="unknown option 'typo'"):
        cache_compile(model.forward, options={"typo": 1})
    with pytest.raises(AssertionError, match=r"takes no random operators, but Model.drops calls aten\.\w+"):
        cached(model, tmp_path, "drops")(x)


@pytest.mark.feature("5.03")
def test_calls_with_gradients_on_run_without_them(tmp_path) -> None:
    """They use the graphs of calls with gradients off."""
    model, x = Model(), torch.randn(3, 8, requires_grad=True)
    function = cached(model, tmp_path)
    with torch.enable_grad():
        got = function(x)
        assert torch.is_grad_enabled()
    assert not got["y"].requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        got["pair"][0].backward()
    with torch.no_grad():
        assert_same(function(x), got)
        assert_same(got, model(x), exact=False)
    with torch.enable_grad():
        assert_same(later(Model(), tmp_path)(x), got)
    assert_not_compiled()


@pytest.mark.feature("5.03")
def test_what_needs_python_runs_uncached(tmp_path) -> None:
    model, x = Model(), torch.randn(3)
    function = cached(model, tmp_path, "branches")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert_same(function(x), model.branches(x), exact=False)
    texts = [str(w.message) for w in caught if "not cached" in str(w.message)]
    assert len(texts) == 1
    assert texts[0].startswith("Model.branches is compiled, but not cached for later processes: ")
    assert caught[0].filename
    assert not function.path.exists()


def run_uncached(folder: Path, method: str, x: torch.Tensor) -> Any:
    with pytest.warns(UserWarning, match=f"Model.{method} is compiled, but not cached for later processes: "):
        return cached(Model(), folder, method)(x)


@pytest.mark.feature("5.03")
def test_a_method_that_sets_a_global_variable_runs_uncached(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "OFFSET", OFFSET)
    x = torch.randn(3)
    assert_same(run_uncached(tmp_path, "sets_a_global", x), x + 1)
    assert OFFSET == 3.0


@pytest.mark.feature("5.03")
def test_a_method_that_makes_a_function_runs_uncached(tmp_path) -> None:
    x = torch.randn(3)
    got, function = run_uncached(tmp_path, "makes_a_function", x)
    assert_same(got, x + 1)
    assert function() == 1


@pytest.mark.feature("5.04", "5.03")
def test_where_files_are(tmp_path, monkeypatch) -> None:
    model = Model()
    paths = {
        name: cache_compile(getattr(model, method), cache_dir=tmp_path, **arguments).path.relative_to(tmp_path)
        for name, method, arguments in (
            ("plain", "forward", {}),
            ("static", "forward", {"dynamic": False}),
            ("step", "step", {}),
            ("option", "forward", {"options": {"inplace_pass": False}}),
            ("pass", "forward", {"options": {"post_grad_custom_post_pass": lambda gm, inputs, config: None}}),
            (
                "edited pass",
                "forward",
                {"options": {"post_grad_custom_post_pass": lambda gm, inputs, config: gm and None}},
            ),
            ("ranks", "forward", {"global_rank": 2, "tp_rank": 1, "pp_rank": 0}),
        )
    }
    assert len({path.parent for path in paths.values()}) == len(paths)
    folder, function, file = paths["plain"].parts
    assert folder.startswith("Model_dynamic_aclgraphcache_")
    assert (function, file) == ("forward", "compiled_module")
    assert paths["static"].parts[0].startswith("Model_static_aclgraphcache_")
    assert paths["step"] == Path(folder, "step", file)
    assert paths["option"].parts[0] != folder
    assert paths["ranks"] == Path(folder, "world1global_rank2_tp_rank1_pp_rank0", "forward", file)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        rank_folder = cache_compile(model.forward, cache_dir=tmp_path).path.parent.parent
    finally:
        torch.distributed.destroy_process_group()
    assert rank_folder == tmp_path / folder / "world1global_rank0"
    monkeypatch.chdir(tmp_path)
    assert cache_compile(model.forward).path == tmp_path / ".torchair_cache" / paths["plain"]
    monkeypatch.setenv("TORCHAIR_CACHE_HOME", str(tmp_path / "home"))
    assert cache_compile(model.forward).path == tmp_path / "home" / paths["plain"]


@pytest.mark.feature("5.03", "1.24")
def test_sizes_that_are_marked_as_fixed(tmp_path) -> None:
    model, x = Model(), torch.randn(3, 8)
    torch._dynamo.mark_static(x, 0)
    cached(model, tmp_path)(x)
    function = later(model, tmp_path)
    assert function(torch.randn(3, 8))["rows"] == 3
    assert_not_compiled()
    with pytest.warns(UserWarning, match="compiled again"):
        assert function(torch.randn(4, 8))["rows"] == 4


@pytest.fixture
def written(tmp_path) -> tuple[Path, torch.Tensor]:
    """Returns the path of a cache file with one graph, and the input of that graph."""
    x = torch.randn(3, 8)
    function = cached(Model(), tmp_path)
    function(x)
    return function.path, x


def assert_made_anew(path: Path, x: torch.Tensor, folder: Path, reason: str) -> None:
    model = Model()
    function = later(model, folder)
    with pytest.warns(UserWarning, match=rf"the cache {path} is not used: {reason}"):
        assert_same(function(x), model(x), exact=False)
    assert counters["npugraph_ex"]["compiles"] == 1
    assert_same(later(model, folder)(x), model(x), exact=False)
    assert_not_compiled()


@pytest.mark.feature("5.05", "11.17")
def test_a_file_is_its_owners_alone(written) -> None:
    path, _ = written
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = container.read(path)
    assert {"name", "date", "version", "torch"} <= set(content.meta)
    assert content.meta["name"] == "Model.forward"
    data = path.read_bytes()
    for length in [*range(0, len(data), 4096), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(container.Unusable):
            container.read(path)
    for at in range(0, len(data), 997):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(container.Unusable):
            container.read(path)
    path.write_bytes(data)
    assert container.read(path) == content


@pytest.mark.feature("5.05", "11.17")
@pytest.mark.parametrize("keep", [0, 4096])
def test_a_truncated_file_is_made_anew(written, tmp_path, keep) -> None:
    path, x = written
    path.write_bytes(path.read_bytes()[:keep])
    reason = "it holds no compiled graphs of npugraph" if keep == 0 else "it is damaged: 4096 bytes"
    assert_made_anew(path, x, tmp_path, reason)
    assert path.with_name("compiled_module.broken").stat().st_size == keep


@pytest.mark.feature("5.05", "11.17")
def test_a_file_of_another_version_is_made_anew(written, tmp_path) -> None:
    path, x = written
    data = bytearray(path.read_bytes())
    data[8] += 1
    path.write_bytes(data)
    assert_made_anew(path, x, tmp_path, "it has version 2 of the format, and this is version 1")
    content = container.read(path)
    container.write(path, content.meta | {"torch": "1.0"}, content.entries)
    assert_made_anew(path, x, tmp_path, "it was made with torch 1.0, and this is ")


@pytest.mark.feature("5.05", "11.17")
def test_a_file_of_another_user_is_not_used(written, tmp_path, monkeypatch) -> None:
    path, x = written
    user = os.geteuid()
    with monkeypatch.context() as patched:
        if user == 0:  # files of root are taken
            user = 12345
            os.chown(path, user, user)
        patched.setattr(os, "geteuid", lambda: user + 1)
        with pytest.raises(container.Unusable, match=f"it belongs to user {user}, and this process runs as"):
            container.read(path)
        with pytest.warns(UserWarning, match=f"the cache {path} is not used: it belongs to user {user}, and"):
            later(Model(), tmp_path)(x)
    assert counters["npugraph_ex"]["compiles"] == 1
    path.chmod(0o620)
    assert_made_anew(path, x, tmp_path, "other users may write to it")
    link = path.with_name("link")
    link.symlink_to(path)
    with pytest.raises(container.Unusable, match="it is a symbolic link"):
        container.read(link)


@pytest.mark.feature("5.05")
def test_a_file_in_a_folder_that_must_not_be_entered_is_not_used(written, tmp_path, monkeypatch) -> None:
    path, x = written
    plain = os.stat

    def refusing(name, *args, **kwargs):
        if str(name) == str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(name))
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(os, "stat", refusing)
    with pytest.warns(UserWarning, match=rf"the cache {path} is not used: .*Permission denied"):
        later(Model(), tmp_path)(x)
    assert counters["npugraph_ex"]["compiles"] == 1


class Hostile:
    def __reduce__(self):
        return os.abort, ()


@pytest.mark.feature("5.05", "12b.11")
def test_a_pickle_is_made_anew(written, tmp_path) -> None:
    path, x = written
    path.write_bytes(pickle.dumps(Hostile()) + bytes(100))
    assert_made_anew(path, x, tmp_path, "it holds no compiled graphs of npugraph")


@pytest.mark.feature("5.05", "12b.11")
def test_no_code_runs_from_a_file(written, tmp_path) -> None:
    """Text that does more than a recipe may is refused, even if the checksum is right."""
    path, x = written
    content = container.read(path)
    assert b"c__builtin__" not in path.read_bytes()
    for hostile in (
        "def make(L, G, out):\n    __import__('os').abort()\n",
        "def make(L, G, out):\n    return G['torch'].os.abort()\n",
        "import os\n",
    ):
        entry = container.Entry(content.entries[0].record | {"result": hostile}, content.entries[0].program)
        container.write(path, content.meta, [entry])
        model = Model()
        assert_same(later(model, tmp_path)(x), model(x), exact=False)
        assert counters["npugraph_ex"]["compiles"] == 1


@pytest.mark.feature("5.05", "12b.11")
def test_a_file_is_of_no_version_of_python(written, tmp_path, monkeypatch) -> None:
    """A file that another version of Python wrote is loaded. No part of a file is bytecode, a pickle or marshalled."""
    path, x = written
    content = container.read(path)
    assert content.meta["python"] == platform.python_version()
    container.write(path, content.meta | {"python": "3.14.1"}, content.entries)
    data = path.read_bytes()
    for code in (Model.forward.__code__, cache_compile.__code__):
        assert code.co_code not in data
        assert marshal.dumps(code) not in data
    assert not any(b"\x80" + bytes([protocol, 0x95]) in data for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1))

    def refuse(*_: Any) -> Any:
        raise AssertionError("a file is unpickled")

    unmarshal = marshal.loads
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(marshal, "loads", lambda part: refuse() if bytes(part) in data else unmarshal(part))
    model = Model()
    assert_same(later(model, tmp_path)(x), model(x), exact=False)
    assert_not_compiled()


@pytest.mark.feature("5.07")
def test_the_first_call_checks_sizes(tmp_path) -> None:
    x = torch.randn(3, 8)
    cached(Model(), tmp_path, dynamic=False)(x)
    function = later(Model(), tmp_path, dynamic=False)
    with pytest.warns(UserWarning, match="compiled again"):
        assert function(torch.randn(4, 8))["rows"] == 4
    with pytest.raises(RuntimeError, match="reduction dim"), pytest.warns(UserWarning):
        function(torch.randn(3, 7))


@pytest.mark.feature("5.09")
def test_readable_cache(written, tmp_path, capsys) -> None:
    path, _ = written
    text = readable_cache(path)
    assert capsys.readouterr().out == f"{text}\n"
    for part in ("# name: Model.forward", "relu", "L['x']", "def make(L, G, out):", "class GraphModule", "task"):
        assert part in text
    out = tmp_path / "out.py"
    assert readable_cache(str(path), print_output=False, file=out) == text
    assert capsys.readouterr().out == ""
    assert out.read_text() == text
    with pytest.raises(FileNotFoundError, match=f"there is no cache {tmp_path / 'none'}"):
        readable_cache(tmp_path / "none")
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(ValueError, match=f"cannot read the cache {link}: it is a symbolic link"):
        readable_cache(link)
    with pytest.raises(ValueError, match=f"cannot write to {link}: it is a symbolic link"):
        readable_cache(path, file=link)


@pytest.mark.feature("5.05")
def test_a_folder_that_cannot_be_written(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    model, x = Model(), torch.randn(3, 8)
    function = cached(model, tmp_path / "file")
    with pytest.warns(UserWarning, match="cannot write the cache"):
        assert_same(function(x), model(x), exact=False)
    assert_same(function(x), model(x), exact=False)
