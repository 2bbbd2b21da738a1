# SPDX-License-Identifier: Apache-2.0
"""Runs an operator of the user in eager mode, with its Meta function and in graphs, and compares."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import logging
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from npugraph.fx.schema import listed, written_arguments
from npugraph.log import logger
from npugraph.operator_steps import steps
from npugraph.operator_steps.code import indented
from npugraph.operator_steps.samples import Arguments, copied, described, samples, tensor_text, variants
from npugraph.operator_steps.steps import Step

MODES = ("npugraph_ex", "reduce-overhead", "max-autotune")
_OPTIONAL = 6  # the step that only GE mode needs
_CALLS_OF_THREAD = 10


class Check(NamedTuple):
    """What a comparison found; ``problem`` is empty if it found nothing."""

    name: str
    problem: str = ""
    note: str = ""

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.name}: " + (f"PROBLEM\n{indented(self.problem)}" if self.problem else f"ok{note}")


class OperatorReport(NamedTuple):
    """The steps of an operator and what checks of its behaviour found. ``str`` of it is text for people."""

    operator: str
    steps: Sequence[Step]
    arguments: str  # of the checks; empty if none ran
    checks: Sequence[Check]

    @property
    def ok(self) -> bool:
        """Whether no check found a problem, and no step is missing but the converter, which only GE mode needs."""
        lacking = [step for step in self.steps if step.is_missing and step.number != _OPTIONAL]
        return not lacking and not any(check.problem for check in self.checks)

    def __str__(self) -> str:
        lines = [self.operator, *map(str, self.steps)]
        if self.arguments:
            lines.append(f"called with {self.arguments}:")
        return "\n".join([*lines, *map(str, self.checks)])


def check_operator(operator: Any, *args: Any, **kwargs: Any) -> OperatorReport:
    """Says which of the six steps of docs/custom_operators.md an operator of the user has, and runs it: in eager mode,
    with its Meta function, with symbolic sizes, in graphs of all three modes, and in two threads at once.

    ``operator`` is ``"ns::name"``, ``torch.ops.ns.name`` or an overload of it. ``args`` and ``kwargs`` are a valid
    call; without them arguments are tried that follow from the schema. The operator gets copies of tensors.

    Returns a report: ``ok``, ``steps``, ``checks``, and text by ``str``. Raises ``ValueError`` for a name that is not
    of the form ns::name and for an operator with several overloads."""
    found = _overload(operator)
    if isinstance(found, Step):
        return OperatorReport(str(operator), [found], "", [])
    given = steps.steps_of(found, steps.device_of(pytree.tree_leaves((args, kwargs))))
    schema = str(found._schema)
    if any(step.is_missing and step.number <= 3 for step in given):
        return OperatorReport(schema, given, "", [])
    names = [argument.name for argument in found._schema.arguments]
    sample = dict(zip(names, args, strict=False)) | kwargs
    failure = ""
    if not sample and names:
        sample, failure = _valid(found)
    if failure:
        problem = f"no arguments were found that the operator takes; give a valid call. The last error:\n{failure}"
        return OperatorReport(schema, given, "", [Check("arguments", problem)])
    with _quiet():
        return OperatorReport(schema, given, described(sample), list(_checks(found, sample, given)))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The report says what warnings would say."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _overload(operator: Any) -> Any:
    """The OpOverload, or the step that is missing."""
    if isinstance(operator, str):
        parts = operator.split("::")
        if len(parts) != 2 or not all(part.replace(".", "_").isidentifier() for part in parts):
            raise ValueError(f"the name of an operator is ns::name or ns::name.overload, got {operator!r}")
        namespace, (name, _, overload) = getattr(torch.ops, parts[0]), parts[1].partition(".")
        packet = getattr(namespace, name, None)
        if packet is None:
            return steps.unknown(operator)
        operator = getattr(packet, overload) if overload else packet
    if isinstance(operator, torch._ops.OpOverloadPacket):
        overloads = operator.overloads()
        if len(overloads) > 1:
            raise ValueError(f"{operator} has the overloads {', '.join(overloads)}: name one of them")
        operator = getattr(operator, overloads[0])
    return operator


def _valid(operator: Any) -> tuple[Arguments, str]:
    """Arguments that eager mode takes, or the last error."""
    failure = ""
    for sample in samples(operator):
        try:
            operator(**copied(sample))
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        else:
            return sample, ""
    return {}, failure


def _checks(operator: Any, sample: Arguments, given: Sequence[Step]) -> Iterator[Check]:
    tried = [(name, arguments) for name, arguments in variants(sample) if _runs(operator, arguments)]
    yield _first("it writes what its schema says", tried, functools.partial(_wrong_writes, operator))
    yield _first("its results are new tensors", tried, functools.partial(_aliased, operator))
    if any(step.number == 4 and step.is_missing for step in given) or steps.decomposes(operator):
        return
    if steps.has_meta(operator):
        yield _first("its Meta function says what eager mode does", tried, functools.partial(_wrong_meta, operator))
    yield _symbolic(operator, sample)
    if any(step.number == 5 and step.is_missing for step in given):
        return
    for mode in MODES:
        yield Check(f"{mode} gives the results of eager mode", _wrong_in_graph(operator, sample, mode))
    yield Check("two threads at once get the results of one", _wrong_in_threads(operator, sample))
    yield _gradient(operator, sample)


def _runs(operator: Any, arguments: Arguments) -> bool:
    try:
        operator(**copied(arguments))
    except Exception:
        return False
    return True


def _first(name: str, tried: Iterable[tuple[str, Arguments]], check: Callable[[Arguments], str]) -> Check:
    """The check with the first problem that variants of the arguments show."""
    names = []
    for variant, arguments in tried:
        if problem := check(arguments):
            return Check(name, problem if variant == "as they are" else f"with arguments {variant}: {problem}")
        names.append(variant)
    return Check(name, note="; ".join(names))


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _bytes(x: torch.Tensor) -> torch.Tensor:
    return x.detach().contiguous().reshape(-1).view(torch.uint8)


def _wrong_writes(operator: Any, arguments: Arguments) -> str:
    used = copied(arguments)
    operator(**used)
    for name in arguments.keys() - set(written_arguments(operator)):
        pairs = zip(_tensors(arguments[name]), _tensors(used[name]), strict=True)
        if not all(torch.equal(_bytes(before), _bytes(after)) for before, after in pairs):
            return (
                f"it writes its argument {name}, and the schema does not say so. Graphs keep the old value then. Write "
                f"Tensor(a!) {name} in the schema: {operator._schema}"
            )
    return ""


def _memory(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _aliased(operator: Any, arguments: Arguments) -> str:
    used = copied(arguments)
    results = operator(**used)
    owners = {_memory(x): name for name, value in used.items() for x in _tensors(value) if x.numel()}
    for place, (result, made) in enumerate(zip(operator._schema.returns, listed(results), strict=False)):
        for x in _tensors(made):
            if result.alias_info is None and x.numel() and _memory(x) in owners:
                return (
                    f"result {place} lies in the memory of its argument {owners[_memory(x)]}, and the schema does not "
                    "say so. Return a new tensor, or nothing if the argument is written."
                )
    return ""


def _on_meta(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device="meta")


def _wrong_meta(operator: Any, arguments: Arguments) -> str:
    results = _tensors(operator(**copied(arguments)))
    try:
        described_results = _tensors(operator(**pytree.tree_map_only(torch.Tensor, _on_meta, arguments)))
    except Exception as error:
        return f"the Meta function fails: {type(error).__name__}: {error}"
    if len(results) != len(described_results):
        return f"eager mode makes {len(results)} tensors, the Meta function {len(described_results)}"
    for place, (made, said) in enumerate(zip(results, described_results, strict=True)):
        if said.device.type != "meta":
            return f"result {place} of the Meta function is on {said.device}; make it with x.new_empty or on 'meta'"
        if made.dtype != said.dtype or made.size() != said.size() or _strides(made) != _strides(said):
            return f"result {place} is {tensor_text(made)} in eager mode, {tensor_text(said)} by the Meta function"
    return ""


def _strides(x: torch.Tensor) -> list[int]:
    """The strides that matter."""
    return [stride for size, stride in zip(x.size(), x.stride(), strict=True) if size > 1 and x.numel()]


def _symbolic(operator: Any, sample: Arguments) -> Check:
    """torch's own checks with fake tensors, constant and symbolic sizes."""
    found = torch.library.opcheck(
        operator,
        (),
        copied(sample),
        test_utils=("test_faketensor", "test_aot_dispatch_static", "test_aot_dispatch_dynamic"),
        raise_exception=False,
    )
    failed = [f"{name}: {error}" for name, error in found.items() if error != "SUCCESS"]
    return Check("it works with fake tensors and symbolic sizes", "\n".join(failed))


