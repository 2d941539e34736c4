"""Trains on the digits in processes that are killed at random moments; prints what was seen.

Run by test_crashes.py. The parent only forks and kills; every child trains. One is not killed, and
the others must end with its bits. Every block of noise that enters a release is reported before the
step that it belongs to.
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import torch

from dpkit import datasets
from dpkit.papers import dp_cgan as paper
from dpkit.training import Checkpoints, Data, generator_on, noise, spent, train
from dpkit.training.checkpoint.ledger import ledger_path

KILLS, STEPS = 20, 60
SMALL = paper.settings.small(paper.REPAIRED, batch_size=32, steps=STEPS)
SETTINGS = replace(SMALL, noise_multiplier=2.0, hidden=16)
CPU = torch.device("cpu")


@cache
def digits() -> Data:
    images = datasets.digits(split="train")
    return Data(torch.from_numpy(images.flat()), torch.from_numpy(images.labels), public_size=1437)


def reported(report: int, drawn, rng, sizes):
    """What `noise.standard_normals` gives, each block after its digest is reported."""
    for block in drawn(rng, sizes):
        os.write(report, f"block {hashlib.sha256(described(block)).hexdigest()}\n".encode())
        yield block


def child(path: Path, report: int, seed: int) -> None:
    """Train to the end; report each step's number, then a digest of all that training changed."""
    noise.standard_normals = partial(reported, report, noise.standard_normals)
    place = Checkpoints(path, every=5, reserve=8)
    gan = paper.new_gan(SETTINGS, seed=0, device=CPU)
    rng = generator_on(CPU, reproducible_seed=seed)
    for record in train(paper.step, gan, digits(), settings=SETTINGS, rng=rng, checkpoint=place):
        os.write(report, f"{record.step + 1}\n".encode())
    digest = hashlib.sha256(rng.get_state().numpy().tobytes())
    for part in gan:
        digest.update(described(part.state_dict()))
    os.write(report, f"end {digest.hexdigest()}\n".encode())


def described(value) -> bytes:
    if torch.is_tensor(value):
        return value.detach().numpy().tobytes()
    if isinstance(value, dict):
        return b"".join(str(key).encode() + described(item) for key, item in value.items())
    return repr(value).encode()


def started(path: Path, seed: int) -> tuple[int, int]:
    """(process, what it reports to)"""
    read, write = os.pipe()
    process = os.fork()
    if process:
        os.close(write)
        return process, read
    code = 1
    try:
        os.close(read)
        child(path, write, seed)
        code = 0
    finally:
        os._exit(code)


def lines_until(source: int, enough: int) -> str:
    """What is reported, up to `enough` lines or the end."""
    text = b""
    while text.count(b"\n") < enough:
        piece = os.read(source, 1)
        if not piece:
            break
        text += piece
    return text.decode()


def finish(path: Path, seed: int, blocks: dict[str, set[int]]) -> dict:
    process, source = started(path, seed)
    report = lines_until(source, 10**9)
    os.waitpid(process, 0)
    os.close(source)
    place_blocks(report.splitlines(), blocks)
    return {"digest": report.split()[-1], "spent": spent(path)}


def place_blocks(lines: list[str], blocks: dict[str, set[int]]) -> None:
    """Add each block's step to what is known of it; blocks of a step that did not end are left."""
    waiting: list[str] = []
    for line in lines:
        waiting += [line] if line.startswith("block ") else []
        while line.isdigit() and waiting:
            blocks.setdefault(waiting.pop(), set()).add(int(line))


def warm_up() -> None:
    """What every child would load and import by itself. No backward pass: it cannot be forked."""
    assert SETTINGS.steps_allowed(public_size=digits().public_size) == STEPS
    gan = paper.new_gan(SETTINGS, seed=0, device=CPU)
    for optimizer in (gan.generator_optimizer, gan.discriminator_optimizer):
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    warm_up()
    chance = random.Random(0)
    blocks: dict[str, set[int]] = {}
    saw = {"kills": [], "finished": []}
    saw["uninterrupted"] = finish(folder / "whole", 0, blocks)
    chain = 0
    while len(saw["kills"]) < KILLS:
        path = folder / str(chain)
        done, ended = 0, False
        while not ended and len(saw["kills"]) < KILLS:
            # the rng's seed must not matter, once there is a checkpoint
            process, source = started(path, seed=0 if not path.exists() else chance.randrange(99))
            report = lines_until(source, chance.randrange(60))
            time.sleep(chance.random() * 0.02)
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            report += lines_until(source, 10**9)
            os.close(source)
            lines = report.splitlines()
            ended = bool(lines) and lines[-1].startswith("end")
            place_blocks(lines, blocks)
            steps = [int(line) for line in lines if line.isdigit()]
            done = max([done, *steps])
            charged = spent(path) if ledger_path(path).exists() else 0
            saw["kills"].append({"chain": chain, "done": done, "charged": charged})
        saw["finished"].append(finish(path, 7 if path.exists() else 0, blocks))
        chain += 1
    saw["steps_of_blocks"] = [sorted(steps) for steps in blocks.values()]
    sys.stdout.write(json.dumps(saw))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
