"""The game: what is dealt, what guesses prove, and what the buttons do."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from dpkit.audit.one_run import Guesses, tails
from dpkit.common.plots import Picture
from dpkit.course.explorers import PlayTheAttacker
from dpkit.course.explorers import play_the_attacker as play
from dpkit.course.explorers.play_the_attacker import DELTA, FIRST, ROUNDS, Score, deal, interval
from dpkit.privacy import Gaussian, Release, pld
from dpkit.privacy.numerics import bracket

computed = partial(
    PlayTheAttacker.compute, noise_multiplier=1.0, help=play.HELP[0], seed=FIRST, guesses=""
)


@pytest.fixture
def explorer(monkeypatch: pytest.MonkeyPatch) -> PlayTheAttacker:
    """Without a picture, which test_contract.py draws."""
    monkeypatch.setattr(PlayTheAttacker, "draw", lambda *_: Picture(None, ""))
    return PlayTheAttacker()


def truth(seed: int = FIRST) -> str:
    return "".join("I" if there else "O" for there in deal(1.0, seed).present)


def press(explorer: PlayTheAttacker, letters: str) -> None:
    for letter in letters:
        explorer.buttons["IOP".index(letter)].click()


def test_coins_are_fair_and_the_noise_is_as_wide_as_it_says():
    """2,000 games: each mean within 4 standard errors, by chance outside with 6e-5; seeds fixed."""
    games = [deal(2.0, seed) for seed in range(2_000)]
    present = np.concatenate([game.present for game in games])
    noise = np.concatenate([game.seen for game in games]) - play.WITHOUT - present
    n = present.size
    assert n == 2_000 * ROUNDS
    assert abs(present.mean() - 0.5) < 4 * 0.5 / math.sqrt(n)
    assert abs(noise.mean()) < 4 * 2 / math.sqrt(n)
    assert abs(noise.std() - 2) < 4 * 2 / math.sqrt(2 * n)


def test_the_best_attacker_is_right_as_often_as_expected():
    """40,000 rounds, within 4 standard errors: outside by chance with 6e-5; seeds fixed."""
    games = [deal(1.0, seed) for seed in range(2_000)]
    right = sum(play.score(play.best_guesses(game), game.present).right for game in games)
    chance, n = float(ndtr(0.5)), 2_000 * ROUNDS
    assert computed()["chance"] == pytest.approx(chance)
    assert abs(right / n - chance) < 4 * math.sqrt(chance * (1 - chance) / n)


def test_guesses_are_counted_and_the_next_number_is_seen_and_no_truth_beyond_them():
    present = np.array([True, False, True, True])
    counts = [play.score(guesses, present) for guesses in ("", "IOOP", "PPP")]
    assert counts == [(0, 0, 0), (2, 1, 1), (0, 0, 3)]
    for played in range(ROUNDS + 1):
        found = computed(guesses=played * "I")
        assert (len(found["present"]), len(found["seen"])) == (played, min(played + 1, ROUNDS))


@pytest.mark.parametrize("counts", [(20, 0, 0), (14, 6, 0), (5, 0, 15), (18, 2, 0)])
def test_an_epsilon_below_the_interval_makes_so_many_right_ones_improbable(counts):
    right, wrong, _ = counts
    low, high = interval(Score(*counts))
    assert interval(Score(0, 0, 20)) == (0, math.inf)  # who passes always shows nothing
    error = 0.05 - sum(counts) * DELTA
    if low:
        chance = math.exp(low) / (1 + math.exp(low))
        assert binom.sf(right - 1, right + wrong, chance) == pytest.approx(error)
    if math.isfinite(high):
        chance = math.exp(high) / (1 + math.exp(high))
        assert binom.cdf(right, right + wrong, chance) == pytest.approx(error)


@pytest.mark.parametrize("right", [12, 15, 18, 20])
def test_the_lower_end_is_that_of_one_run_with_as_many_canaries(right):
    """Both treat delta in ways of their own, which at 20 rounds differ by less than 1 %."""

    def possible(epsilon):  # Steinke, Nasr, Jagielski 2023, Thm 5.2
        least, alpha = tails(Guesses(ROUNDS, ROUNDS, right), epsilon)
        return least + 2 * ROUNDS * DELTA * alpha > 0.05

    bound = bracket(possible)[0]
    assert interval(Score(right, ROUNDS - right, 0))[0] == pytest.approx(bound, rel=0.01)


def test_the_lower_end_holds_as_often_as_it_says():
    """The best attacker's: above its epsilon in at most 5 % of games, exactly."""
    chance = float(ndtr(0.5))
    own = math.log(chance / (1 - chance))
    above = sum(
        binom.pmf(right, ROUNDS, chance)
        for right in range(ROUNDS + 1)
        if interval(Score(right, ROUNDS - right, 0))[0] > own
    )
    assert above <= 0.05


def test_the_releases_epsilon_is_certified_by_another_accountant():
    for noise in (0.5, 1.0, 4.0):
        pair = pld.epsilon([Release(Gaussian(noise))], delta=DELTA)
        true = play.true_epsilon(noise).epsilon
        assert pair.lower * (1 - 1e-8) <= true <= pair.epsilon * (1 + 1e-8)


def test_buttons_write_the_guesses_and_stop_after_twenty(explorer):
    """Then the lesson comes."""
    press(explorer, "IOP")
    assert explorer.values["guesses"].value == "IOP"
    assert "3 of 20 rounds played, 1 passed" in repr(explorer)
    press(explorer, 16 * "I")
    assert "would prove epsilon" not in explorer.numbers.value
    press(explorer, 30 * "I")
    assert explorer.values["guesses"].value == "IOP" + 17 * "I"
    assert "would prove epsilon &gt;= 1.82" in explorer.numbers.value
    assert "69.1 %, comes to epsilon 0.81" in explorer.numbers.value
    assert [button.disabled for button in explorer.buttons] == [True, True, True, False]
    explorer.buttons[-1].click()
    assert (explorer.values["guesses"].value, explorer.values["seed"].value) == ("", FIRST + 1)
    assert not any(button.disabled for button in explorer.buttons)


def test_all_right_and_all_wrong(explorer):
    word = {"I": "in", "O": "out"}[truth()[0]]
    assert "was in:" not in repr(explorer)  # the truth is told after the guess
    assert "was out:" not in repr(explorer)
    press(explorer, truth()[0])
    assert f"was {word}: right" in repr(explorer)
    press(explorer, truth()[1:])
    assert "20 of 20 right" in repr(explorer)
    assert "at least 1.82" in repr(explorer)
    explorer.values["guesses"].value = truth().translate(str.maketrans("IO", "OI"))
    assert "0 of 20 right" in repr(explorer)
    assert "at least 0 " in repr(explorer)


def test_another_noise_deals_anew_and_help_does_not(explorer):
    press(explorer, "II")
    explorer.values["help"].value = play.HELP[1]
    assert explorer.values["guesses"].value == "II"
    explorer.values["noise_multiplier"].value = 2.0
    assert explorer.values["guesses"].value == ""
    assert "0 of 20 rounds played" in repr(explorer)
