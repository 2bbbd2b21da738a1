# SPDX-License-Identifier: Apache-2.0
"""Threads, recursion, forks, thread counts."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
from collections.abc import Callable

import pytest
import torch

import npugraph
from npugraph import _C
from tests.python.backend.barriers import barrier_of, meet
from tests.python.backend.checks import compile_ex
from tests.python.forks import run_python


def run_in_threads(count: int, work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def guarded(i: int) -> None:
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("options", [{}, {"max_concurrent": 1}, {"force_eager": True}])
def test_two_threads_at_once(dynamic, options) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8)).eval()
    compiled = compile_ex(model, dynamic=dynamic, options=options)

    def work(i: int) -> None:
        with torch.no_grad():
            for k in range(100):
                x = torch.full((4 + i if dynamic else 4, 8), k / 100 + 2 * i)
                torch.testing.assert_close(compiled(x), model(x))

    with torch.no_grad():
        compiled(torch.ones(4, 8))
        run_in_threads(2, work)
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["replays"] + artifact.counters["eager_runs"] == 201


def test_threads_that_train() -> None:
    def fn(w, x):
        return torch.tanh(w * x).sum()

    compiled = compile_ex(fn)
    compiled(torch.ones(3, requires_grad=True), torch.ones(3)).backward()

    def work(i: int) -> None:
        for k in range(20):
            w = torch.full((3,), float(i), requires_grad=True)
            v = w.detach().clone().requires_grad_()
            x = torch.full((3,), float(k))
            compiled(w, x).backward()
            fn(v, x).backward()
            torch.testing.assert_close(w.grad, v.grad)

    run_in_threads(2, work)


def test_threads_with_python_tasks() -> None:
    compiled = compile_ex(lambda x: torch.cond((x.sum() > 0).float(), lambda t: t * 2, lambda t: t * 3, (x,)) + 1)

    def work(i: int) -> None:
        with torch.no_grad():
            for k in range(30):
                sign = 1.0 if (i + k) % 2 else -1.0
                x = torch.full((3,), sign)
                assert torch.equal(compiled(x), x * (2 if sign > 0 else 3) + 1)

    with torch.no_grad():
        with pytest.warns(UserWarning, match="cond"):
            compiled(torch.ones(3))
        run_in_threads(3, work)


def test_two_calls_of_a_graph_run_at_the_same_time() -> None:
    """Each of them waits in a task until the other one is there."""
    compiled = compile_ex(lambda x: meet(x * 2) + 1)
    x = torch.ones(3)

    def work(i: int) -> None:
        with torch.no_grad():
            assert torch.equal(compiled(x + i), (x + i) * 2 + 1)

    with torch.no_grad():
        compiled(x)
    with barrier_of(2):
        run_in_threads(2, work)


@pytest.fixture
def no_forced_switches():
    """Lets another Python thread run only when the current one releases the interpreter lock."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e6)
    yield
    sys.setswitchinterval(interval)


def test_long_runs_let_other_threads_of_python_run(no_forced_switches) -> None:
    def fn(x):
        return x @ x @ x

    x = torch.randn(512, 512)
    with torch.no_grad():
        compile_ex(fn)(x)
    run = npugraph.artifacts()[0]._core.callable(boxed=True)
    gate, ran = threading.Lock(), threading.Event()

    def other() -> None:
        with gate:
            ran.set()

    with gate:
        thread = threading.Thread(target=other)
        thread.start()
    for _ in range(1000):
        if ran.is_set():
            break
        run([x])
    assert ran.is_set()
    thread.join()


COMPILED: list[Callable[..., torch.Tensor]] = []


@torch.library.custom_op("backend_tests::again", mutates_args=())
def again(x: torch.Tensor, depth: int) -> torch.Tensor:
    return COMPILED[0](x, depth - 1) if depth > 0 else x.clone()


again.register_fake(lambda x, depth: torch.empty_like(x))


@pytest.mark.parametrize("options", [{}, {"max_concurrent": 1}])
def test_a_compiled_function_may_call_itself(options) -> None:
    def fn(x, depth):
        y = x * 2
        z = again(y, depth)
        return y + z

    def plain(x, depth):
        return x * 2 + (plain(x * 2, depth - 1) if depth > 0 else x * 2)

    with torch.no_grad():
        COMPILED[:] = [compile_ex(fn, dynamic=True, fullgraph=False, options=options)]
        for depth in (0, 3, 2, 5):
            x = torch.randn(4)
            torch.testing.assert_close(COMPILED[0](x, depth), plain(x, depth))
    COMPILED.clear()
    assert any(task.name == "backend_tests.again" for artifact in npugraph.artifacts() for task in artifact.tasks)


