# SPDX-License-Identifier: Apache-2.0
"""``torchair.scope``: what a block of code says about the operators in it. In GE mode these are attributes of operators
of Ascend IR, by which the engine chooses streams, workers and super kernels. In eager code they do nothing."""

from __future__ import annotations

from typing import Any

import torch

from npugraph.core_limits import check_limits
from npugraph.fx.streams.scope_keys import OPTIONS, SCOPE
from npugraph.fx.streams.stream_marks import INNER_PARALLEL, LABEL, LIMITS, PRIORITY
from npugraph.ge.fx.scopes import DATA_DUMP, NEVER_TIMEOUT, flag

torch.library.register_fake("air::wait_tensor", lambda self, dependency: torch.empty_like(self))
torch.library.register_autograd("air::wait_tensor", lambda context, grad: (grad, None))


class _Scope:
    def __init__(self, **keys: str) -> None:
        self.keys = list(keys)
        self.values = list(keys.values())

    def __enter__(self) -> None:
        torch.ops.air.scope_enter(self.keys, self.values)

    def __exit__(self, *exception: object) -> None:
        torch.ops.air.scope_exit()


class npu_stream_switch(_Scope):
    """Runs the operators of a block on the stream of that name; blocks of one name are one stream. Operators wait for
    the data that they read, also from other streams. The priority and ``enable_inner_parallel`` are kept in the graph
    and change nothing here. Raises TypeError for arguments of other types and ValueError for an empty name."""

    def __init__(self, stream_tag: str, stream_priority: int = 0, enable_inner_parallel: bool = True) -> None:
        _check("npu_stream_switch", "stream_tag", stream_tag, str)
        _check("npu_stream_switch", "stream_priority", stream_priority, int)
        _check("npu_stream_switch", "enable_inner_parallel", enable_inner_parallel, bool)
        if not stream_tag:
            raise ValueError("npu_stream_switch: stream_tag is empty; it has to be the name of a stream")
        priority, parallel = str(stream_priority), flag(enable_inner_parallel)
        super().__init__(**{LABEL: stream_tag, PRIORITY: priority, INNER_PARALLEL: parallel})


def npu_wait_tensor(self: torch.Tensor, dependency: torch.Tensor) -> torch.Tensor:
    """Returns ``self``, which whoever reads it gets only after ``dependency`` is computed. Raises NotImplementedError
    outside of GE mode."""
    return torch.ops.air.wait_tensor(self, dependency)


class super_kernel(_Scope):
    """Makes adjacent tasks of a block one task, with equal results. Blocks of one name that follow each other are one
    block; one of the name None keeps its operators out of the block around it. ``options`` are pairs ``name=value``
    with colons between them. ``strict-scope-check=abort`` makes it an error of the compile if an operator of the block
    cannot be part of the task; the others are kept in the graph and change nothing here. Raises TypeError for arguments
    of other types and ValueError for unknown options."""

    def __init__(self, scope: str | None, options: str = "") -> None:
        if scope is not None:
            _check("super_kernel", "scope", scope, str)
        _check("super_kernel", "options", options, str)
        check_options(options)
        super().__init__(**{SCOPE: scope or "", OPTIONS: options})


class limit_core_num(_Scope):
    """Lets the operators of a block use at most so many workers: ``op_aicore_num`` for products, convolutions and
    attention, ``op_vectorcore_num`` for all others. Limits nest, and the innermost one counts. Raises TypeError for
    numbers that are not integers, and ValueError for numbers below 1 and above the cores of the device."""

    def __init__(self, op_aicore_num: int, op_vectorcore_num: int) -> None:
        check_limits(op_aicore_num, op_vectorcore_num)
        super().__init__(**dict(zip(LIMITS, map(str, (op_aicore_num, op_vectorcore_num)), strict=True)))


class op_never_timeout(_Scope):
    """Exempts the operators of a block from a limit of their time. There is none here, so only the graph says it.
    Raises TypeError for a value that is no bool."""

    def __init__(self, enable: bool = True) -> None:
        _check("op_never_timeout", "enable", enable, bool)
        super().__init__(**{NEVER_TIMEOUT: flag(enable)})


class data_dump(_Scope):
    """Chooses the operators of a block for a dump of their tensors: the graph says it of each of them."""

    def __init__(self) -> None:
        super().__init__(**{DATA_DUMP: flag(True)})


class NpuStreamSwitch(npu_stream_switch):
    """The older name of ``npu_stream_switch``."""

    def __init__(self, stream_tag: str, stream_priority: int = 0) -> None:
        super().__init__(stream_tag, stream_priority)


def _check(who: str, name: str, value: Any, kind: type) -> None:
    if type(value) is not kind:
        raise TypeError(f"{who}: {name} is a {type(value).__name__}; it has to be a {kind.__name__}")


_DIGIT = ("0", "1")
# The values of each option of super kernels; None for a list of names of operators or a number.
_VALUES = {
    "feed-sync-all": _DIGIT,
    "stream-fusion": _DIGIT,
    "strict-scope-check": ("bypass", "abort"),
    "dcci-before-kernel-start": None,
    "dcci-after-kernel-end": None,
    "dcci-disable-on-kernel": None,
    "debug-aic-num": None,
    "debug-aiv-num": None,
}


def check_options(options: str) -> None:
    """Raises ValueError for options that super kernels of Ascend do not have."""
    given: dict[str, str] = {}
    for option in options.split(":") if options else ():
        name, _, value = option.strip().partition("=")
        if name not in _VALUES:
            raise ValueError(f"super_kernel: there is no option {option!r}; options are {', '.join(_VALUES)}")
        allowed = _VALUES[name]
        if not value or (allowed is not None and value not in allowed):
            what = "a value" if allowed is None else " or ".join(allowed)
            raise ValueError(f"super_kernel: option {name!r} takes {what}, got {value!r}")
        given[name] = value
    _check_ratio(given)


def _check_ratio(given: dict[str, str]) -> None:
    numbers = [given.get(name, "0") for name in ("debug-aic-num", "debug-aiv-num")]
    if not all(number.isdecimal() for number in numbers):
        raise ValueError(f"super_kernel: debug-aic-num and debug-aiv-num are numbers, got {' and '.join(numbers)}")
    cube, vector = map(int, numbers)
    if min(cube, vector) > 0 and vector not in (cube, 2 * cube):
        raise ValueError(
            f"super_kernel: debug-aic-num and debug-aiv-num have one of the ratios 1:0, 0:1, 1:1 and 1:2, got "
            f"{cube}:{vector}"
        )
