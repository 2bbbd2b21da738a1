# SPDX-License-Identifier: Apache-2.0
"""Values of attributes of operators, by kind: ``torchair.ge.attr.Int(3)``. Each class checks its value and writes it
into an ``AttrDef``. A value that does not fit raises ``RuntimeError``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from npugraph.ge import data_types, proto

__all__ = [
    "Bool",
    "DataType",
    "Float",
    "Int",
    "ListBool",
    "ListDataType",
    "ListFloat",
    "ListInt",
    "ListListFloat",
    "ListListInt",
    "ListStr",
    "Str",
]


def _int(value: Any) -> int | None:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63 else None


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _str(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None


def _text(value: bytes) -> str:
    return value.decode()


def _type(value: Any) -> int | None:
    try:
        return data_types.as_data_type(value).value
    except RuntimeError:
        return None


def _tensor(value: Any) -> Any:
    return value if isinstance(value, proto.TensorDef) else None


class Attr:
    """A value of one kind."""

    kind: ClassVar[str]  # what Ascend IR calls it
    allowed: ClassVar[str]  # its values in words
    field: ClassVar[str]  # of AttrDef and of AttrDef.ListValue
    element: ClassVar[Callable[[Any], Any]]  # the value as the field takes it; None for one that does not fit
    decode: ClassVar[Callable[[Any], Any]]  # the other way

    def __init__(self, value: Any) -> None:
        self.value = value
        self._stored = self._checked(value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"

    def write(self, attr: Any) -> None:
        """Makes this the value of ``attr``, an ``AttrDef``."""
        setattr(attr, self.field, self._stored)

    @classmethod
    def stored_in(cls, attr: Any) -> Any:
        """The value in ``attr``, which is of this kind."""
        return cls.decode(getattr(attr, cls.field))

    @classmethod
    def is_field(cls, attr: Any) -> bool:
        """Whether the value of ``attr`` is in the field of this kind."""
        return attr.WhichOneof("value") == cls.field

    @classmethod
    def _checked(cls, value: Any) -> Any:
        stored = cls.element(value)
        if stored is None:
            raise cls._refusal(value)
        return stored

    @classmethod
    def _refusal(cls, value: Any) -> RuntimeError:
        return RuntimeError(f"a value of kind {cls.kind} is {cls.allowed}, got {value!r} ({type(value).__name__})")


class Int(Attr):
    kind, allowed, field, element = "Int", "an int of 64 bits", "i", _int
    decode = int


class Float(Attr):
    kind, allowed, field, element = "Float", "a number", "f", _float
    decode = float


class Bool(Attr):
    kind, allowed, field, element = "Bool", "a bool", "b", _bool
    decode = bool


class Str(Attr):
    kind, allowed, field, element = "String", "a str", "s", _str
    decode = _text


class DataType(Attr):
    kind, allowed, field, element = "Type", "a torchair.ge.DataType or a torch.dtype", "dt", _type
    decode = data_types.DataType


class Tensor(Attr):
    """A ``TensorDef``, which ``npugraph.ge.const`` makes."""

    kind, allowed, field, element = "Tensor", "a TensorDef", "t", _tensor
    decode = _tensor

    def write(self, attr: Any) -> None:
        attr.t.CopyFrom(self._stored)


class _List(Attr):
    """Several values of one kind. ``list_type`` is their name in ``AttrDef.ListValue.ListValueType``."""

    of: ClassVar[type[Attr]]
    list_type: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.allowed = f"a list of which each element is {cls.of.allowed}"

    @classmethod
    def _checked(cls, value: Any) -> Any:
        stored = [cls.of.element(part) for part in value] if isinstance(value, (list, tuple)) else [None]
        if None in stored:
            raise cls._refusal(value)
        return stored

    def write(self, attr: Any) -> None:
        attr.list.Clear()
        getattr(attr.list, self.of.field).extend(self._stored)
        attr.list.val_type = attr.list.ListValueType.Value(self.list_type)

    @classmethod
    def stored_in(cls, attr: Any) -> list[Any]:
        return [cls.of.decode(part) for part in getattr(attr.list, cls.of.field)]

    @classmethod
    def is_field(cls, attr: Any) -> bool:
        return attr.HasField("list") and attr.list.ListValueType.Name(attr.list.val_type) == cls.list_type


class _ListOfLists(Attr):
    """Lists of values of one kind; ``message`` is the field of AttrDef."""

    of: ClassVar[type[Attr]]
    message: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.allowed = f"a list of lists, of which each element is {cls.of.allowed}"

    @classmethod
    def _checked(cls, value: Any) -> Any:
        is_nested = isinstance(value, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in value)
        stored = [[cls.of.element(part) for part in row] for row in value] if is_nested else [[None]]
        if any(None in row for row in stored):
            raise cls._refusal(value)
        return stored

    def write(self, attr: Any) -> None:
        message, field = getattr(attr, self.message), self.of.field
        message.Clear()
        message.SetInParent()
        for row in self._stored:
            getattr(getattr(message, f"list_list_{field}").add(), f"list_{field}").extend(row)

    @classmethod
    def stored_in(cls, attr: Any) -> list[list[Any]]:
        field = cls.of.field
        rows = getattr(getattr(attr, cls.message), f"list_list_{field}")
        return [[cls.of.decode(part) for part in getattr(row, f"list_{field}")] for row in rows]

    @classmethod
    def is_field(cls, attr: Any) -> bool:
        return attr.WhichOneof("value") == cls.message


class ListInt(_List):
    of, kind, list_type = Int, "ListInt", "VT_LIST_INT"


class ListFloat(_List):
    of, kind, list_type = Float, "ListFloat", "VT_LIST_FLOAT"


class ListBool(_List):
    of, kind, list_type = Bool, "ListBool", "VT_LIST_BOOL"


class ListStr(_List):
    of, kind, list_type = Str, "ListString", "VT_LIST_STRING"


class ListDataType(_List):
    of, kind, list_type = DataType, "ListType", "VT_LIST_DATA_TYPE"


class ListListInt(_ListOfLists):
    of, kind, message = Int, "ListListInt", "list_list_int"


class ListListFloat(_ListOfLists):
    of, kind, message = Float, "ListListFloat", "list_list_float"


# By what Ascend IR calls them.
KINDS: dict[str, type[Attr]] = {
    kind.kind: kind
    for kind in (
        *(Int, Float, Bool, Str, DataType, Tensor),
        *(ListInt, ListFloat, ListBool, ListStr, ListDataType, ListListInt, ListListFloat),
    )
}


def read(attr: Any) -> Attr | None:
    """The value of an ``AttrDef``; None if it is not just what one of these classes writes."""
    kind = next((kind for kind in KINDS.values() if kind.is_field(attr)), None)
    if kind is None:
        return None
    try:
        value = kind(kind.stored_in(attr))
    except ValueError:  # bytes that are no text, and numbers of types that there are not
        return None
    again = proto.AttrDef()
    value.write(again)
    return value if again.SerializeToString() == attr.SerializeToString() else None
