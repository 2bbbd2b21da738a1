# SPDX-License-Identifier: Apache-2.0
"""Budgets of graphs, for tests of models, and the calls that converters declare, as tests of these. The pytest plugin
offers ``assert_graph`` as a fixture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

import npugraph
from npugraph.artifact import Artifact
from npugraph.compilers import get_npu_backend
from npugraph.options import parse

if TYPE_CHECKING:
    from npugraph.ge.backend.declared_calls import Support

RUNS = 2


def assert_graph(
    model: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    copied_bytes: int | None = None,
    captures: int | None = None,
    fused: Sequence[str] = (),
    tasks_at_most: int | None = None,
    graphs: int | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
) -> list[Artifact]:
    """Compiles ``model``, calls it twice with ``inputs`` (positional arguments) under ``no_grad``, and returns the
    artifacts. Raises ``AssertionError``, which says which budget is exceeded and for which reason, and ``TypeError``
    for an argument of the wrong kind.

    Each budget counts all graphs together; None means no budget. ``copied_bytes`` are the bytes that copies may move in
    one run, ``captures`` the captures that both runs may need, ``tasks_at_most`` and ``graphs`` the most tasks and
    graphs (``graphs=1``: no graph breaks). ``fused`` are names that must be present: of a replacement rule that was
    used, of an operator that a rule or a pass made ("npu_add_rms_norm", "npugraph.attention"), or of a task
    ("loop.mul.relu.add"). ``options`` and ``dynamic`` are those of torch.compile.

    It resets Dynamo first, so that graphs of earlier tests play no part.
    """
    __tracebackhide__ = True
    if isinstance(inputs, (torch.Tensor, str)) or not isinstance(inputs, Sequence):
        raise TypeError(f"assert_graph: inputs is a list or tuple of arguments, got {type(inputs).__name__}")
    if isinstance(fused, str):
        raise TypeError(f"assert_graph: fused is a list of names, got the text {fused!r}")
    budgets = {"copied_bytes": copied_bytes, "captures": captures, "tasks_at_most": tasks_at_most, "graphs": graphs}
    for name, budget in budgets.items():
        if budget is not None and type(budget) is not int:
            raise TypeError(f"assert_graph: {name} is a number, got {budget!r} ({type(budget).__name__})")
    found = _compile_and_run(model, inputs, options, dynamic)
    problems = [] if found else ["  nothing was compiled: the model calls no operator that a graph could hold"]
    problems += _over("graphs", graphs, len(found), [repr(a) for a in found])
    problems += _over("tasks_at_most", tasks_at_most, sum(len(a.tasks) for a in found), _tasks(found))
    copied = sum(a.memory["copied_bytes_per_replay"] for a in found)
    problems += _over("copied_bytes", copied_bytes, copied, _copies(found))
    problems += _over("captures", captures, sum(a.counters["captures"] for a in found), _captures(found))
    problems += [line for name in fused for line in _missing(name, found)]
    if problems:
        name = getattr(model, "__name__", type(model).__name__)
        raise AssertionError("\n".join([f"the graphs of {name} do not keep within their budget", *problems]))
    return found


def _compile_and_run(
    model: Callable[..., Any], inputs: Sequence[Any], options: Mapping[str, Any] | None, dynamic: bool | None
) -> list[Artifact]:
    torch._dynamo.reset()
    before = npugraph.artifacts()
    compiled = torch.compile(model, backend=get_npu_backend(compiler_config=parse(options)), dynamic=dynamic)
    with torch.no_grad():
        for _ in range(RUNS):
            compiled(*inputs)
    return [artifact for artifact in npugraph.artifacts() if artifact not in before]


def assert_supported(*targets: Any, device: str = "cpu") -> int:
    """Runs the calls that converters of users declare with ``declare_supported``, with known and with symbolic sizes,
    each as one graph of GE, and compares results and written arguments with eager mode. ``targets`` are operators; all
    that have such a converter if none is given. Returns the number of calls.

    Raises ``AssertionError``, which names each call that fails and why, or each target without such a converter. It
    resets Dynamo for each call."""
    __tracebackhide__ = True
    from npugraph.ge.backend.user_converters import user_converters  # GE mode imports protobuf

    chosen = [converter for converter in user_converters() if not targets or converter.target in targets]
    problems = [
        f"  {target}: no converter of the user is in use"
        for target in targets
        if all(converter.target != target for converter in chosen)
    ]
    calls = [(converter.target, case) for converter in chosen for case in converter.supported_cases]
    for target, case in calls:
        for dynamic in (False, True):
            if why := _why_not_supported(target, case, device, dynamic):
                sizes = "symbolic sizes" if dynamic else "known sizes"
                problems.append(f"  {target}({case!r}) with {sizes}: {why}")
                break
    if problems:
        raise AssertionError("\n".join(["converters do not do what they declare", *problems]))
    return len(calls)


def _why_not_supported(target: Any, case: Support, device: str, dynamic: bool) -> str:
    """What goes wrong in a declared call; "" if nothing does."""
    from npugraph.ge.backend import npu_backend
    from npugraph.ge.config import CompilerConfig as GeConfig

    config = GeConfig()
    config.debug.missing_converters = "error"
    expected_inputs, arguments = case.make(device)
    inputs = [tensor.clone() for tensor in expected_inputs]

    def call(*tensors: torch.Tensor) -> Any:
        args, kwargs = arguments(*tensors)
        return target(*args, **kwargs)

    backend = npu_backend.get_npu_backend(compiler_config=config)
    torch._dynamo.reset()
    try:
        with torch.no_grad():
            expected = call(*expected_inputs)
            found = torch.compile(call, backend=backend, fullgraph=True, dynamic=dynamic)(*inputs)
        torch.testing.assert_close((found, inputs), (expected, expected_inputs), equal_nan=True, check_stride=True)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _over(name: str, allowed: int | None, found: int, details: Sequence[str]) -> list[str]:
    if allowed is None or found <= allowed:
        return []
    return [f"  {name}: {found} found, {allowed} allowed", *(f"    {line}" for line in details)]


def _at(source: str) -> str:
    return f"  {source}" if source else ""


def _tasks(artifacts: Sequence[Artifact]) -> list[str]:
    return [
        f"{i:>3} {task.name}{_at(task.source)}{f'  ({task.reason})' if task.reason else ''}"
        for artifact in artifacts
        for i, task in enumerate(artifact.tasks)
    ]


def _copies(artifacts: Sequence[Artifact]) -> list[str]:
    lines = []
    for artifact in artifacts:
        copying = [(i, task) for i, task in enumerate(artifact.tasks) if task.bytes_copied]
        lines += [f"{i:>3} {t.name}: {t.bytes_copied} bytes of {t.origin}{_at(t.source)}" for i, t in copying]
        other = artifact.memory["copied_bytes_per_replay"] - sum(t.bytes_copied for _, t in copying)
        if other > 0:
            lines.append(f"    {other} bytes of arguments and results of {artifact.name} that had to be staged")
    return lines


def _captures(artifacts: Sequence[Artifact]) -> list[str]:
    return [
        f"{artifact.name}: {instance.captures} for {instance.key or 'its only sizes'}"
        for artifact in artifacts
        for instance in artifact.instances
    ]


def _missing(name: str, artifacts: Sequence[Artifact]) -> list[str]:
    there = [fused for artifact in artifacts for fused in _fused(artifact)]
    if any(name == fused or name in fused.split(".") for fused in there):
        return []
    lines = [f"  fused: {name} is not there"]
    for artifact in artifacts:
        lines += [f"    {m.rule} nearly matched at {m.node}{_at(m.source)}: {m.reason}" for m in artifact.near_misses]
    return [*lines, f"    there are: {', '.join(dict.fromkeys(there)) or 'none'}"]


def _fused(artifact: Artifact) -> list[str]:
    """Returns the names that stand for several operators of the program: rules and the operators that they made,
    operators of npugraph, and tasks of generated code."""
    names = [name for use in artifact.replacements for name in (use.rule, *use.added)]
    imported, last = (_operators(artifact, stage) for stage in ("import", None))
    names += [name for name in last if name not in imported and not name.startswith("aten.")]
    return names + [task.name for task in artifact.tasks if ", " in task.origin]


def _operators(artifact: Artifact, stage: str | None) -> list[str]:
    graph = artifact.to_fx(stage).graph
    return [str(node.target) for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
