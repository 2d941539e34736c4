"""What all explorers get from their base: settings by name, a guess, a picture that follows."""

from html import escape

import numpy as np
import pytest
from lab import pixels

from dpkit.common import plots
from dpkit.course.explorers import Accountant
from dpkit.course.explorers.explorer import ASK, DRAFT, OPENS
from dpkit.course.explorers.moving_picture import GHOST, Frame, follow
from dpkit.papers.dp_cgan import claims as dp_cgan
from dpkit.papers.small_images.settings import PUBLIC_SIZE
from dpkit.papers.small_images.settings import SETTINGS as SMALL_IMAGES


@pytest.fixture
def explorer() -> Accountant:
    return Accountant()


def test_papers_settings_are_the_papers():
    published = Accountant.presets["DP-CGAN, as charged"]
    assert published == {
        "noise_multiplier": pytest.approx(dp_cgan.CODE_NOISE),
        "steps": dp_cgan.charged_steps(),
    }
    published = Accountant.presets["Small Images, as charged"]
    assert published["noise_multiplier"] == SMALL_IMAGES.noise_multiplier
    assert published["sample_rate"] == SMALL_IMAGES.expected_batch_size / PUBLIC_SIZE
    assert published["steps"] == SMALL_IMAGES.max_steps


def test_a_setting_moves_all_at_once_and_the_first_sets_back(explorer, monkeypatch):
    held = lambda: {name: control.value for name, control in explorer.values.items()}  # noqa: E731
    opens, asked = held(), []
    compute = explorer.compute
    monkeypatch.setattr(explorer, "compute", lambda **v: asked.append(v) or compute(**v))
    explorer.setting.value = "where a limit theorem fails"
    assert len(asked) == 1
    assert held() == opens | Accountant.presets["where a limit theorem fails"]
    assert "is refuted" in explorer.sentence.value
    explorer.values["steps"].value = 500.0
    assert explorer.setting.value is None  # no longer that setting: it can be chosen again
    explorer.setting.value = OPENS
    assert held() == opens


def test_a_guess_comes_before_the_numbers(explorer):
    explorer.switch.value = True
    assert (explorer.numbers.value, bytes(explorer.picture.value)) == (ASK, b"")
    assert explorer.picture.layout.display == "none"  # no image that looks broken
    assert explorer.sentence.value == ""
    explorer.values["steps"].value = 20_000.0
    assert explorer.numbers.value == ASK
    explorer.guess.value = "about 8"
    explorer.button.click()
    assert "You guessed about 8. " in explorer.sentence.value
    assert escape(explorer.says(explorer.result))[:20] in explorer.sentence.value
    assert "<span style='white-space:nowrap'>1e-5</span>" in explorer.sentence.value
    assert explorer.guess.value == ""
    explorer.values["steps"].value = 30_000.0  # the next guess
    assert explorer.numbers.value == ASK
    explorer.switch.value = False
    assert explorer.result["run"].steps == 30_000


def drawn(ys, *, log=False):
    figure, (ax,) = plots.figure()
    if log:
        ax.set_yscale("log")
    ax.plot(range(1, len(ys) + 1), ys)
    return figure


def test_what_was_drawn_before_stays_in_grey_on_the_same_axes():
    before, after = drawn([1, 4, 10]), drawn([1, 3, 8])
    follow(after, before)
    (ax,), (old,) = after.axes, before.axes
    assert ax.get_ylim() == old.get_ylim()
    line, ghost = ax.lines
    assert (ghost.get_gid(), list(ghost.get_ydata())) == (GHOST, [1, 4, 10])
    assert ghost.get_zorder() < line.get_zorder()
    again = drawn([1, 2, 7])
    follow(again, after)
    assert len(again.axes[0].lines) == 2  # the ghost of a ghost is gone
    other = drawn([1, 4, 10], log=True)
    follow(other, before)
    assert len(other.axes[0].lines) == 1  # other axes have none


@pytest.mark.parametrize("log", [False, True])
def test_axes_that_a_curve_leaves_make_room_for_the_next_moves(log):
    first, second, third = (drawn([1, 4, top], log=log) for top in (10, 13, 14))
    (low, high), (_, new) = (one.axes[0].get_ylim() for one in (first, second))
    assert new > high
    follow(second, first)
    roomy = second.axes[0].get_ylim()
    assert roomy[1] > new
    assert 0 <= low - roomy[0] < 0.1 * high  # its margin grew a little
    follow(third, second)
    assert third.axes[0].get_ylim() == roomy


def test_axes_move_where_the_curve_would_be_small():
    before, after = drawn([1, 4, 10]), drawn([1, 1.2, 2])
    limits = after.axes[0].get_ylim()
    follow(after, before)
    assert after.axes[0].get_ylim() == limits


def test_circles_stay_circles():
    before, after = drawn([0, 1, 2]), drawn([0, 2, 3])
    for figure in (before, after):
        figure.axes[0].set(aspect="equal", xlim=(0, 3), ylim=figure.axes[0].get_ylim())
    ax = after.axes[0]
    shape = np.array([ax.get_ylim(), ax.get_xlim()])
    follow(after, before)
    kept = np.array([ax.get_ylim(), ax.get_xlim()])
    grown = np.diff(kept) / np.diff(shape)
    assert grown[0] == pytest.approx(grown[1])
    assert kept[0][1] > shape[0][1]


@pytest.mark.parametrize(
    "change",
    [
        *({"xlabel": "steps"}, {"ylim": (0, 20)}, {"xlim": (0.5, 40), "xscale": "log"}),
        *({"visible": False}, {"position": (0.2, 0.2, 0.5, 0.5)}),
        {"yticks": [3, 7], "yticklabels": ["few", "many"]},
    ],
)
def test_what_changes_of_a_frame_is_drawn_again(change):
    frame = Frame()
    figure, axes = plots.figure(panels=2, left=0.1)
    for ax in axes:
        ax.plot([1, 4, 10])
    before = pixels(frame.png(figure, DRAFT))
    axes[1].set(**change)
    after = pixels(frame.png(figure, DRAFT))
    assert not np.array_equal(before, after)
    assert np.array_equal(after, pixels(Frame().png(figure, DRAFT)))
    one = plots.figure(left=0.1)[0]  # fewer axes, which leave nothing of those before
    assert np.array_equal(pixels(frame.png(one, DRAFT)), pixels(Frame().png(one, DRAFT)))
    assert figure.dpi == 100
    assert axes[0].spines["left"].get_visible()


def test_axes_alike_in_one_place_have_a_frame_each():
    figure, (ax,) = plots.figure(left=0.1)
    other = ax.twinx()
    for one in (ax, other):
        one.set(ylim=(0, 1), xlim=(0, 1))
    kept, whole = pixels(Frame().png(figure, DRAFT)), pixels(plots.Picture(figure, "").png(DRAFT))
    assert np.mean(abs(kept - whole) > 32) < 0.001


def test_a_name_with_a_meaning_has_its_colour():
    found = plots.colours(["PLD", "something", "RDP, classic", "claimed", "also claimed"])
    meant = {"PLD": "PLD", "RDP, classic": "RDP", "claimed": "claimed"}
    assert {name: found[name] for name in meant} == {
        name: plots.MEANINGS[word] for name, word in meant.items()
    }
    assert len(set(found.values())) == len(found)
