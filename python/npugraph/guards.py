# SPDX-License-Identifier: Apache-2.0
"""Makes guards of modules cost only a few loads for each module that nobody has changed.

Before each call Dynamo checks every attribute of every module that the function has read. In a language model these
are thousands of places in memory, and once the weights of a step have displaced them from the caches, the check takes
a millisecond. A ``dict`` of Python counts its changes. If the dicts of a module have the counts of the last successful
check, its attributes need no other check. Dynamo can do that (``config.use_recursive_dict_tags_for_guards``), but it
then does not see that a module gets another class, or that a function gets another default or another value in a
closure. The guards of this module see all of these changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import torch
from torch._C._dynamo.guards import GuardManager
from torch._dynamo import config
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import GlobalStateSource
from torch._dynamo.types import GuardFilterEntry
from torch._guards import Guard, TracingContext

from npugraph import _C
from npugraph.python_versions import DICTS_TELL_OF_CHANGES

FEWEST_MODULES = 16  # the check of fewer modules one by one is as fast

# The name of an argument of the compiled function, or of a function that wraps it, but not of the module itself.
_ARGUMENT = re.compile(r"(?!self\b)\w+(\['\w+'\]|\[\d+\])?")


def arguments_only(entries: Sequence[GuardFilterEntry]) -> list[bool]:
    """Returns which guards to keep, for
    ``torch.compile(..., options={"guard_filter_fn": npugraph.guards.arguments_only})``.

    It keeps the guards of the arguments themselves (types, dtypes, sizes, strides, values of numbers) and of torch's
    state. C++ code checks devices, dtypes, sizes and strides of parameters, buffers and the tensors of caches in any
    case. Later changes of anything else are not seen until ``torch._dynamo.reset()``. Examples are an attribute of the
    model or of a cache, the number of its layers, a hook, a global variable, and a default.
    """
    return [not entry.name or (not entry.is_global and _is_argument(entry.name)) for entry in entries]


def _is_argument(name: str) -> bool:
    return _ARGUMENT.fullmatch(name) is not None


def install() -> None:
    """Makes the guards of Dynamo's current compile compare the counts of dicts first. Does nothing outside of Dynamo,
    if the user has chosen Dynamo's own form of this check, or if this Python does not tell of all changes of dicts."""
    context = TracingContext.try_get()
    if DICTS_TELL_OF_CHANGES and context is not None and not config.use_recursive_dict_tags_for_guards:
        context.guards_context.dynamo_guards.add(Guard(GlobalStateSource(), compare_dict_counts_first))


def compare_dict_counts_first(builder: GuardBuilder, _: Guard) -> None:
    """Has the finished guards of ``builder`` organised. It is installed as a guard, but is no condition itself."""
    manager = builder.guard_manager
    finalize = manager.finalize

    def finalize_organised() -> None:
        del manager.finalize  # makes the method of the class visible again
        modules = [value for value in builder.guard_tree_values.values() if isinstance(value, torch.nn.Module)]
        if len(modules) >= FEWEST_MODULES:
            with config.patch(assume_dunder_attributes_remain_unchanged=False), _shared_modules_checked():
                manager.find_tag_safe_roots()
            known = _C.KnownTypes(modules)
            manager.root.add_lambda_guard(known, [f"{len(modules)} modules have the classes that they had"], None)
        finalize()

    manager.finalize = finalize_organised


@contextmanager
def _shared_modules_checked() -> Iterator[None]:
    """Within it, Dynamo marks no module that is in two places as one whose check its dicts can replace. That it is the
    same in both places is compared where the second is checked, which happens only if both are. Dynamo excludes tensors
    in two places, but not modules."""

    def unless_shared(mark):
        return lambda node: None if node.has_object_aliasing_guard() else mark(node)

    marks = {name: unless_shared(getattr(GuardManager, name)) for name in ("mark_tag_safe", "mark_tag_safe_root")}
    with mock.patch.multiple(GuardManager, **marks):
        yield
