"""A game of twenty rounds about a record in a count, and the epsilon your guesses prove."""

import math
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import ipywidgets as widgets
import numpy as np
from matplotlib.axes import Axes
from scipy.special import betaincinv, ndtr

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_least, at_most, short
from dpkit.course.explorers.controls import Control, RoundSlider, choice, whole, words
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.privacy import Gaussian, Guarantee, Release, gdp
from dpkit.privacy.mechanisms import Floats

ROUNDS = 20
FIRST = 7  # the seed it opens with: one whose best attacker is about as lucky as the mean
WITHOUT = 100  # people counted when the record is out; the attacker knows all of them
DELTA = 1e-5
CONFIDENCE = 0.95  # of each end of an interval
LEAST_NOISE, MOST_NOISE = 0.1, 100.0
HELP = ("both curves", "the number alone")
IN, OUT, PASS = "IOP"
WORDS = {IN: "in", OUT: "out", PASS: "passed"}
BUTTONS = {
    "In": "The record is in the count",
    "Out": "The record is not in the count",
    "Pass": "No guess in this round",
    "New game": "Other rounds, from the first",
}
HEADINGS = ("what", "value", "note")
COLOURS: dict[str, str] = dict(
    zip((OUT, IN), plots.COLOURS, strict=False)
)  # of the two worlds
MINE = plots.COLOURS[2]
WIDE = 3.2  # standard deviations that are drawn beyond either count
BELOW, STEP = -0.1, 0.028  # of the tallest curve: where the rounds played begin, and go on
ROOM = 1.2  # of the release's epsilon, or of what twenty rounds can show
FIXED = (
    "Each end of your interval holds with 95 % confidence if the number of rounds is fixed "
    "beforehand. You may pass because of the number that you see, but not because of your score, "
    "nor stop because of it: you would keep your lucky games only. The upper end is of your own "
    "way of guessing; another attacker may learn more, so only the lower end is about the release."
)


class Rounds(NamedTuple):
    """The dealt rounds: whether the record is in, and the noisy counts, (rounds,) each."""

    present: np.ndarray
    seen: Floats


class Score(NamedTuple):
    """The numbers of an attacker's guesses that were right, wrong, and not made."""

    right: int
    wrong: int
    passed: int

    @property
    def guessed(self) -> int:
        """Number of guesses made."""
        return self.right + self.wrong


