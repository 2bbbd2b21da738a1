# SPDX-License-Identifier: Apache-2.0
"""Floating point operations of eager work."""

from __future__ import annotations

from torch.utils.flop_counter import FlopCounterMode


class FlopsCounter:
    """Counts multiplications and additions of matrix products, convolutions and attention, as
    ``torch.utils.flop_counter`` does.

        counter.start(); model(x); counter.stop(); print(counter.get_flops())
    """

    def __init__(self) -> None:
        self._mode: FlopCounterMode | None = None
        self._total = 0

    def start(self) -> None:
        """Starts counting from 0."""
        self._total = 0
        self.resume()

    def resume(self) -> None:
        """Goes on counting after ``pause``."""
        if self._mode is None:
            self._mode = FlopCounterMode(display=False)
            self._mode.__enter__()

    def pause(self) -> None:
        """Stops counting until ``resume``."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._total += self._mode.get_total_flops()
            self._mode = None

    stop = pause

    def get_flops(self) -> list[int]:
        """Returns the count twice: for what was recorded, and for what ran. The two are the same here."""
        return [self._total, self._total]
