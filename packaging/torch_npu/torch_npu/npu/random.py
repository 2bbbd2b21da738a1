# SPDX-License-Identifier: Apache-2.0
"""Random numbers of the default generator of each device. Under the same seed they are those of the CPU."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from npugraph import _ascend as _device
from torch_npu.npu._index import DeviceLike, device_index

default_generators: tuple[torch.Generator, ...] = tuple(map(_device.default_generator, range(_device.count())))


def get_rng_state(device: DeviceLike = "npu") -> torch.Tensor:
    """Returns the state of the device's generator, as a CPU tensor of uint8."""
    return default_generators[device_index(device)].get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """Returns the states of all devices' generators, in the order of devices."""
    return [generator.get_state() for generator in default_generators]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "npu") -> None:
    """Puts the device's generator into a state that ``get_rng_state`` returned."""
    default_generators[device_index(device)].set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Puts all devices' generators into the states that ``get_rng_state_all`` returned."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    default_generators[_device.current()].manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices alike."""
    for generator in default_generators:
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device's generator with an unpredictable number."""
    default_generators[_device.current()].seed()


def seed_all() -> None:
    """Seeds the generators of all devices with one unpredictable number."""
    manual_seed_all(default_generators[0].seed())


def initial_seed() -> int:
    """Returns the seed of the current device's generator."""
    return default_generators[_device.current()].initial_seed()