class PlayTheAttacker(Explorer):
    """Twenty noisy counts to guess at, your score, the best attacker's, and your epsilon."""

    title = "Can you tell who was in?"
    controls: ClassVar = (
        Control(
            *("noise_multiplier", RoundSlider, 1.0, (0.3, 10), "noise multiplier"),
            "Standard deviation of the noise on the count, in people; a new game",
        ),
        Control(
            *("help", choice, HELP[0], HELP, "help"),
            "Whether the two curves are drawn with the number",
        ),
        Control(*("seed", whole, FIRST, (0, 999), "game"), "Which twenty rounds are dealt"),
        Control(
            *("guesses", words, "", "written by the buttons", "guesses"),
            "I, O or P of each round played",
        ),
    )

    def __init__(self) -> None:
        """Noise multiplier 1, no round played."""
        layout = widgets.Layout(width="auto", min_width="72px")
        self.buttons = [
            widgets.Button(description=name, tooltip=told, layout=layout)
            for name, told in BUTTONS.items()
        ]
        for button in self.buttons:
            button.on_click(self._pressed)
        wrapped = widgets.Layout(flex_flow="row wrap")
        super().__init__(widgets.HBox(self.buttons, layout=wrapped))
        self.values["guesses"].disabled = True

    @staticmethod
    def compute(*, noise_multiplier: float, help: str, seed: int, guesses: str) -> Result:
        """The rounds up to the present one, the scores, and what they prove.

        `intervals` holds, after each round played, the ends of your epsilon's interval, `ceiling`
        the epsilon of as many right guesses.

        Args:
            noise_multiplier: standard deviation of the noise; one record changes the count by 1.
            help: one of HELP; only changes the picture.
            seed: of the coins and the noise, from 0.
            guesses: a letter of "IOP" for each round played, at most 20.

        Raises:
            ValueError: a value is out of range.
        """
        checks.in_range(LEAST_NOISE, MOST_NOISE, noise_multiplier=noise_multiplier)
        checks.one_of(HELP, help=help)
        checks.whole(seed=seed)
        if not set(guesses) <= set(WORDS) or len(guesses) > ROUNDS:
            raise ValueError(
                f"guesses must be at most {ROUNDS} of I, O and P, got {guesses!r}"
            )
        rounds, played = deal(noise_multiplier, seed), len(guesses)
        best = best_guesses(rounds)[:played]
        dealt = min(played + 1, ROUNDS)
        return {
            "noise": noise_multiplier,
            "help": help == HELP[0],
            "guesses": guesses,
            "seen": rounds.seen[:dealt],
            "present": rounds.present[:played],
            "you": score(guesses, rounds.present),
            "best": score(best, rounds.present),
            "chance": float(ndtr(0.5 / noise_multiplier)),
            "intervals": [
                interval(score(guesses[:n], rounds.present)) for n in range(1, played + 1)
            ],
            "ceiling": [interval(Score(n, 0, 0))[0] for n in range(1, ROUNDS + 1)],
            "true": true_epsilon(noise_multiplier),
        }

    def says(self, result: Result) -> str:
        """Compare the guesses' epsilon with the release's own."""
        true = f"The truth: epsilon {at_most(result['true'].epsilon)} (delta {short(DELTA)})."
        if not result["guesses"]:
            return f"Is the record in? You have proven nothing yet. {true}"
        you = result["you"]
        low = result["intervals"][-1][0] if you.guessed else 0.0
        proven = f"epsilon {at_least(low)}" if low else "nothing yet"
        return f"{you.right} of {you.guessed} right: you have proven {proven}. {true}"

    def table(self, result: Result) -> Table:
        """The present round, both scores, and both epsilons."""
        played, you, best = len(result["guesses"]), result["you"], result["best"]
        chance = f"{100 * result['chance']:.1f} % of all rounds on average"
        proven = f"at delta {short(DELTA)}, add-remove; proven, no attacker's is larger"
        rows = [
            *_last(result),
            _now(result),
            ("you", _told(you), f"{played} of {ROUNDS} rounds played, {you.passed} passed"),
            ("best attacker", _told(best), f"says in above {WITHOUT}.5; right in {chance}"),
            ("your epsilon", *_yours(result)),
            ("the release's", at_most(result["true"].epsilon), proven),
        ]
        notes = (FIXED,) if played < ROUNDS else (_lesson(result), FIXED)
        return Table(HEADINGS, rows, notes)

    def draw(self, result: Result) -> plots.Picture:
        """Draw left the numbers seen, right your guesses' epsilon, round by round."""
        room = {"left": 0.035, "right": 0.98, "bottom": 0.14, "top": 0.92, "wspace": 0.24}
        figure, (left, right) = plots.figure(width=7.2, height=3.5, panels=2, **room)
        _draw_rounds(left, result)
        _draw_evidence(right, result)
        you = result["you"]
        curves = (
            f"two bell curves of width {result['noise']:.3g}, around {WITHOUT} (out) and "
            f"{WITHOUT + 1} (in); "
        )
        words = (
            f"Left: {curves if result['help'] else ''}{_now(result)[2]}. Right: after "
            f"{len(result['guesses'])} rounds, {you.right} of {you.guessed} guesses right, your "
            f"epsilon is {' '.join(_yours(result))}. Twenty right ones of twenty would prove at "
            f"least {at_least(result['ceiling'][-1])}; the release's epsilon is "
            f"{at_most(result['true'].epsilon)}."
        )
        return plots.picture(figure, words)

    def _pressed(self, button: Any) -> None:
        guesses, seed = self.values["guesses"], self.values["seed"]
        if button is self.buttons[-1]:
            seed.value = (seed.value + 1) % (seed.max + 1)
        elif len(guesses.value) < ROUNDS:
            guesses.value += button.description[0]

    def _changed(self, change: Any) -> None:
        if self._held:  # one change is one answer, given below
            return
        if change["owner"] in (self.values["noise_multiplier"], self.values["seed"]):
            with self.held():  # other numbers: the guesses of these are no longer any
                self.values["guesses"].value = ""
        super()._changed(change)
        for button in self.buttons[:-1]:
            button.disabled = len(self.values["guesses"].value) >= ROUNDS


