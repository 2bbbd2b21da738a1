# SPDX-License-Identifier: Apache-2.0
"""Random programs of control flow: loops and branches in each other that write inputs, intermediates and views of them.

A seed gives the source of a function of two vectors of four numbers. ``x`` and ``s`` are its arguments, ``v`` and ``w``
are views of ``s`` and of the intermediate ``m``. All numbers are whole, so that results are exact."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop

_CAPTURED = ("x", "s", "m", "v", "w")
_PARTS = ("{}", "{}", "{}[1:]", "{}[::2]", "{}.flip(0)[:1]", "{}.view(-1, 1)[1:]")
_WRITES = ("{}.mul_(2)", "{}.add_(1)", "{}.sub_(t.sum())", "{}.add_(t[:1])", "{}.remainder_(7)", "{}.zero_()")
_READS = ("t + {}.sum()", "t * 2 - {}.sum()", "t.remainder(97) + {}[:1]", "t.flip(0) + {}.sum() + i")

HEADER = """def program(x, s):
    m = s * 2
    v, w = s[1:], m[::2]
    t, i = x * 3, torch.tensor(1)
"""


class _Writer:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def statements(self, depth: int) -> None:
        for _ in range(self.draw.randint(1, 3)):
            kind = self.draw.choice(("write", "write", "read", "flow", "flow") if depth < 3 else ("write", "read"))
            if kind == "flow":
                self.flow(depth)
                continue
            captured = self.draw.choice(_CAPTURED)
            if kind == "write":
                self.add(depth, self.draw.choice(_WRITES).format(self.draw.choice(_PARTS).format(captured)))
            else:
                self.add(depth, f"t = {self.draw.choice(_READS).format(captured)}")

    def flow(self, depth: int) -> None:
        self.count += 1
        number, is_loop = self.count, self.draw.random() < 0.5
        for name in ("body",) if is_loop else ("one", "other"):
            self.add(depth, f"def {name}_{number}({'i, t' if is_loop else 't, i'}):")
            self.statements(depth + 1)
            self.add(depth + 1, "return i + 1, t + 1" if is_loop else "return t + 1")
        captured = self.draw.choice(_CAPTURED)
        if is_loop:
            self.add(depth, f"def goes_on_{number}(i, t):")
            if self.draw.random() < 0.3:
                self.add(depth + 1, self.draw.choice(_WRITES).format(captured))
            self.add(depth + 1, f"return i < {self.draw.randint(0, 3)}")
            start = self.draw.choice(("t", "t", "x", "s", "m"))
            self.add(depth, f"t = while_loop(goes_on_{number}, body_{number}, (i * 0, {start}))[1]")
        else:
            predicate = self.draw.choice(("t.sum() > 9", "i > 0", f"{captured}.sum() < 5"))
            self.add(depth, f"t = torch.cond({predicate}, one_{number}, other_{number}, (t, i))")

    def add(self, depth: int, line: str) -> None:
        self.lines.append("    " * (depth + 1) + line + "\n")

    def source(self) -> str:
        self.statements(0)
        return HEADER + "".join(self.lines) + "    return t, m, v + 0, w * 1\n"


def source_of(seed: int) -> str:
    return _Writer(seed).source()


def function_of(source: str) -> Any:
    namespace: dict[str, Any] = {"torch": torch, "while_loop": while_loop}
    exec(compile(source, "<random program>", "exec"), namespace)
    return namespace["program"]