def _compiled(call: Callable[..., Any], mode: str) -> Callable[..., Any]:
    if mode == "npugraph_ex":
        return torch.compile(call, backend="npugraph_ex", fullgraph=True)
    from npugraph.ge.backend.npu_backend import get_npu_backend  # imports protobuf
    from npugraph.ge.config import CompilerConfig

    config = CompilerConfig()
    config.mode = mode
    return torch.compile(call, backend=get_npu_backend(compiler_config=config), fullgraph=True)


def _caller(operator: Any) -> Callable[..., Any]:
    def call(arguments: Arguments) -> Any:
        return operator(**arguments)

    # Dynamo counts compiles by code object, so each check has one of its own.
    return types.FunctionType(call.__code__.replace(), call.__globals__, call.__name__, None, call.__closure__)


def _outcome(call: Callable[..., Any], sample: Arguments) -> list[torch.Tensor]:
    """The results of a call, and its arguments behind it."""
    used = copied(sample)
    with torch.no_grad():
        results = call(used)
    return [*_tensors(results), *_tensors(used)]


def _difference(expected: Sequence[torch.Tensor], got: Sequence[torch.Tensor]) -> str:
    try:
        torch.testing.assert_close(got, expected, equal_nan=True)
    except AssertionError as error:
        return str(error)
    return ""