def deal(noise_multiplier: float, seed: int) -> Rounds:
    """Twenty fair coins and noisy counts: the same coins and noise for every width."""
    rng = np.random.default_rng(seed)
    present = rng.random(ROUNDS) < 0.5
    return Rounds(present, WITHOUT + present + noise_multiplier * rng.standard_normal(ROUNDS))


def best_guesses(rounds: Rounds) -> str:
    """The guesses of the attacker who guesses every round and is right most often."""
    return "".join(IN if seen > WITHOUT + 0.5 else OUT for seen in rounds.seen)


def score(guesses: str, present: np.ndarray) -> Score:
    """Count the right guesses; `present` may be longer than the guesses."""
    pairs = list(zip(guesses, present.tolist(), strict=False))
    right = sum(guess == (IN if there else OUT) for guess, there in pairs)
    passed = guesses.count(PASS)
    return Score(right, len(guesses) - passed - right, passed)


def interval(found: Score) -> tuple[float, float]:
    """Ends of the epsilon of this way of guessing, each with 95 % confidence; nats.

    But for an event of probability delta a round, the release is (epsilon, 0)-DP (Kairouz, Oh and
    Viswanath 2015), and a guess at a fair coin is right with probability at most e^epsilon /
    (1 + e^epsilon) whatever was seen (Steinke, Nasr and Jagielski 2023, Prop. 5.1). So
    Clopper-Pearson limits of that probability bound epsilon, and the rounds' deltas reduce the
    confidence.
    """
    error = 1 - CONFIDENCE - sum(found) * DELTA
    right, wrong = found.right, found.wrong
    low = float(betaincinv(right, wrong + 1, error)) if right else 0.0
    high = float(betaincinv(right + 1, wrong, 1 - error)) if wrong else 1.0
    return _odds(low), _odds(high)


def _odds(probability: float) -> float:
    """The epsilon at which a guess is right that often, 0 where it need not be one."""
    if not probability > 0.5:
        return 0.0
    return math.log(probability / (1 - probability)) if probability < 1 else math.inf


@lru_cache(64)
def true_epsilon(noise_multiplier: float) -> Guarantee:
    """The exact epsilon of one release of the count."""
    return gdp.epsilon([Release(Gaussian(noise_multiplier))], delta=DELTA)


def _told(found: Score) -> str:
    return f"{found.right} of {found.guessed} right" if found.guessed else "no guess yet"


def _last(result: Result) -> list[tuple[str, str, str]]:
    """The round that was played last, with its truth."""
    guesses, played = result["guesses"], len(result["guesses"])
    if not played:
        return []
    truth, guess = (IN if result["present"][-1] else OUT), guesses[-1]
    verdict = "you passed" if guess == PASS else "right" if guess == truth else "wrong"
    seen = f"saw {result['seen'][played - 1]:.2f}, said {WORDS[guess]}"
    seen = seen.replace("said passed", "passed")
    return [(f"round {played}", f"was {WORDS[truth]}: {verdict}", seen)]


def _now(result: Result) -> tuple[str, str, str]:
    """The round that is to be guessed, or that there is none."""
    played = len(result["guesses"])
    if played == ROUNDS:
        return ("now", "the game is over", "what it shows is said below")
    seen = result["seen"][-1]
    told = f"round {played + 1}: the noisy count is {seen:.2f}"
    return ("now", f"{seen:.2f}", f"{told}; {WITHOUT} others are in: is the record, too?")


def _yours(result: Result) -> tuple[str, str]:
    if not result["you"].guessed:
        return "at least 0", "nothing is shown before the first guess"
    low, high = result["intervals"][-1]
    above = "and may be any above" if math.isinf(high) else f"and not above {at_most(high)}"
    return f"at least {at_least(low)}", f"{above}, of your way of guessing"


