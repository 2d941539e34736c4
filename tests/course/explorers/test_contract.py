"""What every explorer keeps: it answers each control, refuses in a sentence, stands as text."""

import asyncio
import math
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from html import escape
from importlib import import_module
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from ipywidgets.widgets.widget import _instances
from lab import pixels
from matplotlib.text import Text

from dpkit.common.plots import Picture
from dpkit.common.show import at_least, at_most, interval
from dpkit.course import explorers
from dpkit.course.explorers import calibration, clipping_and_noise, play_the_attacker, repair_it
from dpkit.course.explorers import explorer as base
from dpkit.course.explorers.explorer import DELAY, DRAFT, REST, Explorer
from dpkit.course.explorers.moving_picture import Frame

NAN, INF = math.nan, math.inf
DPI = 40  # that a picture is drawn at here
PNG = b"\x89PNG"
NOWHERE = {  # what these controls may be with no explorer
    **{"delta": (0.0, 1.0, -1.0, NAN, INF), "noise_multiplier": (0.0, NAN)},
    **{"sample_rate": (0.0, 1.5, NAN, INF, -1.0), "steps": (0.0, -1.0, NAN, INF)},
    "adjacency": ("both",),
}
Values = dict[str, Any]
QUICK = ("Accountant", "ClaimsWall", "PlayTheAttacker", "RepairIt", "TradeOff")
ITS_OWN = pytest.mark.slow("this explorer's own controls, numbers, pictures or refusals")
# A frame of each kind: bars, circles, areas, logarithmic axes, two panels.
FRAMES = {"Accountant", "ClippingAndNoise", "RepairIt", "TradeOff"}
DRAWS_ITS_OWN = pytest.mark.slow("a draft that lacks what only this explorer draws")


class Case(NamedTuple):
    """What an explorer is asked; values are those it opens with but for what a change says.

    moves: (control, value) one after the other, every control at least once.
    numbers: from the result, what its table tells.
    words: from the result, what its picture's words tell.
    extremes: changes that still have numbers and a picture; `make test` draws the first.
    refused: changes, and a pattern of the sentence that refuses them; besides `NOWHERE`.
    unmoved: controls whose move is seen in the picture alone.
    unread: controls that matter after another was moved.
    """

    moves: list[tuple[str, Any]]
    numbers: Callable[[Values], tuple[str, ...]]
    words: Callable[[Values], tuple[str, ...]]
    extremes: list[Values]
    refused: Sequence[tuple[Values, str]] = ()
    unmoved: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def moves(**values: Any) -> list[tuple[str, Any]]:
    return list(values.items())


def each(**bad: tuple[Any, ...]) -> list[tuple[Values, str]]:
    """Each of these values under its name, refused by that name."""
    return [({name: value}, name) for name, values in bad.items() for value in values]


