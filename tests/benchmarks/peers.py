"""What other accountants say of 200 settings: asked once, stored, and compared in the tests.

Opacus (RDP), dp-accounting (RDP and PLD) and prv-accountant each answer every setting they can
state; a failure is an answer too, by its text. Answers lie in tests/privacy/peer_values.json and
are asked again only when a peer's version or the question changes. Nothing of dpkit takes part in
them. `python tests/benchmarks/peers.py` shows progress; `make bench` does the same.
"""

import logging
import math
import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from bench import Row
from peer_settings import GRID, MECHANISMS, Setting, subject_name

from dpkit.common.records import read_json, write_json

STORE = Path(__file__).resolve().parents[1] / "privacy" / "peer_values.json"
LIMIT_S = 20  # of computing time for one question; more counts as a failure
WALL_LIMIT_S = 200  # the same by the clock, where the first goes unheard
ORDERS = (1.1, 1.5, 2.5, 4.7, 10.9, 58.9, 2, 3, 8, 32, 63, 512, 1100)  # of the curves compared

TOO_LONG = f"no answer within {LIMIT_S} s"

Answer = dict[str, Any]  # JSON values; one "error" where the peer failed


def number(value: float) -> float | str:
    """A peer's number as JSON has it: NaN and infinities by their names."""
    return float(value) if math.isfinite(value) else str(float(value))


def opacus_epsilon(setting: Setting, accuracy: float) -> Answer:
    """Opacus' epsilon and order, with its default orders."""
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    accountant.history = [(setting.noise_over_sensitivity, setting.sample_rate, setting.steps)]
    epsilon, order = accountant.get_privacy_spent(delta=setting.delta)
    return {"epsilon": number(epsilon), "order": number(order)}


def opacus_clt(setting: Setting, accuracy: float) -> Answer:
    """The epsilon of Opacus' Gaussian DP accountant, an approximation (CLT)."""
    from opacus.accountants import GaussianAccountant

    accountant = GaussianAccountant()
    accountant.history = [(setting.noise_multiplier, setting.sample_rate, setting.steps)]
    return {"epsilon": number(accountant.get_epsilon(setting.delta))}


def _event(setting: Setting) -> Any:
    import dp_accounting

    one = dp_accounting.GaussianDpEvent(setting.noise_multiplier)
    if setting.sample_rate < 1:
        one = dp_accounting.PoissonSampledDpEvent(setting.sample_rate, one)
    return dp_accounting.SelfComposedDpEvent(one, setting.steps)


def _relation(setting: Setting) -> Any:
    from dp_accounting import NeighboringRelation

    replaced = setting.adjacency == "replace-one"
    return NeighboringRelation.REPLACE_ONE if replaced else NeighboringRelation.ADD_OR_REMOVE_ONE


def dp_accounting_rdp(setting: Setting, accuracy: float) -> Answer:
    """dp-accounting's RDP epsilon and order, with its default orders."""
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(neighboring_relation=_relation(setting))
    accountant.compose(_event(setting))
    epsilon, order = accountant.get_epsilon_and_optimal_order(setting.delta)
    return {"epsilon": number(epsilon), "order": number(order)}


def dp_accounting_pld(setting: Setting, accuracy: float) -> Answer:
    """dp-accounting's PLD: pessimistic, and optimistic, at an interval of `accuracy`.

    `coarser` is pessimistic at twice the interval, to see how much the interval matters.
    """
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    rate, noise, steps, delta, _ = setting
    parts = 1 if rate == 1 else steps  # as its accountant does: Gaussians add up by themselves

    def epsilon(interval: float, pessimistic: bool) -> float | str:
        how: Any = {"pessimistic_estimate": pessimistic, "use_connect_dots": pessimistic}
        how |= {"sampling_prob": rate, "neighboring_relation": _relation(setting)}
        how["value_discretization_interval"] = interval
        one: Any = from_gaussian_mechanism(noise * math.sqrt(parts / steps), **how)
        return number(one.self_compose(parts).get_epsilon_for_delta(delta))

    found = {"pessimistic": epsilon(accuracy, True), "coarser": epsilon(2 * accuracy, True)}
    return found | {"optimistic": epsilon(accuracy, False), "interval": accuracy}


def prv(setting: Setting, accuracy: float) -> Answer:
    """prv-accountant's (lower, estimate, upper), with an epsilon error of `accuracy`."""
    import prv_accountant
    from prv_accountant.privacy_random_variables import GaussianMechanism

    if setting.sample_rate == 1:
        one: Any = GaussianMechanism(setting.noise_over_sensitivity)
    else:
        made = prv_accountant.PoissonSubsampledGaussianMechanism
        one = made(setting.sample_rate, setting.noise_multiplier)
    how: Any = {"eps_error": accuracy, "delta_error": setting.delta / 1000}
    how["max_self_compositions"] = setting.steps
    accountant = prv_accountant.PRVAccountant(one, **how)
    values = accountant.compute_epsilon(setting.delta, setting.steps)  # type: ignore[arg-type]
    lower, estimate, upper = (number(value) for value in values)
    return {"lower": lower, "estimate": estimate, "upper": upper, "eps_error": accuracy}


def opacus_curve(mechanism: tuple[float, float], accuracy: float) -> Answer:
    """Opacus' RDP of one release at ORDERS."""
    from opacus.accountants.analysis.rdp import compute_rdp

    rate, noise = mechanism
    return {"rdp": [_price(compute_rdp, rate, noise, order) for order in ORDERS]}


