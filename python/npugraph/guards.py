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

import torch
from torch._dynamo import config
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import GlobalStateSource
from torch._guards import Guard, TracingContext

from npugraph import _C

FEWEST_MODULES = 16  # fewer are checked one by one as quickly


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
