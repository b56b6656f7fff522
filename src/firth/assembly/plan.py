"""What a run would need and reach: parameters, memory, speed on this machine, epochs, disk."""

import resource
import tempfile
from pathlib import Path

from firth.assembly.families import find_family
from firth.assembly.pretrain import configure
from firth.core.configs import RunConfig
from firth.core.units import parse_duration
from firth.training.loop import Loop

_TIMED_S = 20.0


def plan_run(config: RunConfig, corpus_path: Path, budget: str) -> dict[str, float]:
    """Builds everything and times a few steps; nothing is kept."""
    seconds = parse_duration(budget)
    corpus = find_family(config).open_corpus(corpus_path)
    config = configure(config, corpus)
    trainee = find_family(config)(config, corpus)
    parameters = sum(parameter.numel() for parameter in trainee.module.parameters())
    batch = trainee.batch(0)
    with tempfile.TemporaryDirectory() as folder:
        timing = Loop(trainee, config.training, Path(folder)).time_steps(_TIMED_S)
    steps, _ = timing.fit(seconds, config.training.evaluations)
    rows = steps * trainee.rows_per_step
    weights = 4 * parameters
    return {
        "parameters": parameters,
        "step_s": timing.step_s,
        "tokens_per_s": batch.num_tokens * config.training.accumulation / timing.step_s,
        "steps": steps,
        "epochs": rows / len(trainee.rows),
        "tokens": steps * batch.num_tokens * config.training.accumulation,
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "disk_bytes": weights + 3 * weights * (config.training.keep + 1),
    }
