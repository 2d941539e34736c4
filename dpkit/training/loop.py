"""The training loop: yields a record a step, stops before the step that would overspend."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch

from dpkit.training.batches import Rows, batches
from dpkit.training.checkpoint import Checkpoints, kept
from dpkit.training.device import check_alone, precision
from dpkit.training.noise import check_generator
from dpkit.training.optimizers import settle
from dpkit.training.types import Data, Model, R, TrainingSettings


def train(
    step: Callable[..., R],
    gan: Model,
    data: Data,
    *,
    settings: TrainingSettings,
    rng: torch.Generator,
    steps: int | None = None,
    checkpoint: Checkpoints | None = None,
    tf32: bool = False,
    begins: Callable[[], None] | None = None,
) -> Iterator[R]:
    """Train `gan`, or another model, a private release a step, until steps or budget end.

    Args:
        step: a paper's step, called with (gan, features, labels) of one batch and the keywords
            settings, index and rng.
        gan: a named tuple of networks and optimisers, a Gan or another; updated in place.
        data: features and labels on rng's device or on the CPU. All records are looked at before
            the first step: one that is NaN or infinite is refused. That refusal depends on the
            data as no release does: keep it to yourself.
        settings: they own the ledger, from which `steps_allowed` follows.
        rng: all randomness of batches, latents and noise.
        steps: stop earlier than the settings allow.
        checkpoint: where to store the run, and to resume a stored one: `gan` and `rng` then take
            the stored state, and only the remaining steps are run. A run that begins there draws
            other noise than one without (see Checkpoints). Count spent steps by
            `dpkit.training.spent(path)`, not by the records of one process.
        tf32: let a GPU multiply with 10 bits of mantissa: faster, and no longer float32. Gradients
            are then as rough; `clipped_sum` takes norms and sums in float32.
        begins: called once, when all was checked and the first step is next, to charge the run.

    Yields:
        what the step returns, a Record of each. Progress, plots and storing results are the
            caller's.

    Raises:
        TypeError: settings, data or rng are of another type.
        ValueError: rng has torch's default seed, which everybody knows; data do not fit together,
            hold NaN or infinity, or their transform mixes examples; more steps are asked for than
            the budget allows; or the files at `checkpoint` are of another run, damaged, or lost, or
            the settings or the step cannot be compared by another process (see Checkpoints).
        RuntimeError: another run is at work at `checkpoint`, rng or networks were changed between
            two steps of a stored run, or rng was made before this process was forked.
        FloatingPointError: a weight is NaN or infinite after a step.
    """
    check_alone()
    check_generator(rng)
    missing = [name for name in ("sampling", "steps_allowed") if not hasattr(settings, name)]
    if missing:
        raise TypeError(
            f"settings must have sampling and steps_allowed, as a paper's Settings do, got "
            f"{type(settings).__name__} without {' and '.join(missing)}; give a frozen dataclass"
        )
    rows = Rows(data, rng=rng)
    data = rows.data
    # First of all, and once, the accountant says how many steps the budget allows.
    allowed = settings.steps_allowed(public_size=data.public_size)
    steps = allowed if steps is None else steps
    if not 0 <= steps <= allowed:
        raise ValueError(
            f"steps must be between 0 and the {allowed} that the settings' budget allows, got "
            f"{steps}; raise the target epsilon or the noise"
        )
    if steps:
        rows.check_finite()
    size = len(data.features)
    draws = batches(settings.sampling, size=size, public_size=data.public_size, rng=rng)
    stored = nullcontext()
    if checkpoint is not None:
        stored = kept(
            checkpoint,
            gan,
            data,
            step=step,
            settings=settings,
            rng=rng,
            steps=steps,
            tf32=tf32,
        )
    with stored as run:
        if run is not None:
            run.replay(draws)
        if begins is not None:
            begins()
        for index in range(0 if run is None else run.step, steps):
            charged = nullcontext() if run is None else run.one_step()
            with charged, precision(tf32=tf32):
                features, labels = rows.at(next(draws) if run is None else run.draw(draws))
                record = step(gan, features, labels, settings=settings, index=index, rng=rng)
            yield record
    for part in gan:
        if isinstance(part, torch.optim.Optimizer):
            settle(part)
