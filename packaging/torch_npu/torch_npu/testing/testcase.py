# SPDX-License-Identifier: Apache-2.0
"""unittest's ``TestCase`` with comparisons of tensors within a tolerance."""

from __future__ import annotations

import math
import sys
import unittest
import warnings
from collections.abc import Callable
from typing import Any

import expecttest
import numpy as np
import torch
from torch.testing._internal.common_utils import set_rng_seed

_SEED = 1234


def run_tests() -> None:
    """Runs the tests of the main module."""
    unittest.main(argv=sys.argv)


def _array(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    return value


class TestCase(expecttest.TestCase):
    """unittest's TestCase. Each test starts with the same seeds."""

    _precision = 1e-5
    maxDiff = None

    def __init__(self, method_name: str = "runTest"):
        super().__init__(method_name)

    @property
    def precision(self) -> float:
        """The tolerance of ``assertEqual`` if none is given."""
        return self._precision

    @precision.setter
    def precision(self, prec: float) -> None:
        self._precision = prec

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()

    def setUp(self) -> None:
        set_rng_seed(_SEED)

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        return super().run(result)

    def assertRtolEqual(
        self,
        x: Any,
        y: Any,
        prec: float = 1e-4,
        prec16: float = 1e-3,
        auto_trans_dtype: bool = False,
        message: str | None = None,
    ) -> None:
        """Fails if more than a share ``prec`` of elements (``prec16`` for 16-bit types) differs both by more than
        ``prec`` and by more than ``prec`` of the larger one. Also fails if types, shapes or NaNs differ.

        Args:
            x, y: tensors, arrays or numbers; or lists of them.
            auto_trans_dtype: whether types may differ.
        """
        if isinstance(x, list | tuple) and isinstance(y, list | tuple):
            self.assertEqual(len(x), len(y))
            for one, other in zip(x, y, strict=True):
                self.assertRtolEqual(one, other, prec, prec16, auto_trans_dtype, message)
            return
        narrow = any(getattr(value, "dtype", None) in (torch.bfloat16, torch.float16, np.float16) for value in (x, y))
        x, y = np.asarray(_array(x)), np.asarray(_array(y))
        if x.shape != y.shape:
            self.fail(message or f"shapes differ: {x.shape} and {y.shape}")
        if x.dtype != y.dtype and not auto_trans_dtype:
            self.fail(message or f"types differ: {x.dtype} and {y.dtype}")
        self._compare(x, y, prec16 if narrow else prec, message)

    def _compare(self, x: np.ndarray, y: np.ndarray, prec: float, message: str | None) -> None:
        if x.dtype.kind not in "fc" and y.dtype.kind not in "fc":
            wrong = x != y
        else:
            kind = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
            x, y = x.astype(kind), y.astype(kind)
            if not np.array_equal(np.isnan(x), np.isnan(y)):
                self.fail(message or "NaNs are at different places")
            with np.errstate(invalid="ignore"):
                difference = np.where((x == y) | np.isnan(x), 0, np.abs(x - y))
                largest = np.maximum(np.abs(x), np.abs(y))
                wrong = (difference > prec) & ~(difference <= prec * largest)
                wrong |= np.isinf(difference)
        allowed = x.size * prec
        if np.count_nonzero(wrong) > allowed:
            self.fail(message or f"{np.count_nonzero(wrong)} of {x.size} elements differ, allowed are {int(allowed)}")

    def assertEqual(
        self,
        x: Any,
        y: Any,
        prec: float | str | None = None,
        message: str = "",
        allow_inf: bool = False,
        exact_dtype: bool | None = None,
    ) -> None:
        """Fails if tensors or numbers differ by more than ``prec``, or if other values are not equal."""
        if isinstance(prec, str):
            prec, message = None, prec
        prec = self.precision if prec is None else prec
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            torch.testing.assert_close(
                x.detach().cpu(),
                y.detach().cpu(),
                rtol=0,
                atol=prec,
                equal_nan=True,
                check_dtype=bool(exact_dtype),
                msg=message or None,
            )
        elif isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
            number, tensor = (y, x) if isinstance(x, torch.Tensor) else (x, y)
            self.assertEqual(tensor.item(), number, prec, message, allow_inf)
        elif isinstance(x, float) or isinstance(y, float):
            if x != y and not (math.isnan(x) and math.isnan(y)):
                super().assertLessEqual(abs(x - y), prec, message or None)
        elif isinstance(x, list | tuple) and isinstance(y, list | tuple):
            super().assertEqual(len(x), len(y), message or None)
            for one, other in zip(x, y, strict=True):
                self.assertEqual(one, other, prec, message, allow_inf, exact_dtype)
        else:
            super().assertEqual(x, y, message or None)

    def assertTensorsSlowEqual(
        self, x: torch.Tensor, y: torch.Tensor, prec: float | None = None, message: str = ""
    ) -> None:
        """Calls ``assertEqual`` on tensors."""
        self.assertEqual(x, y, prec, message)

    def assertAlmostEqual(
        self,
        x: Any,
        y: Any,
        places: int | None = None,
        msg: str | None = None,
        delta: float | None = None,
        allow_inf: bool | None = None,
    ) -> None:
        """Fails if the two differ by more than ``delta``, or by more than ``10**-places``."""
        if places:
            delta = 10**-places
        self.assertEqual(x, y, delta, msg or "", bool(allow_inf))

    def assertNotEqual(self, x: Any, y: Any, prec: float | None = None, message: str = "") -> None:
        """Fails if ``assertEqual`` does not fail."""
        try:
            self.assertEqual(x, y, prec, message)
        except AssertionError:
            return
        self.fail(message or f"{x} and {y} are equal")

    def assertObjectIn(self, obj: Any, iterable: Any) -> None:
        """Fails unless ``obj`` itself is in ``iterable``."""
        if not any(one is obj for one in iterable):
            self.fail(f"{obj!r} is not in it")

    def assertExpectedRaises(self, exc_type: type[BaseException], call_fn: Callable, *args, **kwargs) -> None:
        """Fails unless the call raises ``exc_type`` with the expected text."""
        subname = kwargs.pop("subname", None)
        with self.assertRaises(exc_type) as caught:
            call_fn(*args, **kwargs)
        self.assertExpectedStripMangled(str(caught.exception), subname)

    def assertExpectedStripMangled(self, s: str, subname: str | None = None) -> None:
        """Calls expecttest's ``assertExpected`` on the text."""
        self.assertExpected(s, subname)

    def _warnings(self, call_fn: Callable) -> list[warnings.WarningMessage]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call_fn()
        return caught

    def assertNotWarn(self, call_fn: Callable, msg: str = "") -> None:
        """Fails if the call warns."""
        self.assertEqual(len(self._warnings(call_fn)), 0, message=msg)

    def assertWarns(self, call_fn: Callable, msg: str = "") -> None:
        """Fails unless the call warns."""
        self.assertGreater(len(self._warnings(call_fn)), 0, msg or None)

    def maybeWarnsRegex(self, category: type[Warning], regex: str = "") -> Any:
        """Context manager. What runs inside of it may warn, but only with ``category`` and a text that matches
        ``regex``."""
        return _MayWarn(self, category, regex)

    def genSparseTensor(
        self, size: list[int], sparse_dim: int, nnz: int, is_uncoalesced: bool, device: str = "cpu"
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns a sparse tensor of random indices and values, its indices and its values."""
        values = torch.randn(nnz, *size[sparse_dim:], device=device)
        indices = torch.stack([torch.randint(0, extent, (nnz,), device=device) for extent in size[:sparse_dim]])
        if is_uncoalesced:
            values = torch.cat([values, torch.randn_like(values)])
            indices = torch.cat([indices, indices], 1)
        made = torch.sparse_coo_tensor(indices, values, size)
        made = made if is_uncoalesced else made.coalesce()
        return made, made._indices().clone(), made._values().clone()

    def safeToDense(self, t: torch.Tensor) -> torch.Tensor:
        """Returns a sparse tensor as a dense one."""
        return self.safeCoalesce(t).to_dense()

    def safeCoalesce(self, t: torch.Tensor) -> torch.Tensor:
        """Returns a sparse tensor coalesced."""
        return t.coalesce()


class _MayWarn:
    def __init__(self, case: TestCase, category: type[Warning], regex: str):
        self._case, self._category, self._regex = case, category, regex
        self._catch = warnings.catch_warnings(record=True)

    def __enter__(self) -> None:
        self._caught = self._catch.__enter__()
        warnings.simplefilter("always")

    def __exit__(self, *exc: Any) -> None:
        self._catch.__exit__(*exc)
        if exc[0] is not None:
            return
        for one in self._caught:
            if not issubclass(one.category, self._category):
                self._case.fail(f"unexpected warning: {one.message}")
            self._case.assertRegex(str(one.message), self._regex)