CASES = {
    "Accountant": Case(
        moves=moves(
            **{"noise_multiplier": 1.4, "sample_rate": 0.02, "steps": 500.0, "delta": 1e-6},
            **{"adjacency": "replace-one", "find": calibration.NOISE, "target_epsilon": 3.0},
        ),
        numbers=lambda f: (
            *(at_most(epsilon) for _, epsilon, _, _ in f["rows"]),
            at_least(f["rows"][0][2]),
        ),
        refused=[
            ({"find": "delta"}, "find must be one of epsilon"),
            ({"find": calibration.NOISE, "target_epsilon": NAN}, "target_epsilon"),
            (
                {"find": calibration.NOISE, "target_epsilon": 1e-20, "delta": 1e-300},
                "no noise below",
            ),
            ({"find": calibration.STEPS, "target_epsilon": 1e-6}, "one step costs more"),
            ({"find": calibration.RATE, "noise_multiplier": 0.0}, "noise_multiplier"),
        ],
        unread=("target_epsilon",),
        words=lambda f: (
            f"RDP to {at_most(f['rows'][1][1])}",
            f"between {at_least(f['rows'][0][2])} and {at_most(f['rows'][0][1])}.",
        ),
        extremes=[
            {"noise_multiplier": 100.0, "sample_rate": 1e-5, "steps": 1.0},
            {"noise_multiplier": 50.0, "sample_rate": 1.0, "steps": 3.0},
            {"find": calibration.STEPS, "target_epsilon": 30.0},
            {"find": calibration.RATE, "steps": 10.0},
            {"find": calibration.NOISE, "sample_rate": 1e-3, "steps": 10.0},
        ],
    ),
    "ClaimsWall": Case(
        moves=moves(
            claim="dp_cgan/label-leak", verdict="computed", paper="small_images", word="Beaulieu"
        ),
        numbers=lambda f: (f["claim"].id, f["verdict"], at_most(f["computed"])),
        words=lambda f: (at_most(f["computed"]),),
        refused=[
            ({"paper": "dp_cgan", "verdict": "perhaps"}, "verdict must be one of"),
            ({"paper": "nobody"}, "paper must be one of"),
            ({"word": "unheard-of"}, "no claim of any paper that mentions 'unheard-of'"),
            ({"paper": "dp_cgan", "claim": "dp_cgan/unheard-of"}, "unheard-of"),
            (
                {"paper": "dp_cgan", "verdict": "holds", "claim": "dp_cgan/label-leak"},
                "claim must be one of those chosen",
            ),
            ({"paper": "dp_cgan", "claim": None}, "claim must be one of"),
        ],
        extremes=[{"claim": "dp_cgan/label-leak"}, {"claim": "dpgan/table-7-mnist-after"}],
    ),
    "ClippingAndNoise": Case(
        moves=moves(
            **{"angle": 10.0, "length": 0.4, "batch_size": 12},
            **{"noise_multiplier": 2.0, "max_grad_norm": 0.5, "rule": "per group"},
        ),
        unmoved=("angle",),
        numbers=lambda f: (
            at_most(f["proven"]["epsilon"]),
            at_least(f["proven"]["noise"]),
            at_most(f["sensitivity"][1]),
        ),
        words=lambda f: (at_most(f["proven"]["epsilon"]), f"{f['moved']:.4g}"),
        refused=[
            *each(
                **dict.fromkeys(
                    ("max_grad_norm", "noise_multiplier", "length", "angle", "batch_size"),
                    (NAN, INF, -INF, -1000),
                )
            ),
            *each(batch_size=(-3, 0, 501)),
            ({"rule": "none"}, "rule must be one of flat"),
        ],
        extremes=[
            {
                "rule": clipping_and_noise.WRONG,
                "max_grad_norm": 0.1,
                "batch_size": 500,
                "length": 1e4,
            }
        ],
    ),
    "LossesAddUp": Case(
        moves=moves(steps=1000.0, noise_multiplier=2.0, sample_rate=0.02, delta=1e-6),
        numbers=lambda f: (interval(*f["pair"]), f"{f['by_bell']:.4g}"),
        words=lambda f: (at_most(f["pair"][1]), f"{f['by_bell']:.4g}"),
        refused=[
            *each(steps=(1e7,)),
            ({"noise_multiplier": 0.01, "sample_rate": 1.0}, "take more noise"),
        ],
        extremes=[
            {"steps": 1.0, "sample_rate": 1.0, "noise_multiplier": 0.5},
            {"steps": 1e5, "sample_rate": 1e-4, "noise_multiplier": 100.0},
            *({"delta": 0.9}, {"delta": 1e-300}),
        ],
    ),
    "PlayTheAttacker": Case(
        moves=moves(noise_multiplier=2.0, help=play_the_attacker.HELP[1], seed=3, guesses="IOP"),
        numbers=lambda f: (
            *(f"{f['seen'][-1]:.2f}", at_most(f["true"].epsilon), f"{100 * f['chance']:.1f} %"),
            *("delta 1e-5", "add-remove", play_the_attacker.FIXED),
        ),
        words=lambda f: (
            f"{f['seen'][-1]:.2f}",
            at_most(f["true"].epsilon),
            at_least(f["ceiling"][-1]),
        ),
        refused=each(
            noise_multiplier=(-1.0, INF, 101.0),
            help=("none", None),
            seed=(-1, 1.5, NAN),
            guesses=("IOX", "i", 21 * "I"),
        ),
        extremes=[
            {"guesses": 20 * "I"},
            {"guesses": 20 * "P", "help": play_the_attacker.HELP[1]},
            {"noise_multiplier": 0.1, "guesses": "IOP"},
            {"noise_multiplier": 100.0, "guesses": 20 * "O"},
        ],
        unmoved=("help",),
    ),
    "RepairIt": Case(
        moves=[(name, True) for name in repair_it.CORRECTIONS],
        numbers=lambda f: tuple(map(at_most, f["along"].values())),
        words=lambda f: (at_most(f["epsilon"]),),
        extremes=[repair_it.ALL, {**repair_it.ALL, "generator": False}, {"generator": True}],
    ),
    "ShuffledOrPoisson": Case(
        moves=moves(noise_multiplier=1.0, batches=469.0, seed=5, delta=1e-6),
        numbers=lambda f: (
            interval(*f["poisson"]),
            at_least(f["shuffled"][0]),
            at_most(f["shuffled"][1]),
        ),
        words=lambda f: (at_most(f["shuffled"][1]),),
        refused=each(noise_multiplier=(11.0,), batches=(1.0, 1e4, NAN), seed=(-1, 1.5, NAN)),
        extremes=[
            {"noise_multiplier": 0.2, "batches": 1000.0},
            {"noise_multiplier": 10.0, "batches": 2.0},
            {"delta": 0.9},
            {"delta": 1e-300},
        ],
        unmoved=("seed",),
    ),
    "Schedules": Case(
        moves=[
            *(("steps", 10.0), ("start", 2.5), ("end", 1.0), ("sample_rate", 0.02)),
            *(("delta", 1e-6), ("kind", "step"), ("drops", 2), ("kind", "constant")),
        ],
        numbers=lambda f: (at_most(f["rdp"]), at_most(f["pld"]), at_least(f["lower"])),
        words=lambda f: (at_most(f["rdp"]), at_most(f["pld"]), at_least(f["lower"])),
        refused=[
            *each(start=(NAN, INF, -1.0, 0.0), end=(NAN, INF, -1.0, 0.0)),
            ({"kind": "adaptive"}, "kind must be one of constant"),
            *(({"kind": "step", "drops": 0}, "drops"), ({"end": 5.0}, "linear may rise")),
        ],
        extremes=[{"delta": 0.9}, {"steps": 1.0, "sample_rate": 1.0}],
    ),
    "TradeOff": Case(
        moves=moves(
            **{"alpha": 0.3, "beta": 0.3, "steps": 50.0, "sample_rate": 0.02},
            **{"noise_multiplier": 3.0, "adjacency": "replace-one"},
        ),
        numbers=lambda f: (
            f"at least {at_least(f['least_beta'])}",
            f"at least {at_least(f['by_rdp'])}",
            at_most(1 - f["least_beta"]),
            at_most(f["advantage"]),
        ),
        words=lambda f: (at_least(f["least_beta"]),),
        refused=each(alpha=(-0.1, 1.1, NAN), beta=(NAN,)),
        extremes=[
            {"noise_multiplier": 0.1, "sample_rate": 1.0, "steps": 1e6},
            {"noise_multiplier": 100.0, "sample_rate": 1e-5, "steps": 1.0},
            {"alpha": 1.0, "beta": 1e-4},
        ],
    ),
}


