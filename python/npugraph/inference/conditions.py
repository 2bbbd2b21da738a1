# SPDX-License-Identifier: Apache-2.0
"""The conditions under which a cached graph may take the place of its function: Dynamo's guards, as data that any
process can test."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from npugraph.fx.dynamo import restricted
from npugraph.inference import plain_values
from npugraph.inference.steps import steps_of, value_of

Json = Any


class NotTestable(Exception):
    """A guard that another process could not test."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """The condition that the property ``kind`` of the value at ``source`` is ``wanted``. ``detail`` is a key, an
    attribute, or another source."""

    kind: str
    source: str
    wanted: Json
    detail: Json = None

    def is_of_call(self, owner: str) -> bool:
        """Whether to test it at every call. That is so if it is about arguments other than ``owner`` (a source) and
        other than a closed-over ``func``, or about values whose changes no dict of Python counts."""
        text = f"{self.source} {self.detail}"
        return "L[" in text.replace(owner, "").replace("L['func']", "") or _UNCOUNTED.search(text) is not None

    def as_json(self) -> Json:
        return dataclasses.astuple(self)


_UNCOUNTED = re.compile(r"__defaults__|__kwdefaults__|cell_contents")


def _keys(value: Any, _: Any) -> Json:
    return [plain_values.of_constant(key) for key in value]


def _has(value: Any, name: str) -> Json:
    return hasattr(value, name)


def _in_attributes(value: Any, name: str) -> Json:
    return name in value.__dict__


def _contains(value: Any, key: Json) -> Json:
    return any(plain_values.of_constant(item) == key for item in value if _is_plain(item))


def _is_plain(value: Any) -> bool:
    try:
        plain_values.of_constant(value)
    except plain_values.NotPlain:
        return False
    return True


LOOKS: dict[str, Callable[[Any, Any], Json]] = {
    "type": lambda value, _: plain_values.of_class(type(value)),
    "name": lambda value, _: plain_values.of_constant(value),
    "constant": lambda value, _: plain_values.of_constant(value),
    "length": lambda value, _: [plain_values.of_class(type(value)), len(value)],
    "count": lambda value, _: len(value),
    "keys": _keys,
    "has": _has,
    "in attributes": _in_attributes,
    "contains": _contains,
    "group": lambda value, _: plain_values.of_group(value),
    "function": lambda value, _: plain_values.of_named(value, depth=0),
}

_KINDS = {
    "TYPE_MATCH": "type",
    **dict.fromkeys(("CLASS_MATCH", "FUNCTION_MATCH", "BUILTIN_MATCH", "MODULE_MATCH"), "name"),
    **dict.fromkeys(("ID_MATCH", "BOOL_MATCH", "NONE_MATCH", "CONSTANT_MATCH", "EQUALS_MATCH"), "constant"),
    "CLOSURE_MATCH": "function",  # the values that it closes over have guards of their own
    "SEQUENCE_LENGTH": "length",
    "EMPTY_NN_MODULE_HOOKS_DICT": "count",
    "DICT_KEYS_MATCH": "keys",
    "MAPPING_KEYS_CHECK": "keys",
    "HASATTR": "has",
    "NOT_PRESENT_IN_GENERIC_DICT": "in attributes",
    **dict.fromkeys(("DICT_CONTAINS", "DICT_NOT_CONTAINS", "SET_CONTAINS", "SET_NOT_CONTAINS"), "contains"),
}
# Guards of process groups. Only the ranks of a group count, because a graph names a group by its ranks.
_OF_GROUPS = {"ID_MATCH", "TYPE_MATCH", "FAKE_SCRIPT_TYPE_MATCH", "OPAQUE_OBJ_GUARD_FN_MATCH"}
_NAME_OF_GROUP = ".group_name"
# Guards of torch's own state, which plain_values.of_torch_state describes as a whole, and guards that are no
# conditions.
_OF_STATE = {"GRAD_MODE", "DETERMINISTIC_ALGORITHMS", "GLOBAL_STATE", "TORCH_FUNCTION_STATE", "DEFAULT_DEVICE"}
_OF_STATE |= {"FUNCTORCH_STACK_MATCH", "AUTOGRAD_SAVED_TENSORS_HOOKS", "DUAL_LEVEL", "SHAPE_ENV"}
_OF_STATE |= {"compare_dict_counts_first", "FSDP_TRAINING_STATE", "NOT_NONE_MATCH"}


# The source of a part of a torch setting (an entry of a config module). torch 2.14 reads settings in functions that
# Dynamo traces. The value of the setting is the condition.
_OF_SETTING = re.compile(r"(G\[[^()]*\.config)\._config\['(\w+)'\]")
# Sources of global variables in the namespace that Python makes for the methods of a named tuple.
_OF_GENERATED = "G['___unnamed_scope_"


def of_guards(output: Any, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> list[Condition]:
    """Returns the conditions under which Dynamo's ``output`` was compiled. All of them hold now. Raises
    ``NotTestable``, which names the first condition that no other process could test."""
    described = _described_tensors(output.shape_env)
    found: dict[Condition | str, Condition] = {}
    for guard in sorted(output.guards, key=lambda guard: guard.sort_key()):
        condition = _of_guard(guard, described, arguments, variables)
        if condition is not None:
            found[repr(condition)] = condition
    conditions = [*found.values(), *(Condition("holds", text, True) for text in _size_guards(output.shape_env))]
    for condition in conditions:
        _check(condition)
    return conditions


def _check(condition: Condition) -> None:
    try:
        for text in (condition.source, condition.detail if condition.kind == "same" else ""):
            if text and steps_of(text) is None:
                restricted.expression(text)
    except restricted.Refused as refused:
        raise NotTestable(str(refused)) from None


def _of_guard(guard: Any, described: Mapping[str, Any], arguments: Any, variables: Any) -> Condition | None:
    name, source = guard.create_fn_name(), guard.name
    if name in _OF_STATE or source.startswith(_OF_GENERATED):
        return None
    keywords = getattr(guard.create_fn, "keywords", {})
    setting = _OF_SETTING.search(source)
    try:
        if setting is not None:
            source = ".".join(setting.groups())
            return Condition("constant", source, plain_values.of_constant(value_of(source, arguments, variables)))
        if name == "DUPLICATE_INPUT":
            return Condition("same", source, True, keywords["source_b"].name)
        if source.endswith(_NAME_OF_GROUP):
            group = value_of(source.removesuffix(_NAME_OF_GROUP), arguments, variables)
            if plain_values.is_group(group):
                return Condition("group", source.removesuffix(_NAME_OF_GROUP), plain_values.of_group(group))
        value = value_of(source, arguments, variables)
        if name == "TENSOR_MATCH":
            sizes = described.get(source, (list(value.shape), list(value.stride())))
            return Condition("tensor", source, plain_values.of_tensor(value, *sizes))
        kind = "group" if name in _OF_GROUPS and plain_values.is_group(value) else _KINDS.get(name)
        if kind is None:
            raise NotTestable(f"{name} of {source}")
        detail = keywords.get("attr")
        if "key" in keywords:
            detail = plain_values.of_constant(keywords["key"])
        return Condition(kind, source, LOOKS[kind](value, detail), detail)
    except (restricted.Refused, plain_values.NotPlain) as error:
        raise NotTestable(f"{name} of {source}: {error}") from None


def _described_tensors(shape_env: Any) -> dict[str, tuple[Json, Json]]:
    """Returns sizes and strides by source. Those that are not fixed are None."""
    found = {}
    for fake in shape_env.tracked_fakes or ():
        if isinstance(fake.fake, torch.Tensor):
            found[fake.source.name] = (_fixed(fake.fake.shape), _fixed(fake.fake.stride()))
    return found


def _fixed(sizes: Sequence[Any]) -> list[int | None]:
    return [_number(size) for size in sizes]


def _number(size: Any) -> int | None:
    if type(size) is int:
        return size
    expr = size.node.expr  # a number if the model has fixed the symbol
    return int(expr) if expr.is_Integer else None


def _size_guards(shape_env: Any) -> list[str]:
    fakes = shape_env.tracked_fakes or []
    (parts,) = shape_env.produce_guards_verbose(
        [fake.fake for fake in fakes],
        [fake.source for fake in fakes],
        input_contexts=[fake.symbolic_context for fake in fakes],
        ignore_static=True,
        source_ref=lambda source: source.name,
        langs=("python",),
    )
    return list(parts.exprs)


def predicate(condition: Condition) -> Callable[[Any], bool]:
    """Returns a test of the value at the condition's source. If the test raises an error, the condition does not
    hold."""
    wanted, detail = condition.wanted, condition.detail
    if condition.kind == "tensor":
        return plain_values.tensor_test(wanted)
    if condition.kind == "type":
        return _class_test(wanted)
    look = LOOKS[condition.kind]
    return lambda value: look(value, detail) == wanted


def _class_test(wanted: str) -> Callable[[Any], bool]:
    known: dict[type, bool] = {}

    def test(value: Any) -> bool:
        kind = type(value)
        if kind not in known:
            known[kind] = plain_values.of_class(kind) == wanted
        return known[kind]

    return test