def _price(compute: Callable[..., Any], rate: float, noise: float, order: float) -> float | str:
    try:
        return number(compute(q=rate, noise_multiplier=noise, steps=1, orders=[order])[0])
    except (ArithmeticError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def dp_accounting_curve(mechanism: tuple[float, float], accuracy: float) -> Answer:
    """dp-accounting's RDP of one release at ORDERS."""
    from dp_accounting.rdp import RdpAccountant

    rate, noise = mechanism
    accountant = RdpAccountant(orders=ORDERS)
    accountant.compose(_event(Setting(rate, noise, 1)))
    return {"rdp": [number(value) for value in accountant.rdp]}


class Peer(NamedTuple):
    """One accountant and how it is asked: by the first accuracy that it answers in time."""

    package: str
    ask: Callable[[Any, float], Answer]
    accuracies: tuple[float, ...] = (0.0,)  # 0: there is nothing to choose
    subjects: tuple[Any, ...] = tuple(GRID)

    def question(self) -> Answer:
        """What an answer depends on beside its subject: when this changes, it is asked anew."""
        how: Answer = {"accuracies": list(self.accuracies), "limit_s": LIMIT_S}
        if self.subjects is MECHANISMS:
            how["orders"] = list(ORDERS)
        return {self.package: version(self.package)} | how


# Opacus and prv-accountant know no adjacency: a sample under replace-one cannot be stated.
STATABLE = tuple(s for s in GRID if s.adjacency == "add-remove" or s.sample_rate == 1)
SAMPLED = tuple(s for s in STATABLE if s.sample_rate < 1)
PEERS = {
    "opacus": Peer("opacus", opacus_epsilon, subjects=STATABLE),
    "opacus_clt": Peer("opacus", opacus_clt, subjects=SAMPLED),
    "opacus_curve": Peer("opacus", opacus_curve, subjects=MECHANISMS),
    "dp_accounting_rdp": Peer("dp-accounting", dp_accounting_rdp),
    "dp_accounting_curve": Peer("dp-accounting", dp_accounting_curve, subjects=MECHANISMS),
    "dp_accounting_pld": Peer("dp-accounting", dp_accounting_pld, (1e-4, 1e-3, 1e-2)),
    "prv": Peer("prv-accountant", prv, (0.01, 0.05), STATABLE),
}


class Asker:
    """Asks one peer in a process of its own, which ends with a question that takes too long."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.process = None

    def ask(self, subject: Any, accuracy: float) -> Answer:
        """The peer's answer, or its error."""
        if self.process is None:
            spawn = multiprocessing.get_context("spawn")
            self.pipe, theirs = spawn.Pipe()
            self.process = spawn.Process(target=_serve, args=(self.peer, theirs), daemon=True)
            self.process.start()
            theirs.close()
            self.pipe.recv()  # ready: imports and a first question are not held against it
        self.pipe.send((subject, accuracy))
        try:
            if self.pipe.poll(WALL_LIMIT_S):
                return self.pipe.recv()
            found = TOO_LONG
        except EOFError:
            found = "the process ended without an answer"
        self.stop()
        return {"error": found}

    def first_answer(self, subject: Any) -> Answer:
        """By the first accuracy that is not answered by an error, else the last error."""
        found: Answer = {}
        for accuracy in PEERS[self.peer].accuracies:
            found = self.ask(subject, accuracy)
            if "error" not in found:
                break
        return found

    def stop(self) -> None:
        """End the process; the next question starts another."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
        self.process = None


def _too_long(*_: object) -> None:
    raise TimeoutError


def _serve(peer: str, pipe: Connection) -> None:
    logging.disable()
    warnings.simplefilter("ignore")
    ask, first = PEERS[peer].ask, GRID[0]
    signal.signal(signal.SIGPROF, _too_long)
    ask(first if first in PEERS[peer].subjects else first[:2], PEERS[peer].accuracies[-1])
    pipe.send("ready")
    while True:
        subject, accuracy = pipe.recv()
        try:
            signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
            answer = ask(subject, accuracy)
        except TimeoutError:
            answer = {"error": TOO_LONG}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send(answer)


def stored() -> dict[str, Any]:
    """The stored answers: `questions` by peer, and `answers` by peer and subject's name."""
    return read_json(STORE) if STORE.exists() else {"questions": {}, "answers": {}}


def update() -> Iterator[str]:
    """Ask what is not stored, storing each answer; yields what was asked."""
    content = stored()
    questions, answers = content["questions"], content["answers"]
    for name, peer in PEERS.items():
        known = answers.get(name, {}) if questions.get(name) == peer.question() else {}
        names = [subject_name(subject) for subject in peer.subjects]
        answers[name] = {one: known[one] for one in names if one in known}
        questions[name] = peer.question()
        asker = Asker(name)
        for subject, one in zip(peer.subjects, names, strict=True):
            if one not in answers[name]:
                answers[name][one] = asker.first_answer(subject)
                content["computed_with"] = {one: version(one) for one in ("numpy", "scipy")}
                write_json(STORE, content)
                yield f"{name}: {one}: {answers[name][one]}"
        asker.stop()
    if STORE.exists() and content != stored():  # something is no longer asked
        write_json(STORE, content)


def rows() -> Iterator[Row]:
    """No timings: sees that the stored answers are those of the peers that are installed."""
    for _ in update():
        pass
    yield from ()


if __name__ == "__main__":
    for line in update():
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