def _wrong_in_graph(operator: Any, sample: Arguments, mode: str) -> str:
    try:
        fast = _compiled(_caller(operator), mode)
        expected = _outcome(_caller(operator), sample)
        return next(filter(None, (_difference(expected, _outcome(fast, sample)) for _ in range(2))), "")
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _wrong_in_threads(operator: Any, sample: Arguments) -> str:
    def run(fast: Callable[..., Any], mine: Arguments, expected: Sequence[torch.Tensor]) -> str:
        found = (_difference(expected, _outcome(fast, mine)) for _ in range(_CALLS_OF_THREAD))
        return next(filter(None, found), "")

    def other(x: torch.Tensor) -> torch.Tensor:
        return x + x if x.is_floating_point() else x

    try:
        fast = _compiled(_caller(operator), "npugraph_ex")
        both = [sample, pytree.tree_map_only(torch.Tensor, other, sample)]
        expected = [_outcome(_caller(operator), mine) for mine in both]
        _outcome(fast, sample)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return next(filter(None, pool.map(functools.partial(run, fast), both, expected)), "")
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _gradient(operator: Any, sample: Arguments) -> Check:
    name = "its gradient is the one of finite differences"

    def wanted(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float64).requires_grad_() if x.is_floating_point() else x

    names = [name for name, value in sample.items() if isinstance(value, torch.Tensor) and value.is_floating_point()]
    exact = copied(pytree.tree_map_only(torch.Tensor, lambda x: wanted(x.detach().clone()), sample))
    if operator._schema.is_mutable or not names:
        return Check(name, note="it has none: it writes its arguments, or takes no floating-point tensor")
    exact |= {name: wanted(exact[name].detach()) for name in names}
    try:
        results = _tensors(operator(**exact))
    except Exception as error:
        return Check(name, note=f"not checked, the operator does not take float64: {error}")
    differentiable = [x for x in results if x.grad_fn is not None and "NotImplemented" not in x.grad_fn.name()]
    if not differentiable:
        return Check(name, note="it has none; torch.library.register_autograd adds one")

    def call(*tensors: torch.Tensor) -> Any:
        return tuple(_tensors(operator(**exact | dict(zip(names, tensors, strict=True)))))

    try:
        torch.autograd.gradcheck(call, [exact[name] for name in names])
    except Exception as error:
        return Check(name, str(error))
    return Check(name)
