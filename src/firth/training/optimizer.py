"""AdamW (or averaged SGD) with decay groups, and learning-rate schedules."""

import math
from collections.abc import Mapping

import torch
from torch import nn

from firth.core.configs import TrainingConfig
from firth.training.averaging import AveragedSGD


def build_optimizer(
    module: nn.Module, config: TrainingConfig, factors: Mapping[str, float] | None = None
) -> torch.optim.Optimizer:
    """Weight decay on matrices and tables only: not on biases and norms (Devlin et al. 2018, A.2).

    ``factors`` by name of a parameter make it learn slower or faster than the rest.
    """
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for decays in (True, False):
        for name, parameter in module.named_parameters():
            if parameter.requires_grad and _decays(name, parameter) == decays:
                groups.setdefault((decays, (factors or {}).get(name, 1.0)), []).append(parameter)
    described = [
        {"params": some, "weight_decay": config.weight_decay if decays else 0.0, "rate_factor": factor}
        for (decays, factor), some in groups.items()
    ]
    if config.optimizer == "averaged_sgd":
        return AveragedSGD(described, config.learning_rate)
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(described, config.learning_rate, betas, config.adam_eps, fused=True)


def _decays(name: str, parameter: nn.Parameter) -> bool:
    """Some biases are tables: one a head, one a direction, one a distance and head."""
    return parameter.ndim >= 2 and not name.endswith(("bias", "relative.weight"))


def learning_rate(config: TrainingConfig, step: int, steps: int) -> float:
    """The rate for step 0 .. steps - 1: a linear rise, then the schedule."""
    warmup = round(config.warmup_ratio * steps)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    if config.schedule == "inverse_sqrt":
        return config.learning_rate * math.sqrt(max(warmup, 1) / (step + 1))
    share = (step - warmup) / max(steps - warmup, 1)
    if config.schedule == "linear":
        return config.learning_rate * (1 - share)
    if config.schedule == "cosine":
        return config.learning_rate * 0.5 * (1 + math.cos(math.pi * share))
    return config.learning_rate


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("rate_factor", 1.0)
