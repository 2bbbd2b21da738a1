# SPDX-License-Identifier: Apache-2.0
"""Guards of modules that cost a few loads for each module that nobody has changed.

Before each call Dynamo checks every attribute of every module that the function has read. In a language model these
are thousands of places in memory, and once the weights of a step have displaced them from the caches the check takes
a millisecond. A ``dict`` of Python counts its changes, so the attributes of a module whose dicts have the counts of
the last successful check need not be looked at again. Dynamo knows how to do that
(``config.use_recursive_dict_tags_for_guards``) but then does not see when a module is given another class or a
function another default or another value in a closure. Here all of that is seen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch._dynamo import config
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import GlobalStateSource
from torch._dynamo.types import GuardFilterEntry
from torch._guards import Guard, TracingContext

from npugraph import _C

FEWEST_MODULES = 16  # fewer are checked one by one as quickly

# An argument of the compiled function, or of a function that wraps it; not the module itself.
_ARGUMENT = re.compile(r"(?!self\b)\w+(\['\w+'\]|\[\d+\])?")


def arguments_only(entries: Sequence[GuardFilterEntry]) -> list[bool]:
    """For ``torch.compile(..., options={"guard_filter_fn": npugraph.guards.arguments_only})``: which guards to keep.

    Kept are those of the arguments themselves (types, dtypes, sizes, strides, values of numbers) and of torch's state.
    Devices, dtypes, sizes and strides of parameters, buffers and the tensors of caches are checked in C++ in any case.
    What is given up: a later change of anything else, such as an attribute of the model or of a cache, the number of
    its layers, a hook, a global variable or a default, is not seen; ``torch._dynamo.reset()`` makes it seen.
    """
    return [not entry.name or (not entry.is_global and _is_argument(entry.name)) for entry in entries]


def _is_argument(name: str) -> bool:
    return _ARGUMENT.fullmatch(name) is not None


def install() -> None:
    """Lets the guards of what Dynamo is compiling compare the counts of dicts first. Does nothing outside of Dynamo,
    and where the user has chosen Dynamo's own form of it."""
    context = TracingContext.try_get()
    if context is not None and not config.use_recursive_dict_tags_for_guards:
        context.guards_context.dynamo_guards.add(Guard(GlobalStateSource(), compare_dict_counts_first))


def compare_dict_counts_first(builder: GuardBuilder, _: Guard) -> None:
    """Not a condition itself: it has the finished guards of ``builder`` organised."""
    manager = builder.guard_manager
    finalize = manager.finalize

    def finalize_organised() -> None:
        del manager.finalize  # shows the method of its class again
        modules = [value for value in builder.guard_tree_values.values() if isinstance(value, torch.nn.Module)]
        if len(modules) >= FEWEST_MODULES:
            with config.patch(assume_dunder_attributes_remain_unchanged=False):
                manager.find_tag_safe_roots()
            known = _C.KnownTypes(modules)
            manager.root.add_lambda_guard(known, [f"{len(modules)} modules have the classes that they had"], None)
        finalize()

    manager.finalize = finalize_organised
