"""The main job, whose weights become noise after a step; also run as a script, by several ranks."""

import sys
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from learners import aipo
from learners.command_line import parse
from learners.training.trainer import Trainer

RUINED = 5
"""The step after which the weights are noise."""
_train = Trainer.step


def step(self: Trainer, step: int, *samples: Any) -> Any:
    """Train, and ruin the weights after the step `RUINED`."""
    trained = _train(self, step, *samples)
    if step == RUINED:
        noise = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in self.policy.parameters():
                own = weight.to_local() if isinstance(weight, DTensor) else weight
                own.copy_(torch.randn(own.shape, generator=noise))
    return trained


if __name__ == "__main__":
    Trainer.step = step  # type: ignore[method-assign]
    aipo.main(parse(sys.argv[1:]))