def of_all(what: Callable[[Case], list[Any]], fault: str = "") -> pytest.MarkDecorator:
    """A test for each explorer and each of what its case lists; of a fault the first is quick."""
    cases = [
        pytest.param(
            name, one, id=f"{name}-{one}", marks=[pytest.mark.slow(fault)] * bool(fault and place)
        )
        for name, case in CASES.items()
        for place, one in enumerate(what(case))
    ]
    return pytest.mark.parametrize(("explorer", "one"), cases, indirect=["explorer"])


def refused_of(case: Case) -> list[tuple[Values, str]]:
    """Its own refusals, and those that every explorer with such a control has."""
    controls = {name for name, _ in case.moves}.difference(case.unread)
    return [*each(**{n: bad for n, bad in NOWHERE.items() if n in controls}), *case.refused]


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Without torch, which none may need; few dots of a picture, and no search that gives up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Explorer))  # scipy asks for it
        patch.setattr(calibration, "PATIENCE", INF)
        patch.setattr(base, "FINE", DPI)
        patch.setattr(base, "STORED", DPI)
        yield


@cache
def opened(name: str) -> tuple[Explorer, tuple[str, bytes]]:
    """An explorer, and what it shows when it opens."""
    explorer = getattr(explorers, name)()
    return explorer, shown(explorer)


@pytest.fixture(
    params=[pytest.param(x, marks=() if x in QUICK else ITS_OWN) for x in explorers.__all__]
)
def explorer(request: pytest.FixtureRequest) -> Explorer:
    """As it opens, opened once; each test sets back what it moves."""
    return opened(request.param)[0]


@pytest.fixture
def case(explorer: Explorer) -> Case:
    return CASES[type(explorer).__name__]


