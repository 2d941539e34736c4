"""What the paper's tables bear out of the sentences about them: Tables 4 to 9, as printed.

Nothing is trained here: cells that are left of the tables are compared with what the text says.
"""

from collections.abc import Iterator
from functools import partial
from itertools import combinations, product
from statistics import mean
from typing import Any

from dpkit.papers.claims import Claim
from dpkit.papers.dpgan.budget import TABLE_7
from dpkit.papers.dpgan.js_score import MOST
from dpkit.papers.dpgan.tables import PRINTED

STRATEGIES = ("weight/bias", "automatic", "estimation", "warm start")
TWICE, NEARLY = 2.0, 0.25  # "almost doubles": within an eighth of twice as many
UNDECIDED = 0.75  # halfway from a discriminator that guesses, right half the time, to a sure one

Layout = tuple[frozenset[str], ...]  # the strategies that each configuration is marked with


def layouts() -> Iterator[Layout]:
    """Six different configurations with the marks of Tables 8 and 9.

    By configuration, in Table 9, there are 0, 1, 1, 2, 2 and 3 marks; by strategy, in Tables 8 and
    10, there are 3, 1, 4 and 1, in the order of Table 9's columns.
    """
    of = [[frozenset(some) for some in combinations(STRATEGIES, count)] for count in range(4)]
    for one, two, three in product(combinations(of[1], 2), combinations(of[2], 2), of[3]):
        rows = (frozenset[str](), *one, *two, three)
        if [sum(strategy in row for row in rows) for strategy in STRATEGIES] == [3, 1, 4, 1]:
            yield rows


def with_algorithm_3() -> int:
    """Layouts with the three marks of Algorithm 3: clusters, public bounds, warm start."""
    return sum(frozenset(STRATEGIES[1:]) in rows for rows in layouts())


def growth() -> float:
    """Iterations after weight clustering over those before, the mean of Table 7's four rows."""
    return mean(after / before for before, after in TABLE_7.values())


def gains(table: str, setting: str) -> list[float]:
    """Accuracy of the semi-supervised classifier minus that of the supervised one, by labels."""
    alone = PRINTED[table][""]
    return [accuracy - alone[labels] for labels, accuracy in PRINTED[table][setting].items()]


def ahead(table: str) -> int:
    """Cells of a table, of GAN and dpGAN, in which the semi-supervised classifier is better."""
    return sum(gain > 0 for setting in ("gan", "dpgan") for gain in gains(table, setting))


def relative_gain() -> float:
    """dpGAN's gain at the fewest labels of Table 5, over the supervised accuracy."""
    return gains("table_5", "dpgan")[0] / PRINTED["table_5"][""][5]


def sure_at_least(score: float) -> float:
    """The least that a discriminator is sure of its answers, on average, at a JS score.

    The score is convex in how sure it is of an image, 0 where it guesses (1/2) and MOST where it is
    sure (1): the chord between the two lies above, and with it every average.
    """
    return (1 + score / MOST) / 2


def in_table(name: str, where: str, says: str, **more: Any) -> Claim:
    """A claim on what a table prints."""
    return Claim(f"dpgan/{name}", f"text: {where}", says, **more)


TABLES: tuple[Claim, ...] = (
    in_table(
        "table-9",
        "sections 4.4, 5.4, Tables 8 to 10 (marks; the scores' cells are lost)",
        "The configurations of Table 9, whose inception scores rise from 6.59 to 8.64, include "
        "everything together, Algorithm 3: weight clustering, adaptive clipping, warm start.",
        kind="unchecked",
        compute=with_algorithm_3,
        explanation="If Tables 8 and 10, whose names of rows are lost, list the strategies in "
        "Table 9's order, none that fits the printed marks is Algorithm 3. Two sets of six "
        "configurations have them: 3, 1, 4 and 1 by strategy, and 0, 1, 1, 2, 2 and 3 by "
        "configuration. If no run has both groupings, one is left, whose three marks are "
        "weight/bias grouping, gradient estimation and warm start. Clusters, marked once, come "
        "without warm start. Beside which row 8.64 stands, the text does not say.",
    ),
    in_table(
        "almost-doubles",
        "section 4.1, Table 7",
        "Putting all biases into one group almost doubles the iterations that are allowed.",
        kind="equals",
        stated=TWICE,
        tolerance=NEARLY,
        compute=growth,
        explanation="This is the mean of Table 7's four ratios: 1.39, 1.40, 1.29, 1.29. Each group "
        "is charged, so that iterations grow about as charges fall, from 7 to 5 (1.40) or from 9 "
        "to 7 (1.29).",
    ),
    in_table(
        "steadily-outperforms",
        "section 5.3, Table 5 (LSUN-L)",
        "With generated images the semi-supervised classifier steadily outperforms the supervised "
        "one: in all 8 cells.",
        kind="equals",
        stated=8.0,
        compute=partial(ahead, "table_5"),
        explanation="It does in each of the 8 cells of LSUN-L, by 0.4 to 7.7 points. On MNIST it "
        "does in none, see `steadily-outperforms-mnist`.",
    ),
    in_table(
        "steadily-outperforms-mnist",
        "section 5.3 (the conclusion, drawn from LSUN-L), Table 6 (MNIST)",
        "Generated images are of value for such classifiers; on MNIST, that would be in 10 cells.",
        kind="equals",
        stated=10.0,
        compute=partial(ahead, "table_6"),
        explanation="In all 10 cells of MNIST the classifier that also sees generated images is "
        "the worse one: by 1.1 to 15.3 points with the GAN, by 2.5 to 15.1 with dpGAN.",
    ),
    in_table(
        "more-than-6-per-cent",
        "section 5.3, Table 5 (LSUN-L); for which n is lost, here the fewest labels, 5,000",
        "With few labels dpGAN's images raise the accuracy by more than 6 % (read as points).",
        kind="at least",
        stated=0.06,
        compute=lambda: max(gains("table_5", "dpgan")),
        explanation="dpGAN's largest gain is 3.3 points, from .538 to .571; the GAN without "
        "privacy gains 7.7. Of the supervised accuracy, .033 is more than 6 %, see "
        "`more-than-6-per-cent-relative`.",
    ),
    in_table(
        "more-than-6-per-cent-relative",
        "section 5.3, Table 5 (LSUN-L); for which n is lost, here the fewest labels, 5,000",
        "With few labels dpGAN's images raise the accuracy by more than 6 % (read as a part of the "
        "supervised accuracy).",
        kind="at least",
        stated=0.06,
        compute=relative_gain,
        explanation="From .538 to .571 is 6.1 % of .538. With three times as many labels it is "
        "2.9 %.",
    ),
    in_table(
        "js-near-its-maximum",
        "section 5.3, eq. 5, Table 4 (LSUN-U)",
        "A small JS score means that a discriminator has difficulty telling generated images; "
        "dpGAN's 0.29, close to the GAN's 0.25, is taken as good quality.",
        kind="in words",
        compute=lambda: sure_at_least(PRINTED["table_4"]["dpgan"]),
        believed=lambda value: value <= UNDECIDED,
        explanation="The score ends at .3113 bits, where the discriminator is sure. At .29 it is "
        "sure of its answers by this share on average at least, at .25 by 90.2 %; if it is equally "
        "sure of all images, by 99.4 % and 97.7 %. The two are close because both are near the "
        "end: it hardly finds anything difficult.",
    ),
)
