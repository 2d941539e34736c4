"""What all explorers get from their base: settings by name, a guess, a picture that follows."""

from html import escape

import pytest

from dpkit import explorers, plots
from dpkit.explorers import Accountant, BatchesAsDrawn
from dpkit.explorers.moving_picture import GHOST, follow
from dpkit.explorers.toolbar import ASK, OPENS
from dpkit.papers.dp_cgan import claims as dp_cgan
from dpkit.papers.small_images.settings import PUBLIC_SIZE
from dpkit.papers.small_images.settings import SETTINGS as SMALL_IMAGES


@pytest.fixture
def explorer() -> Accountant:
    return Accountant()


def held(explorer):
    return {name: control.value for name, control in explorer.values.items()}


@pytest.mark.parametrize("name", explorers.__all__)
def test_every_setting_has_numbers(name):
    explorer = getattr(explorers, name)
    if explorer.presets:
        opens = held(explorer())
        for values in explorer.presets.values():
            assert set(values) <= set(opens)
            assert explorer.compute(**opens | values)


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
    assert BatchesAsDrawn.presets["Small Images, as charged"]["steps"] == SMALL_IMAGES.max_steps


def test_a_setting_moves_all_at_once_and_the_first_sets_back(explorer, monkeypatch):
    opens, asked = held(explorer), []
    compute = explorer.compute
    monkeypatch.setattr(explorer, "compute", lambda **v: asked.append(v) or compute(**v))
    explorer.toolbar.preset.value = "where a limit theorem fails"
    assert len(asked) == 1
    assert held(explorer) == opens | Accountant.presets["where a limit theorem fails"]
    assert "GDP is too small" in explorer.sentence.value
    explorer.values["steps"].value = 500.0
    assert explorer.toolbar.preset.value is None  # no longer that setting: it can be chosen again
    explorer.toolbar.preset.value = OPENS
    assert held(explorer) == opens


def test_a_guess_comes_before_the_numbers(explorer):
    explorer.toolbar.switch.value = True
    assert explorer.numbers.value == ASK
    assert bytes(explorer.picture.value) == b""
    assert explorer.sentence.value == ""
    explorer.values["steps"].value = 20_000.0
    assert explorer.numbers.value == ASK
    explorer.toolbar.field.value = "about 8"
    explorer.toolbar.button.click()
    assert "You guessed about 8. " in explorer.sentence.value
    assert escape(explorer.says(explorer.result)) in explorer.sentence.value
    assert explorer.toolbar.field.value == ""
    explorer.values["steps"].value = 30_000.0  # the next guess
    assert explorer.numbers.value == ASK
    explorer.toolbar.switch.value = False
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
    assert ghost.get_gid() == GHOST
    assert list(ghost.get_ydata()) == [1, 4, 10]
    assert ghost.get_zorder() < line.get_zorder()
    again = drawn([1, 2, 7])
    follow(again, after)
    assert len(again.axes[0].lines) == 2  # the ghost of a ghost is gone


@pytest.mark.parametrize("ys", [[1, 4, 30], [1, 1.2, 2]])
def test_axes_move_where_the_curve_leaves_or_would_be_small(ys):
    before, after = drawn([1, 4, 10]), drawn(ys)
    limits = after.axes[0].get_ylim()
    follow(after, before)
    assert after.axes[0].get_ylim() == limits


def test_other_axes_have_no_ghost():
    before, after = drawn([1, 4, 10]), drawn([1, 4, 10], log=True)
    follow(after, before)
    assert len(after.axes[0].lines) == 1


def test_a_name_with_a_meaning_has_its_colour():
    found = plots.colours(["PLD", "something", "RDP, classic", "claimed", "also claimed"])
    meant = {"PLD": "PLD", "RDP, classic": "RDP", "claimed": "claimed"}
    assert {name: found[name] for name in meant} == {
        name: plots.MEANINGS[word] for name, word in meant.items()
    }
    assert len(set(found.values())) == len(found)
