"""What other accountants say of 200 settings: asked once, stored, and compared in the tests.

Opacus (RDP), dp-accounting (RDP and PLD) and prv-accountant each answer every setting they can
state; a failure is an answer too, by its text. Answers lie in tests/privacy/peer_values.json and
are asked again, by `make bench`, only when a peer's version or the question changes. Nothing of
dpkit takes part in them.
"""

import logging
import math
import signal
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from bench import Row
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import BrokenProcessPool
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


def event(setting: Setting) -> Any:
    """dp-accounting's event of a run."""
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
    accountant.compose(event(setting))
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
    accountant.compose(event(Setting(rate, noise, 1)))
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


def _too_long(*_: object) -> None:
    raise TimeoutError


def _ready(peer: str) -> None:
    """In a new process: imports and a first question are not held against a peer."""
    logging.disable()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _too_long)
    ask, first = PEERS[peer].ask, GRID[0]
    ask(first if first in PEERS[peer].subjects else first[:2], PEERS[peer].accuracies[-1])


def _asked(peer: str, subject: Any, accuracy: float) -> Answer:
    """The peer's answer, or its error, in the process that is ready."""
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        return PEERS[peer].ask(subject, accuracy)
    except TimeoutError:
        return {"error": TOO_LONG}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def first_answer(peer: str, subject: Any) -> Answer:
    """By the first accuracy that is not answered by an error, else the last error.

    A process of its own is asked, which ends with a question that takes too long.
    """
    found: Answer = {}
    for accuracy in PEERS[peer].accuracies:
        process = get_reusable_executor(1, initializer=_ready, initargs=(peer,))
        try:
            found = process.submit(_asked, peer, subject, accuracy).result(WALL_LIMIT_S)
        except (TimeoutError, BrokenProcessPool) as error:
            ended = isinstance(error, BrokenProcessPool)
            found = {"error": "the process ended without an answer" if ended else TOO_LONG}
            process.shutdown(kill_workers=True)
        if "error" not in found:
            break
    return found


def stored() -> dict[str, Any]:
    """The stored answers: `questions` by peer, and `answers` by peer and subject's name."""
    return read_json(STORE) if STORE.exists() else {"questions": {}, "answers": {}}


def update() -> None:
    """Ask what is not stored, storing and showing each answer."""
    content = stored()
    questions, answers = content["questions"], content["answers"]
    for name, peer in PEERS.items():
        known = answers.get(name, {}) if questions.get(name) == peer.question() else {}
        names = [subject_name(subject) for subject in peer.subjects]
        answers[name] = {one: known[one] for one in names if one in known}
        questions[name] = peer.question()
        for subject, one in zip(peer.subjects, names, strict=True):
            if one not in answers[name]:
                answers[name][one] = first_answer(name, subject)
                content["computed_with"] = {one: version(one) for one in ("numpy", "scipy")}
                write_json(STORE, content)
                print(f"{name}: {one}: {answers[name][one]}", flush=True)
    if STORE.exists() and content != stored():  # something is no longer asked
        write_json(STORE, content)


def rows() -> Iterator[Row]:
    """No timings: sees that the stored answers are those of the peers that are installed."""
    update()
    yield from ()
