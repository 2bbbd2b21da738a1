# SPDX-License-Identifier: Apache-2.0
"""Saved Programs that are called with the model and the arguments of the compiled function, without Dynamo."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import npugraph
from npugraph.fx.dynamo import sources
from tests.python.backend.checks import assert_same, compile_ex
from tests.python.forks import run_python


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


class Layer:
    """A cache of one layer."""

    def __init__(self) -> None:
        self.keys = torch.zeros(2, 32, 4)
        self.length = torch.zeros((), dtype=torch.int64)


class Cache:
    def __init__(self, layers: int = 2) -> None:
        self.layers = [Layer() for _ in range(layers)]


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.projections = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: torch.Tensor, cache: Any) -> torch.Tensor:
        for projection, layer in zip(self.projections, cache.layers, strict=True):
            x = projection(x) * self.scale
            layer.keys.index_copy_(1, layer.length[None], x[:, None])
            x = x + layer.keys.sum(1)
            layer.length.add_(1)
        return x


def loaded(folder: Path, model: torch.nn.Module, *args: Any, **options: Any) -> Any:
    path = folder / "program"
    compile_ex(model, **options)(*args)
    npugraph.artifacts()[-1].save(path)
    return npugraph.load(path, model)


def step(model: Model, seed: int, cache: Cache) -> torch.Tensor:
    return model(token(seed), cache)


def token(seed: int) -> torch.Tensor:
    return torch.randn(2, 4, generator=torch.Generator().manual_seed(seed))


def assert_equal_steps(run: Any, model: Model, ours: Cache, eagers: Cache, steps: int = 3) -> None:
    for seed in range(steps):
        assert_same(run(token(seed), ours), step(model, seed, eagers), exact=False)
    assert_same([vars(layer) for layer in ours.layers], [vars(layer) for layer in eagers.layers], exact=False)


def test_steps_on_a_cache(tmp_path) -> None:
    model = Model()
    run = loaded(tmp_path, model, token(0), Cache())
    assert run.arguments == ("x", "cache")
    ours, eagers = Cache(), Cache()
    assert_equal_steps(run, model, ours, eagers)
    assert_same(run(cache=ours, x=token(5)), step(model, 5, eagers), exact=False)


def test_what_is_replaced_is_seen(tmp_path) -> None:
    model = Model()
    run = loaded(tmp_path, model, token(0), Cache())
    ours, eagers = Cache(), Cache()
    assert_equal_steps(run, model, ours, eagers)
    model.projections[0].weight = torch.nn.Parameter(torch.randn(4, 4))
    assert_equal_steps(run, model, ours, eagers)
    model.projections[1] = torch.nn.Linear(4, 4)
    assert_equal_steps(run, model, ours, eagers)
    model.scale = torch.tensor(0.5)
    model.projections[0].bias.data = torch.randn(4)
    assert_equal_steps(run, model, ours, eagers)
    ours.layers[1], eagers.layers[1] = Layer(), Layer()
    assert_equal_steps(run, model, ours, eagers)
    ours.layers[0].keys, eagers.layers[0].keys = torch.ones(2, 32, 4), torch.ones(2, 32, 4)
    ours.layers[0].length.zero_(), eagers.layers[0].length.zero_()
    assert_equal_steps(run, model, ours, eagers)
    assert_equal_steps(run, model, Cache(), Cache())


def test_caches_that_compute_their_tensors(tmp_path) -> None:
    class Computing(Cache):
        @property
        def layers(self) -> list[Layer]:
            return self.kept

        @layers.setter
        def layers(self, layers: list[Layer]) -> None:
            self.kept = layers

    model = Model()
    run = loaded(tmp_path, model, token(0), Cache())
    ours, eagers = Computing(), Computing()
    assert_equal_steps(run, model, ours, eagers)
    ours.layers, eagers.layers = Cache().layers, Cache().layers
    assert_equal_steps(run, model, ours, eagers)


def test_arguments_are_not_kept(tmp_path) -> None:
    model = Model()
    run = loaded(tmp_path, model, token(0), Cache())
    cache, x = Cache(), token(0)
    run(x, cache)
    refs = [weakref.ref(cache), weakref.ref(cache.layers[0].keys), weakref.ref(x)]
    del cache, x
    assert [ref() for ref in refs] == [None] * 3
    ref = weakref.ref(run)
    model.run = run  # a cycle through the model
    del run, model
    gc.collect()
    assert ref() is None


def test_sizes_and_numbers(tmp_path) -> None:
    class Scaled(torch.nn.Linear):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return super().forward(x) * x.shape[0] + n

    model = Scaled(4, 3)
    x = torch.randn(5, 4)
    run = loaded(tmp_path, model, x, 7, dynamic=True)
    for rows, n in ((5, 7), (2, 9), (9, 3)):
        x = torch.randn(rows, 4)
        assert_same(run(x, n), model(x, n), exact=False)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "words"),
    [
        ((), {}, TypeError, r"\(x, cache\): missing a required argument: 'x'"),
        ((1, 2, 3), {}, TypeError, "too many positional arguments"),
        ((token(0),), {"x": 1}, TypeError, "multiple values for argument 'x'"),
        ((token(0), Cache()), {"y": 1}, TypeError, "unexpected keyword argument 'y'"),
        ((token(0)[:, :3],), {"cache": Cache()}, ValueError, "sizes"),
        ((token(0).double(),), {"cache": Cache()}, ValueError, "dtype"),
        ((token(0), Cache(1)), {}, ValueError, r"compiled for arguments of which .*L\['cache'\]\.layers"),
        ((token(0), None), {}, ValueError, r"compiled for arguments of which .*L\['cache'\]\.layers"),
    ],
)
def test_wrong_arguments(tmp_path, args: Any, kwargs: Any, error: type[Exception], words: str) -> None:
    model = Model()
    run = loaded(tmp_path, model, token(0), Cache())
    for _ in range(2):  # the second call must not take what the failed one had found for complete
        with pytest.raises(error, match=words):
            run(*args, **kwargs)
    assert_equal_steps(run, model, Cache(), Cache())


def test_one_argument_is_not_arguments(tmp_path) -> None:
    model, x = torch.nn.Linear(4, 3), torch.randn(5, 4)
    run = loaded(tmp_path, model, x)
    with pytest.raises(TypeError, match="takes 1 argument, got 2"):
        run(x, x)


def test_wrong_models(tmp_path) -> None:
    loaded(tmp_path, Model(), token(0), Cache())
    with pytest.raises(ValueError, match=r"the model \(Linear\) has no projections"):
        npugraph.load(tmp_path / "program", torch.nn.Linear(4, 4))
    other = Model()
    other.projections[0] = torch.nn.Linear(4, 5)
    with pytest.raises(ValueError, match="sizes"):
        npugraph.load(tmp_path / "program", other)(token(0), Cache())


def test_what_a_function_reads_around_it_is_an_argument(tmp_path) -> None:
    layer = torch.nn.Linear(4, 4)
    factor = torch.tensor(2.0)
    compile_ex(lambda x: layer(x) * factor)(token(0))
    npugraph.artifacts()[-1].save(tmp_path / "program")
    run = npugraph.load(tmp_path / "program", layer)
    assert_same(run(x=token(1), factor=factor), layer(token(1)) * 2, exact=False)


def test_modules_of_torch(tmp_path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    run = loaded(tmp_path, model, token(0))
    assert_same(run(token(1)), model(token(1)), exact=False)
    assert_same(run(input=token(1)), model(token(1)), exact=False)  # the name of the argument in Sequential.forward


def test_a_number_of_no_tensor_is_missed_where_the_tensor_belongs(tmp_path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    run = loaded(tmp_path, model, token(0), dynamic=True)
    with pytest.raises(TypeError, match="takes a tensor for input, got a str"):
        run("x")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("L['x']", sources.Path("x", ())),
        ("L['self']._modules['0'].w", sources.Path("self", ((True, "_modules"), (False, "0"), (True, "w")))),
        ("L['kwargs']['ids']", sources.Path("ids", ())),
        ("L['args'][1][0]", sources.Path("argument_1", ((False, 0),))),
        ("L['x'].size()[1]", sources.Path("x", (), ("size", 1))),
        ("L['x'].a[-1].storage_offset()", sources.Path("x", ((True, "a"), (False, -1)), ("storage_offset", 0))),
    ],
)  # fmt: skip
def test_names_of_sources_are_read_as_paths(text: str, path: sources.Path) -> None:
    assert sources.parse(text) == path


@pytest.mark.parametrize("text", ["G['x']", "L", "L['x'](1)", "L['x'].item()", "___from_numpy(L['x'])", "L['x", "1"])
def test_sources_that_are_no_paths(text: str) -> None:
    with pytest.raises(ValueError, match="no path from an argument"):
        sources.parse(text)


LOADS = """
import npugraph, sys, torch
torch.set_grad_enabled(False)
with open(sys.argv[1], "rb") as file:
    loaded = torch.compiler.load_compiled_function(file)
