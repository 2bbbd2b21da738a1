# SPDX-License-Identifier: Apache-2.0
"""Makes random programs.

A seed gives small whole numbers (``Draft``), which are decoded into steps that can run. Every candidate step is tried
in eager mode on the arguments of each size. It is left out if it raises, or if eager's own result would depend on the
order of overlapping writes. So every draft is a valid program, even if parts of it have been removed.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

import torch

from tests.python.fuzz import features
from tests.python.fuzz.memory import has_internal_overlap, overlaps, same_view, storage_key
from tests.python.fuzz.operators import GROUPS, PRODUCTS, SIZES, Operator, Write
from tests.python.fuzz.program import Program, values
from tests.python.fuzz.slots import DTYPES, KNOWN_DTYPES, Slots

Sizes = tuple[str, ...]
SHAPES: tuple[Sizes, ...] = (
    ("n", "3"),
    ("n",),
    ("n", "n"),
    ("2", "n", "3"),
    ("3", "2"),
    (),
    ("n", "1"),
    ("3", "n"),
    ("2", "1", "4", "n"),
    ("4",),
    ("n", "0"),
)
# Most of these have n rows, or a sum of n and a number, and 4 columns. So products fit, and their results are as long
# as other inputs, or longer.
SUMS: tuple[Sizes, ...] = (
    *[("n", "4")] * 4,
    *[("n + 7", "4")] * 3,
    *[("4", "4")] * 3,
    ("2 * n", "4"),
    ("n + 2", "4"),
    ("n",),
    ("3", "n", "4"),
    ("3", "n + 3", "4"),
    ("4", "n"),
    ("1", "3", "n + 2", "n"),
    ("2", "4", "n + 3"),
    ("n", "n + 2"),
    ("n + 2",),
)
MAX_ELEMENTS = 1500

# Ways to make an argument: the sizes of its base, and the view of the base that the function takes. {s} stands for the
# argument's sizes.
BASES: tuple[tuple[Callable[[Sizes], Sizes], str], ...] = (
    (lambda s: s, ""),
    (lambda s: (*s[:-1], f"2 * {s[-1]}"), "[..., ::2]"),
    (lambda s: (*s[1:], s[0]), ".movedim(-1, 0)"),
    (lambda s: (f"{s[0]} + 1", *s[1:]), "[1:]"),
    (lambda s: (f"{s[0]} + 1", *s[1:]), "[:-1]"),
    (lambda s: ("1", *s[1:]), ".expand({s})"),
)
# Arguments that share memory with an earlier one (or its base).
ALIASES = (
    "",
    "[1:]",
    "[:-1]",
    ".view(-1)",
    ".movedim(0, -1)",
    "[..., ::2]",
    "[0]",
    "[..., 1:]",
    ".unsqueeze(0)",
    "[:, 0]",
)


@dataclasses.dataclass(frozen=True)
class Family:
    """The inputs and steps that programs are made of. With ``gradients``, gradients of the inputs are results, too.

    A chain is drawn in place of a single step. Each of its tuples gives one step, of a group in the tuple, which reads
    the value of the step before it. Faults of fused tasks need such a sequence without other readers between, which
    single steps seldom make.
    """

    shapes: tuple[Sizes, ...] = SHAPES
    dtypes: tuple[torch.dtype, ...] = DTYPES
    groups: tuple[str, ...] = tuple(GROUPS)
    aliases: bool = True
    gradients: bool = False
    steps: tuple[int, int] = (3, 10)
    chains: tuple[tuple[tuple[str, ...], ...], ...] = ()

    def draw_steps(self, draw: random.Random) -> Iterator[tuple[str, bool]]:
        """Yields the group of each step, and whether the step reads the last value."""
        if not self.chains or draw.random() < 0.5:
            yield draw.choice(self.groups), False
            return
        for place, groups in enumerate(draw.choice(self.chains)):
            yield draw.choice(groups), place > 0


# The groups of most steps: those that combine sizes of several tensors, products, and operators that follow products.
_MEETINGS = (*(operator.features[0] for operator in (*SIZES, *PRODUCTS, *PRODUCTS)), *["pointwise"] * 12, "reduction")
_PURE = tuple(group for group in GROUPS if not group.endswith(" write") and group != "view of other dtype")
GENERAL = Family()
_PARTS, _PRODUCTS = (tuple(op.features[0] for op in ops) for ops in (SIZES, PRODUCTS))
_CHAINS = (
    (_PRODUCTS, _PARTS, ("pointwise",), ("pointwise",)),
    (_PARTS, _PRODUCTS, ("pointwise",)),
    (_PRODUCTS, ("pointwise",), _PARTS),
)
SIZED = Family(
    SUMS,
    (*[torch.float32] * 5, torch.bfloat16, torch.int64),
    (*GROUPS, *_MEETINGS, *_MEETINGS),
    steps=(2, 5),
    chains=_CHAINS,
)
TRAINED = Family(
    SUMS,
    (*[torch.float32] * 5, torch.int64),
    (*_PURE, *_MEETINGS, *_MEETINGS),
    aliases=False,
    gradients=True,
    steps=(2, 5),
    chains=_CHAINS,
)


# The numbers of a step are drawn below this bound. A number is taken modulo the number of choices.
_NUMBERS = 32


@dataclasses.dataclass(frozen=True)
class Draft:
    """The drawn numbers of a program. ``decode`` makes the program, which is valid for each n of ``sizes``."""

    family: Family
    sizes: tuple[int, ...]
    inputs: tuple[tuple[int, torch.dtype, int, int, int], ...]
    steps: tuple[tuple[str, int, tuple[int, ...]], ...]
    outputs: tuple[int, ...]

    @staticmethod
    def of_seed(seed: int, family: Family, sizes: Sequence[tuple[int, ...]]) -> Draft:
        draw = random.Random(seed)

        def numbers(count: int) -> tuple[int, ...]:
            return tuple(draw.randrange(_NUMBERS) for _ in range(count))

        kinds = len(BASES) + (4 if family.aliases else 0)
        return Draft(
            family,
            draw.choice(sizes),
            tuple(
                (
                    draw.choice((0, draw.randrange(kinds))),
                    draw.choice(family.dtypes),
                    draw.randrange(len(family.shapes)),
                    *numbers(2),
                )
                for _ in range(draw.randint(1, 4))
            ),
            tuple(
                # Slots takes an odd number as the last value.
                (group, *numbers(1), (*(n | goes_on for n in numbers(1)), *numbers(5)))
                for _ in range(draw.randint(*family.steps))
                for group, goes_on in family.draw_steps(draw)
            ),
            numbers(draw.randint(1, 4)),
        )

    def smaller(self) -> Iterator[Draft]:
        """Yields the drafts that lack one part of this one."""
        for part in ("steps", "inputs", "outputs"):
            entries = getattr(self, part)
            for i in range(len(entries)):
                yield dataclasses.replace(self, **{part: entries[:i] + entries[i + 1 :]})

    def decode(self) -> Program:
        builder = _Builder(self.sizes, self.family)
        for raw in self.inputs:
            builder.add_input(*raw)
        if not builder.parameters:
            builder.add_input(0, torch.float32, 0, 0, 0)
        builder.start()
        for group, index, numbers in self.steps:
            builder.add_step(GROUPS[group][index % len(GROUPS[group])], list(numbers))
        return builder.finish(self.outputs)


class _Builder:
    """Builds a program step by step. Keeps the values of eager mode for each size."""

    def __init__(self, sizes: tuple[int, ...], family: Family) -> None:
        self.sizes = sizes
        self.family = family
        self.inputs: list[tuple[str, str]] = []
        self.parameters: list[str] = []
        self.lines: list[str] = []
        self.features: set[str] = set()
        self.envs: list[dict[str, torch.Tensor]] = [{} for _ in sizes]
        self.names: list[str] = []  # names of the values that steps can use
        # Storages whose values may differ in the last bits -> the coarsest type to which the values were rounded.
        self.rounded: dict[int, torch.dtype] = {}
        self.promoted = torch.float64  # the coarsest type of values that were rounded and then promoted
        self.either_zero: set[int] = set()  # storages in which eager may have 0.0 or -0.0
        self.reinterpreted: set[int] = set()  # storages whose bits are also read as another type
        self.written: set[int] = set()  # storages
        self.unused: dict[str, None] = {}  # values that no later step reads, in order
        self.next_name = 0

    # Inputs

    def add_input(self, kind: int, dtype: torch.dtype, shape: int, a: int, b: int) -> None:
        name, base = f"x{len(self.parameters)}", f"base{len(self.parameters)}"
        if kind >= len(BASES) and self.inputs:
            of = self.inputs[-1 - a % len(self.inputs)][0]
            lines = [(name, of + ALIASES[b % len(ALIASES)])]
        else:
            sizes = self.family.shapes[shape]
            base_sizes, take = BASES[kind % len(BASES) if sizes else 0]
            made = f"values({_tuple(base_sizes(sizes))}, {dtype}, seed + {len(self.inputs)})"
            lines = [(base, made), (name, base + take.format(s=_tuple(sizes)))]
        if self.try_lines(lines):
            self.inputs += lines
            self.parameters.append(name)

    def try_lines(self, lines: list[tuple[str, str]]) -> bool:
        """Evaluates lines for all sizes. If a line raises, returns False and keeps no value."""
        found: list[dict[str, torch.Tensor]] = []
        for n, env in zip(self.sizes, self.envs, strict=True):
            new: dict[str, torch.Tensor] = {}
            try:
                for name, expression in lines:
                    new[name] = _evaluate(expression, {**env, **new, "n": n, "seed": 0})
            except (RuntimeError, IndexError, ValueError, TypeError):
                return False
            found.append(new)
        for env, new in zip(self.envs, found, strict=True):
            env.update(new)
        return True

    def start(self) -> None:
        """Ends the inputs and begins the steps. Steps cannot name the bases, but ``alive`` keeps them alive."""
        self.alive = [dict(env) for env in self.envs]
        self.envs = [{name: env[name] for name in self.parameters} for env in self.envs]
        self.names = list(self.parameters)
        self.input_storages = {storage_key(t) for t in self.envs[0].values()}
        self.features |= set(features.of_inputs([self.envs[0][name] for name in self.parameters]))
        if len(self.sizes) > 1:
            self.features.add("symbolic sizes")
            self.features |= {"gradients"} if self.family.gradients else set()
            self.features |= {"size 1 where compiled for more"} if 1 in self.sizes[1:] and self.sizes[0] > 1 else set()

    # Steps

    def add_step(self, operator: Operator, numbers: list[int]) -> None:
        """Adds the step with the operands that the numbers select or, if it cannot run, with the operands of the
        numbers plus 1, 2 or 3."""
        for offset in range(4):
            if self.try_step(operator, [number + offset for number in numbers]):
                return

    def try_step(self, operator: Operator, numbers: list[int]) -> bool:
        slots = Slots(self.envs[0], self.names, numbers)
        source = slots.fill(operator.template)
        if source is None or not self.is_allowed(operator, slots):
            return False
        if operator.write is Write.METADATA and not self.keeps_rank(source, slots.used["x"]):
            return False
        results = [self.run(source, operator.statement, env) for env in self.envs]
        if any(result is None for result in results):
            return False
        shapes = {tuple((t.dtype, t.dim()) for t in result) for result in results}
        if len(shapes) != 1 or len(results[0]) > 4 or not all(_is_usable(t) for result in results for t in result):
            return False
        self.note_features(operator, slots, results[0])
        self.note_freedom(operator, slots, results[0])
        self.note_use(operator, slots)
        self.keep(source, operator.statement, results)
        return True

    def keeps_rank(self, source: str, name: str) -> bool:
        """Whether a step that changes a tensor's sizes gives the same number of dimensions in each environment."""
        tried = [self.run(source, False, {**env, name: env[name].detach()}) for env in self.envs]
        return all(tried) and len({result[0].dim() for result in tried if result}) == 1

    def run(self, source: str, statement: bool, env: dict[str, torch.Tensor]) -> list[torch.Tensor] | None:
        """Returns the results of a step, or None if it cannot run."""
        try:
            if statement:
                exec(source, {"torch": torch, "F": torch.nn.functional, **env})
                return []
            result = _evaluate(source, env)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return None
        # A list of one result is refused, because the program's line would have to unpack it.
        return [result] if isinstance(result, torch.Tensor) else list(result) if len(result) > 1 else None

    def keep(self, source: str, statement: bool, results: list[list[torch.Tensor]]) -> None:
        names = []
        for _ in results[0]:
            names.append(f"v{self.next_name}")
            self.next_name += 1
        for env, result in zip(self.envs, results, strict=True):
            env.update(zip(names, result, strict=True))
        self.lines.append(source if statement else f"{', '.join(names)} = {source}")
        self.names += names
        self.unused.update(dict.fromkeys(names))

    def note_use(self, operator: Operator, slots: Slots) -> None:
        for name in slots.used.values():
            self.unused.pop(name, None)
        if operator.statement and slots.used["x"] not in self.parameters:
            self.unused[slots.used["x"]] = None

    def is_allowed(self, operator: Operator, slots: Slots) -> bool:
        """Whether eager's result is the only right one."""
        jumps = operator.jumps or (operator.kinked and self.family.gradients)
        if jumps and _any_in(self.rounded, slots.tensors()):
            return False
        if operator.reads_bits and _any_in(self.either_zero, slots.tensors()):
            return False
        if operator.write is Write.NONE:
            return True
        is_free = self.rounds(operator, slots) or self.leaves_zeros_open(operator, slots)
        if is_free and storage_key(slots.tensors()[0]) in self.reinterpreted:
            return False
        for env in self.envs:
            target = env[slots.used["x"]]
            others = [env[name] for slot, name in slots.used.items() if slot != "x"]
            if has_internal_overlap(target):
                return False
            if operator.write is Write.METADATA and (storage_key(target) in self.input_storages or target._is_view()):
                return False
            permitted = same_view if operator.write is Write.ELEMENTWISE else lambda a, b: False
            if any(overlaps(target, other) and not permitted(target, other) for other in others):
                return False
        return True

    def note_features(self, operator: Operator, slots: Slots, results: list[torch.Tensor]) -> None:
        self.features |= set(operator.features)
        dtypes = {t.dtype for t in slots.tensors()}
        if len(dtypes) > 1:
            self.features.add("mixed dtypes")
        self.features |= set(features.of_values([*slots.tensors(), *results]))
        if operator.write in (Write.ELEMENTWISE, Write.SCATTERED):
            self.written.add(storage_key(slots.tensors()[0]))
            # An operator that writes returns the tensor that it wrote, which may be a view of x.
            target = results[0] if results else slots.tensors()[0]
            parameters = [self.envs[0][name] for name in self.parameters]
            self.features |= set(features.of_write(target, parameters, self.envs[0].values()))

    def rounds(self, operator: Operator, slots: Slots) -> bool:
        operands = slots.tensors()
        return (operator.inexact and operands[0].is_floating_point()) or _any_in(self.rounded, operands)

    def leaves_zeros_open(self, operator: Operator, slots: Slots) -> bool:
        operands = slots.tensors()
        chooses = operator.either_zero and any(t.is_floating_point() for t in operands)
        return chooses or _any_in(self.either_zero, operands)

    def note_freedom(self, operator: Operator, slots: Slots, results: list[torch.Tensor]) -> None:
        """Notes the storages in which a right result may differ from eager's: in last bits, or in the sign of zeros."""
        operands = slots.tensors()
        written = [operands[0]] if operator.write is not Write.NONE else []
        if self.leaves_zeros_open(operator, slots):
            self.either_zero |= {storage_key(t) for t in (*results, *written)}
        if self.rounds(operator, slots):
            roundings = [operands[0].dtype] if operator.inexact else []
            roundings += [self.rounded[key] for t in operands if (key := storage_key(t)) in self.rounded]
            for t in (*results, *written):
                coarsest = max((*roundings, t.dtype), key=_spacing)
                self.rounded[storage_key(t)] = coarsest
                if _spacing(coarsest) > _spacing(t.dtype) > 0:
                    self.promoted = max(self.promoted, coarsest, key=_spacing)
        dtypes = {storage_key(t): t.dtype for t in operands}
        self.reinterpreted |= {key for t in results for key in (storage_key(t),) if dtypes.get(key, t.dtype) != t.dtype}

    def is_beyond_torch(self, name: str) -> bool:
        """Whether torch's view replay fails on an output, possibly with a segmentation fault. It fails on a view of an
        argument that was written and that shares memory with another argument."""
        storage = storage_key(self.envs[0][name])
        arguments = {id(t) for t in (self.envs[0][p] for p in self.parameters) if storage_key(t) == storage}
        return len(arguments) > 1 and storage in self.written and name not in self.parameters

    def rounding(self) -> torch.dtype:
        """The coarsest type in which values of the program were rounded. Gradients go through all of its types."""
        passed = [t.dtype for t in self.envs[0].values() if t.is_floating_point()] if self.family.gradients else []
        return max([self.promoted, *passed], key=_spacing)

    def finish(self, raw_outputs: Sequence[int]) -> Program:
        """Returns the program. Its outputs are a few values of any age, and all values that no step reads, so that no
        step is without effect."""
        outputs = [self.names[-1 - number % len(self.names)] for number in raw_outputs]
        outputs += [name for name in self.unused if name not in outputs]
        outputs = [name for name in outputs if not self.is_beyond_torch(name)] or self.parameters[:1]
        env = self.envs[0]
        self.features |= set(features.of_outputs([env[name] for name in outputs], [env[p] for p in self.parameters]))
        return Program(
            inputs=tuple(self.inputs),
            parameters=tuple(self.parameters),
            lines=tuple(self.lines),
            outputs=tuple(outputs),
            sizes=self.sizes,
            rounding=self.rounding() if self.rounded or self.family.gradients else None,
            features=frozenset(self.features),
        )


def _any_in(storages: Container[int], tensors: Iterable[torch.Tensor]) -> bool:
    return any(storage_key(t) in storages for t in tensors)


def _tuple(sizes: Sizes) -> str:
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _spacing(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps if dtype.is_floating_point else 0


def _evaluate(expression: str, env: dict[str, Any]) -> Any:
    return eval(expression, {"torch": torch, "F": torch.nn.functional, "values": values, **env})


def _is_usable(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and t.numel() <= MAX_ELEMENTS and t.dtype in KNOWN_DTYPES