def _lesson(result: Result) -> str:
    """The most that twenty rounds can show, and what more rounds can."""
    most, true = result["ceiling"][-1], result["true"].epsilon
    by_chance = _odds(result["chance"])
    return (
        f"Twenty right guesses of twenty would prove epsilon >= {at_least(most)}, no more, "
        f"however weak the noise. Guessing in every round, even the best attacker's share of right "
        f"ones, {100 * result['chance']:.1f} %, comes to epsilon {by_chance:.2f} in the long run; "
        f"an attacker who accuses only at extreme numbers gets nearer to {at_most(true)}, but "
        f"needs far more rounds."
    )


def _draw_rounds(ax: Axes, result: Result) -> None:
    """Both curves, where they help, the present round's number, and the rounds played."""
    noise, seen, played = result["noise"], result["seen"], len(result["guesses"])
    ends = WITHOUT - WIDE * noise, WITHOUT + 1 + WIDE * noise
    if result["help"]:
        across: Floats = np.linspace(*ends, 201)
        for count, world, side in ((WITHOUT, OUT, -1), (WITHOUT + 1, IN, 1)):
            colour = COLOURS[world]
            height = np.exp(-(((across - count) / noise) ** 2) / 2)
            ax.plot(across, height, color=colour, linewidth=1.8)
            ax.fill_between(across, 0, height, color=colour, alpha=0.08, linewidth=0)
            place = count + side * 1.2 * noise, float(np.exp(-0.72))
            align: Any = {"ha": "right" if side < 0 else "left", "color": colour}
            plots.note(ax, f"{WORDS[world]}: {count}", place, (5 * side, 3), **align)
    for index, guess in enumerate(result["guesses"]):  # each in the colour of its truth
        truth = IN if result["present"][index] else OUT
        marker = "_" if guess == PASS else "o" if guess == truth else "x"
        at = seen[index], BELOW - STEP * index
        ax.plot(*at, marker, color=COLOURS[truth], markersize=6, clip_on=False)
    if len(seen) > played:
        ax.plot([seen[-1]] * 2, [0, 1], color="black", linewidth=2)
        style: Any = {"ha": "center", "va": "bottom", "bbox": None}
        plots.note(ax, f"{seen[-1]:.2f}: in or out?", (seen[-1], 1), (0, 3), **style)
    ax.axhline(0, color="0.3", linewidth=1)
    low, high = min(*ends, *seen), max(*ends, *seen)
    ax.set(xlim=(low, high), ylim=(BELOW - 20 * STEP - 0.03, 1.2), yticks=[])
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("noisy count; below: o right, x wrong", fontsize=9)
    ax.set_title(y=1.0, label="What you see", fontsize=11)


def _draw_evidence(ax: Axes, result: Result) -> None:
    """The interval of your epsilon by rounds played, the most there is, and the release's."""
    ceiling, true, played = result["ceiling"], result["true"].epsilon, len(result["intervals"])
    rounds = np.arange(1, len(ceiling) + 1)
    top = ROOM * max(true, ceiling[-1])
    ax.axhline(true, color="black", ls="--", lw=1.2, label=f"the release: {at_most(true)}")
    ax.plot(rounds, ceiling, ":", color="0.35", lw=1.5, label="provable, if all were right")
    if played:
        low, high = np.array(result["intervals"]).T
        steps, high = rounds[:played], np.minimum(high, top)
        style: Any = {"step": "mid", "color": MINE, "alpha": 0.15, "linewidth": 0}
        ax.fill_between(steps, low, high, label="not excluded, of your guessing", **style)
        mine: Any = {"where": "mid", "color": MINE, "linewidth": 2}
        ax.step(steps, low, label=f"you have proven: {at_least(low[-1])}", **mine)
        ax.plot(played, low[-1], "o", color=MINE, clip_on=False)
    place = "upper right" if true < 0.6 * top else "center right"
    ax.legend(loc=place, fontsize=9, frameon=False)
    ax.set(xlim=(0.5, len(ceiling) + 0.5), ylim=(0, top))
    ax.set(xlabel="rounds played", ylabel="epsilon (nats)")
    ax.set_xticks(range(0, len(ceiling) + 1, 5))
    ax.set_title(y=1.0, label="What your guesses prove", fontsize=11)