def test_a_forked_child_computes_on_the_threads_of_torch() -> None:
    script = """
    import os
    import torch
    import npugraph

    fn = lambda x: torch.mm(x, x) + 1
    compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True)
    npugraph._C.set_num_threads(2)
    torch.set_num_threads(2)
    x = torch.randn(512, 512)

    def threads():
        return set(os.listdir("/proc/self/task"))

    with torch.no_grad():
        expected = fn(x)
        compiled(x)
        child = os.fork()
        if child == 0:
            ok = torch.allclose(fn(x), expected, rtol=1e-4, atol=1e-4)
            before = threads()
            ok = ok and all(torch.allclose(compiled(x), expected, rtol=1e-4, atol=1e-4) for _ in range(5))
            os._exit(0 if ok and threads() == before else 3)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
        assert torch.allclose(compiled(x), expected, rtol=1e-4, atol=1e-4)
    """
    done = run_python("-c", textwrap.dedent(script))
    assert done.returncode == 0, done.stderr


def test_tasks_run_on_the_threads_of_torch() -> None:
    """A second pool of threads would compete with torch's own for the processors."""

    def threads() -> set[str]:
        return set(os.listdir("/proc/self/task"))

    x = torch.randn(512, 512)
    small = torch.randn(2, 2)
    compiled = compile_ex(lambda x: torch.relu(x @ x) + 1, dynamic=True)
    with torch.no_grad():
        compiled(small)
        torch.relu(x) + 1
        before = threads()
        compiled(x)
    assert threads() == before


@pytest.fixture
def thread_counts():
    torch_threads, own = torch.get_num_threads(), _C.num_threads()
    yield
    torch.set_num_threads(torch_threads)
    _C.set_num_threads(own)


def test_torch_thread_count_may_change(thread_counts) -> None:
    compiled = compile_ex(lambda x: torch.softmax(x @ x, -1))
    x = torch.randn(32, 32)
    with torch.no_grad():
        want = torch.softmax(x @ x, -1)
        for count in (1, 2, 1):
            torch.set_num_threads(count)
            torch.testing.assert_close(compiled(x), want)
            assert torch.get_num_threads() == count


BITS = """
import torch
import npugraph

def fn(x, w, b):
    h = torch.relu(torch.nn.functional.linear(x, w, b)) * 2 - x
    return torch.softmax(h, -1) if GENERATE else h

torch.manual_seed(0)
compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True, options={"generate_code": GENERATE})
n = 500 if GENERATE else 24
inputs = torch.randn(n, n), torch.randn(n, n), torch.randn(n)
results = []
with torch.no_grad():
    for count in COUNTS:
        npugraph._C.set_num_threads(count)
        results += [compiled(*inputs) for _ in range(2)]
(artifact,) = npugraph.artifacts()
assert {task.kind for task in artifact.tasks} == ({"matmul", "loop"} if GENERATE else {"kernel"})
bits = [hash(tuple(result.view(torch.int32).flatten().tolist())) for result in results]
assert len(set(bits)) == 1
"""


@pytest.mark.parametrize("generate", [False, True])
def test_number_of_threads_changes_no_bits(thread_counts, generate) -> None:
    """The number of threads is set by a function, or by an environment variable. A graph gets precompiled kernels only
    for work that is too short for two threads. tests/unit/core/kernels compares kernels on 1, 2 and 3 threads."""
    here: dict[str, object] = {"COUNTS": (1, 2), "GENERATE": generate}
    exec(compile(BITS, __file__, "exec"), here)
    script = BITS + "print(npugraph._C.num_threads(), bits[0])"
    environment = {**os.environ, "NPUGRAPH_THREADS": "3", "PYTHONHASHSEED": "0"}
    done = run_python("-c", f"COUNTS = (3,)\nGENERATE = {generate}\n" + script, env=environment, check=True)
    assert done.stdout.split() == ["3", str(here["bits"][0])]