loaded.disable_guard_check()
with npugraph.task_log() as log:
    result = loaded(torch.arange(6.0).view(2, 3)).tolist()
print(result, {record.mode for record in log})
"""


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def test_aot_compile(tmp_path) -> None:
    """The saved function keeps the options of running."""
    options = {"force_eager": True, "use_graph_pool": (0, 7), "_vllm_aclnn_static_kernel_sym_range": [5]}
    compiled = compile_ex(doubled, options=options).aot_compile(((torch.ones(2, 3),), {}))
    assert_same(compiled(torch.ones(2, 3)), torch.full((2, 3), 3.0))
    compiled.save_compiled_function(str(tmp_path / "function"))
    done = run_python("-c", LOADS, tmp_path / "function")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[[1.0, 3.0, 5.0], [7.0, 9.0, 11.0]] {'eager'}"


def test_aot_compile_of_a_module() -> None:
    model, x = torch.nn.Linear(3, 4), torch.ones(2, 3)
    with torch.no_grad():
        assert_same(compile_ex(model).aot_compile(((x,), {}))(x), model(x), exact=False)


class Affine(torch.nn.Module):
    """Reads a square weight and counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(16.0).view(4, 4))
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return x @ self.weight + self.calls


def swap_data(model: Affine) -> None:
    model.weight.data = torch.full((4, 4), 3.0)