@pytest.fixture
def asked(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> list[Values]:
    """The values of every call of `compute`."""
    calls: list[Values] = []
    compute = explorer.compute
    monkeypatch.setattr(explorer, "compute", lambda **held: calls.append(held) or compute(**held))
    return calls


def held(explorer: Explorer) -> Values:
    return {name: control.value for name, control in explorer.values.items()}


def set_back(explorer: Explorer, values: Values) -> None:
    for name, value in values.items():
        explorer.values[name].value = value


def afresh(explorer: Explorer) -> None:
    """Show it as if nothing had been moved before."""
    explorer._rested = explorer._drawn = None
    explorer.update()


def as_opened(explorer: Explorer) -> None:
    """Show what it opened with, where a test left another picture."""
    if shown(explorer) != opened(type(explorer).__name__)[1]:
        afresh(explorer)


def shown(explorer: Explorer) -> tuple[str, bytes]:
    return explorer.numbers.value, bytes(explorer.picture.value)


class Sketch(Picture):
    """A picture whose image is its words."""

    def png(self, dpi: float | None = None) -> bytes:
        return self.words.encode()


def sketch(values: Values) -> Picture:
    """Sooner than a drawing, where only whether there is one matters."""
    return Sketch(None, repr(values))


def check_alert(explorer: Explorer) -> str:
    """One sentence stands in place of numbers and picture; returned without its markup."""
    told = explorer.numbers.value
    assert told.startswith("<p role='alert'>")
    assert told.endswith(".</p>")
    assert "Traceback" not in told
    assert explorer.result is None
    assert (explorer.picture.value, explorer.words.value) == (b"", "")
    assert explorer.picture.layout.display == "none"  # no image that looks broken
    assert explorer.sentence.value == ""
    assert "no numbers" in repr(explorer)
    assert told in explorer._repr_mimebundle_()["text/html"]
    return told.removeprefix("<p role='alert'>").removesuffix("</p>")


def test_every_explorer_has_a_case():
    for module in pkgutil.iter_modules(explorers.__path__, "dpkit.course.explorers."):
        import_module(module.name)
    written = {one.__name__ for one in Explorer.__subclasses__()}
    assert written == set(explorers.__all__) == CASES.keys()


def test_numbers_stand_as_text_for_screens_without_a_kernel_and_the_picture_has_words(
    explorer, case
):
    as_opened(explorer)
    assert all(control.tooltip for control in explorer.values.values())
    assert explorer.picture.value[:4] == PNG
    for told in case.words(explorer.result):
        assert escape(told) in re.sub(r"</?span[^>]*>", "", explorer.words.value)
    data, table = explorer._repr_mimebundle_(), explorer.table(explorer.result)
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == repr(explorer)
    assert repr(explorer).startswith(explorer.title)
    assert data["text/html"].startswith(f"<h3>{escape(explorer.title)}</h3>")
    assert "<table" in data["text/html"]
    assert "<img src='data:image/png;base64," in data["text/html"]
    assert len(data["text/html"]) < 60_000 or explorer.title == explorers.ClaimsWall.title
    page = re.sub(r"</?span[^>]*>", "", data["text/html"])
    cells = [*table.headings, *(cell for row in table.rows for cell in row), *table.notes]
    for told in (*cells, *case.numbers(explorer.result), explorer.says(explorer.result)):
        assert told in data["text/plain"]
        assert escape(told) in page


@pytest.mark.parametrize(
    "drawn", [False, pytest.param(True, marks=pytest.mark.slow("a control that a picture ignores"))]
)
def test_every_control_moves_what_is_shown_and_back(explorer, drawn, case, asked, monkeypatch):
    """Numbers after each move, and the picture at the end, or after each move."""
    assert {name for name, _ in case.moves} == set(explorer.values)
    as_opened(explorer)
    values, before, widgets = held(explorer), shown(explorer), len(_instances)
    assert widgets >= len(explorer.children)
    with monkeypatch.context() as patch:
        if not drawn:
            patch.setattr(explorer, "draw", lambda _: sketch(asked[-1]))
            patch.setattr(explorer, "late", lambda found: found)
            afresh(explorer)
        now = shown(explorer)
        for name, value in case.moves:
            asked.clear()
            explorer.values[name].value = value
            assert explorer.values[name].value == value
            assert asked == [held(explorer)]
            (numbers, picture), now = now, shown(explorer)
            assert now[1].startswith(PNG) or not drawn
            assert now[1] != picture
            assert (now[0] == numbers) == (name in case.unmoved)
            assert "alert" not in now[0] + explorer.words.value
    afresh(explorer)
    assert shown(explorer)[1].startswith(PNG)
    assert shown(explorer)[1] != before[1]
    with monkeypatch.context() as patch:
        patch.setattr(explorer, "update", lambda: None)
        set_back(explorer, values)
    afresh(explorer)
    assert (shown(explorer), len(_instances)) == (before, widgets)


def test_moves_in_quick_succession_leave_one_picture_and_no_widgets(
    explorer, case, asked, monkeypatch
):
    values, drawn = held(explorer), []
    monkeypatch.setattr(explorer, "draw", lambda found: drawn.append(found) or sketch(asked[-1]))
    afresh(explorer)
    drawn.clear()
    before = len(_instances)
    name, value = case.moves[0]
    asked.clear()
    before_moves = explorer.sentence.value, explorer.numbers.value

    async def move() -> None:
        for turn in range(5):
            explorer.values[name].value = values[name] if turn % 2 else value
        assert asked == drawn == []
        while not drawn:
            assert (explorer.sentence.value, explorer.numbers.value) == before_moves
            await asyncio.sleep(DELAY)
        assert escape(explorer.says(explorer.result))[:9] in explorer.sentence.value
        assert len(drawn) == 1  # and once more, with what takes long, when the hand rests
        await asyncio.sleep(2 * REST)
        while explorer._waiting:
            await asyncio.sleep(DELAY)

    asyncio.run(asyncio.wait_for(move(), 60))
    assert asked == [held(explorer)]  # what was passed by is not computed
    assert len(drawn) <= 2  # once more only where something was added
    assert explorer.picture.value == sketch(held(explorer)).png()
    set_back(explorer, values)
    assert len(_instances) == before


@of_all(refused_of)
def test_bad_values_become_a_sentence(explorer, one, monkeypatch):
    change, pattern = one
    values = held(explorer) | change
    with pytest.raises(ValueError, match=pattern) as refused:
        explorer.compute(**values)
    controls = {name: SimpleNamespace(value=value) for name, value in values.items()}
    with monkeypatch.context() as patch:
        patch.setattr(explorer, "values", controls)  # sliders themselves never leave their range
        explorer.update()
    assert check_alert(explorer).startswith(escape(str(refused.value)))


def test_what_was_refused_or_failed_is_forgotten(explorer, case, monkeypatch):
    monkeypatch.setattr(explorer, "draw", lambda _: sketch(held(explorer)))
    monkeypatch.setattr(explorer, "late", lambda found: found)
    afresh(explorer)
    values, before = held(explorer), shown(explorer)
    name, value = case.moves[0]
    for error, told in (
        (ValueError("must be fewer <here>"), "must be fewer &lt;here&gt;."),
        (KeyError("x"), "should not happen"),
    ):
        with monkeypatch.context() as patch:

            def broken(error=error, **_):
                raise error

            patch.setattr(explorer, "compute", broken)
            explorer.values[name].value = value
            assert told in check_alert(explorer)
        set_back(explorer, values)
        assert shown(explorer) == before


@of_all(lambda case: case.extremes, "the other ends of the sliders break a picture")
@pytest.mark.filterwarnings("error")
def test_extremes_are_drawn_too(explorer, one):
    found = explorer.late(explorer.compute(**held(explorer) | one))
    assert "nan" not in explorer.table(found).text()
    picture = explorer.draw(found)
    assert picture.png(DPI).startswith(PNG)
    assert "nan" not in picture.words


def test_words_in_a_picture_are_legible_on_a_phone(explorer):
    """At least 9 pixels high where Lab leaves 270 for a panel, each an image of its own."""
    as_opened(explorer)
    figure = explorer.draw(explorer.result).figure
    wide = [float(one.layout.flex.split()[0]) for one in explorer.picture.children]
    assert len(wide) == len(figure.axes)
    assert sum(wide) == pytest.approx(figure.get_figwidth(), abs=0.02)
    for inches, ax in zip(wide, figure.axes, strict=True):
        told = [one for one in ax.findobj(Text) if one.get_visible() and one.get_text()]
        assert min(one.get_fontsize() for one in told) * 270 / (72 * inches) > 8.95, ax


def test_every_setting_has_numbers(explorer):
    opens = held(explorer)
    for values in explorer.presets.values():
        assert set(values) <= set(opens)
        assert explorer.compute(**opens | values)


@pytest.mark.parametrize(
    "explorer",
    [pytest.param(x, marks=() if x in FRAMES else DRAWS_ITS_OWN) for x in explorers.__all__],
    indirect=True,
)
def test_a_draft_on_a_kept_frame_looks_like_a_whole_drawing(explorer):
    as_opened(explorer)
    pictures, frame = [explorer.draw(explorer.result) for _ in range(2)], Frame()
    if pictures[0].figure is None:
        return
    whole = pixels(pictures[0].png(DRAFT))
    first, kept = (pixels(frame.png(one.figure, DRAFT)) for one in pictures)
    assert np.array_equal(first, kept)
    assert kept.shape == whole.shape
    # Ticks may lie under an area: few pixels, and none of the axes' names
    assert np.mean(abs(kept - whole) > 32) < 0.005
