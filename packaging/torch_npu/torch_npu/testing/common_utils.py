# SPDX-License-Identifier: Apache-2.0
"""Tensors, devices and conditions for tests."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import unittest
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
import torch

from torch_npu.npu.cann import _is_gte_cann_version

SEED = 1234
_DEVICE = "SET_NPU_DEVICE"  # the variable that names the device of tests


def get_npu_device() -> str:
    """Returns the device that tests use: SET_NPU_DEVICE, or npu:0."""
    return os.environ.get(_DEVICE) or "npu:0"


def set_npu_device() -> None:
    """Makes the device that tests use the current one."""
    torch.npu.set_device(get_npu_device())


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    """Context manager that restores the random states of the CPU and of npu at its end."""
    cpu, npu = torch.get_rng_state(), torch.npu.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        torch.npu.set_rng_state(npu)


def iter_indices(tensor: torch.Tensor) -> Iterable[Any]:
    """Returns the indices of all elements: numbers for a vector, tuples for other tensors."""
    if tensor.dim() == 1:
        return range(tensor.size(0))
    return itertools.product(*map(range, tensor.size()))


def is_iterable(obj: Any) -> bool:
    """Whether ``obj`` can be iterated over."""
    try:
        iter(obj)
    except TypeError:
        return False
    return True


def create_common_tensor(
    item: list[Any], minValue: float, maxValue: float, device: str | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns random numbers on the CPU and on npu. ``item`` is [type of numpy, format of the npu tensor, shape]."""
    dtype, npu_format, shape = item
    cpu = torch.from_numpy(np.random.uniform(minValue, maxValue, shape).astype(dtype))
    return cpu, _on_npu(cpu, npu_format, device)


def _on_npu(cpu: torch.Tensor, npu_format: int, device: str | None) -> torch.Tensor:
    npu = cpu.to(device or get_npu_device())
    return npu if npu_format == -1 else torch.ops.npu.npu_format_cast(npu, npu_format)


def create_dtype_tensor(
    shape: list[int] | tuple[int, ...],
    dtype: torch.dtype,
    npu_format: int = -1,
    min_value: float = -5,
    max_value: float = 5,
    no_zero: bool = False,
    device: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns random numbers of a type of torch, on the CPU and on npu. With ``no_zero`` they have ones in the place of
    zeros."""
    if dtype == torch.bool:
        cpu = torch.randint(0, 2, shape, dtype=dtype)
    elif dtype.is_floating_point or dtype.is_complex:
        cpu = (torch.rand(shape, dtype=torch.float64) * (max_value - min_value) + min_value).to(dtype)
    else:
        cpu = torch.randint(int(min_value), int(max_value) + 1, shape).to(dtype)
    if no_zero:
        cpu = torch.where(cpu == 0, torch.ones_like(cpu), cpu)
    return cpu, _on_npu(cpu, npu_format, device)


def test_2args_broadcast(fn: Callable) -> None:
    """Compares ``fn`` of two tensors on npu with ``fn`` of the same tensors on the CPU, for shapes that broadcast."""
    for one, other in (((2, 3), (3,)), ((1,), (2, 2)), ((4, 1), (1, 5)), ((), (3,))):
        a, b = torch.randn(one), torch.randn(other)
        torch.testing.assert_close(fn(a.npu(), b.npu()).cpu(), fn(a, b))


test_2args_broadcast.__test__ = False


def check_operators_in_prof(
    expected_operators: Iterable[str], prof: Any, unexpected_operators: Iterable[str] | None = None
) -> bool:
    """Whether a profile has all expected operators and none of the unexpected ones."""
    names = {event.key for event in prof.key_averages()}
    return set(expected_operators) <= names and not set(unexpected_operators or ()) & names


class _SkipUnless:
    """Decorator: skips the test, with a reason, unless a condition holds when it runs."""

    def holds(self) -> bool:
        raise NotImplementedError

    reason = ""

    def __call__(self, fn: Callable) -> Callable:
        @functools.wraps(fn)
        def call(*args, **kwargs):
            if not self.holds():
                raise unittest.SkipTest(self.reason)
            return fn(*args, **kwargs)

        return call


class SkipIfNoLapack(_SkipUnless):
    """Skips if torch was built without LAPACK."""

    reason = "torch is built without LAPACK"

    def __call__(self, fn: Callable) -> Callable:
        return super().__call__(fn)

    def holds(self) -> bool:
        return torch._C.has_lapack


class SkipIfNotRegistered:
    """Decorator: skips a test that fails because something is not registered, as its RuntimeError says."""

    def __call__(self, message: str) -> Callable:
        def decorate(fn: Callable) -> Callable:
            @functools.wraps(fn)
            def call(*args, **kwargs):
                try:
                    return fn(*args, **kwargs)
                except RuntimeError as error:
                    if "not registered" in str(error):
                        raise unittest.SkipTest(message) from error
                    raise

            return call

        return decorate


class SupportedDevices(_SkipUnless):
    """Skips unless the name of the device begins with one of these, for example Ascend910B."""

    def __init__(self, supported_devices: list[str]):
        self._devices = supported_devices
        self.reason = f"only on {', '.join(supported_devices)}"

    def __call__(self, fn: Callable) -> Callable:
        return super().__call__(fn)

    def holds(self) -> bool:
        name = torch.npu.get_device_name()
        return any(name.startswith(one) for one in self._devices)


class SkipIfNotGteCANNVersion(_SkipUnless):
    """Skips if the vendor's software is older than ``base_version``."""

    def __init__(self, base_version: str, module: str = "CANN"):
        self._version, self._module = base_version, module
        self.reason = f"only from {module} {base_version} on"

    def __call__(self, fn: Callable) -> Callable:
        return super().__call__(fn)

    def holds(self) -> bool:
        return _is_gte_cann_version(self._version, self._module)


class Baseline:
    """Numbers that tests compare with, by name, in a JSON file."""

    changed: ClassVar[dict[str, Baseline]] = {}  # baselines that are not saved, by file

    def __init__(self, baselineFile: str):
        self._path = baselineFile
        self._values: dict[str, Any] = {}
        if os.path.exists(baselineFile):
            with open(baselineFile, encoding="utf-8") as file:
                self._values = json.load(file)

    def get_baseline(self, resourceId: str) -> Any:
        """Returns the number of that name, or None if there is none."""
        return self._values.get(resourceId)

    def set_baseline(self, resourceId: str, baseline: Any) -> None:
        """Keeps a number until ``save_baseline`` or ``dump_baseline``."""
        self._values[resourceId] = baseline
        self.changed[self._path] = self

    def save_baseline(self) -> None:
        """Writes all numbers to the file."""
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump(self._values, file, indent=1, sort_keys=True)
        self.changed.pop(self._path, None)


def dump_baseline() -> None:
    """Saves every ``Baseline`` of this process whose numbers are not saved."""
    for baseline in list(Baseline.changed.values()):
        baseline.save_baseline()


def get_cycles_per_ms() -> float:
    """Returns how far the clock of events (``torch.npu.Event.recorded_time``) goes in a millisecond."""
    return 1e6