def move_within_storage(model: Affine) -> None:
    model.weight.data = torch.randn(5, 4).flatten().as_strided((4, 4), (4, 1), 3)


def fill(model: Affine) -> None:
    model.weight.fill_(7)


def reallocate(model: Affine) -> None:
    model.calls.set_(torch.full((64,), 5.0).untyped_storage(), 8, (4,), (1,))


def clone_lazily(model: Affine) -> None:
    model.before = torch._lazy_clone(model.calls)


CHANGES = [swap_data, move_within_storage, fill, reallocate, clone_lazily]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_tensor_that_changed_is_bound_anew(tmp_path, change: Any) -> None:
    ours, eager = Affine(), Affine()
    x = torch.randn(2, 4)
    run = loaded(tmp_path, ours, x)
    eager(x)
    for turn in range(5):
        if turn == 2:
            for model in (ours, eager):
                torch.manual_seed(0)
                change(model)
        assert_same(run(x), eager(x), exact=False)
        assert_same(dict(ours.named_buffers()), dict(eager.named_buffers()))
    assert_same(getattr(ours, "before", None), getattr(eager, "before", None))


REFUSED = {
    "sizes": lambda weight: torch.randn(4, 3),
    "strides": lambda weight: weight.t(),
    "dtype": lambda weight: weight.double(),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_tensor_that_fits_no_more_is_refused_until_it_does(tmp_path, what: str) -> None:
    model = Affine()
    x = torch.randn(2, 4)
    run = loaded(tmp_path, model, x)
    kept = model.weight.data
    expected = run(x)
    model.weight.data = REFUSED[what](kept)
    with pytest.raises(ValueError, match=f"weight.*{what}"):
        run(x)
    model.weight.data = kept
    assert_same(run(x), expected + 1, exact=False)


def test_memory_that_was_freed_is_missed(tmp_path) -> None:
    model = Affine()
    x = torch.randn(2, 4)
    run = loaded(tmp_path, model, x)
    run(x)
    model.weight.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"weight.*needs 64 bytes of memory; its storage has 0"):
        run(x)


def test_tasks_are_timed_without_the_call(tmp_path) -> None:
    model = Affine()
    x = torch.randn(2, 4)
    run = loaded(tmp_path, model, x)
    before = model.calls.clone()
    assert run.time_tasks(10, x) > 0
    assert torch.equal(model.calls, before + 10)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        run.time_tasks(0, x)
    with pytest.raises(ValueError, match="sizes"):
        run.time_tasks(1, torch.randn(2, 5))


class Scaled(torch.nn.Module):
    """Computes with a number of the class, a number of the object, and the eps of a norm, which is a constant for the
    operator."""

    factor = 0.37

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.offset = 0.25

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * self.factor + self.offset


class OnlyNumber(torch.nn.Module):
    factor = 0.37

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


@pytest.mark.parametrize("make", [Scaled, OnlyNumber, lambda: torch.nn.Sequential(torch.nn.LayerNorm(8))])
def test_floats_of_a_dynamic_model(tmp_path, make) -> None:
    model = make().eval()
    run = loaded(tmp_path, model, torch.randn(5, 8), dynamic=True)
    for rows in (6, 9):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(run(x), model(x))
    assert len(run.arguments) == 1


def test_a_float_of_a_model_is_read_at_each_call(tmp_path) -> None:
    model, x = Scaled().eval(), torch.randn(6, 8)
    run = loaded(tmp_path, model, torch.randn(5, 8), dynamic=True)
    run(x)
    model.offset = -2.0
    torch.testing.assert_close(run(x), model(x))
    model.offset = "much"
    with pytest.raises(ValueError, match=r"input \d \(L\['self'\]\.offset\) has type str; .* a tensor"):
        run(x)


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators: list[Any] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators.append(func)
        return func(*args, **(kwargs or {}))


def test_modes_see_no_operator_of_a_float(tmp_path) -> None:
    run = loaded(tmp_path, OnlyNumber(), torch.randn(5, 8), dynamic=True)
    x = torch.randn(6, 8)
    with Seen() as seen:
        run(x)
    assert seen.operators == []


def test_a_list_of_inputs_takes_floats(tmp_path) -> None:
    model, x = OnlyNumber(), torch.randn(6, 8)
    loaded(tmp_path, model, torch.randn(5, 8), dynamic=True)
    run = npugraph.load(tmp_path / "program")
    given = {"L['x'].size()[0]": 6, "L['x'].size()[1]": 8, "L['x']": x}
    inputs = [given.get(text.split(":")[0], model.factor) for text in run.inputs]
    assert_same(run(inputs)[0], model(x))
