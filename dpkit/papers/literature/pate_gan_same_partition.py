"""PATE-GAN's later code: one part of the data for all teachers."""

from dpkit.papers.claims import Code, Source, finding

TEACHERS = 10  # by updated_api.py:77


def parts_as_released() -> list[int]:
    """The part each teacher gets: the loop over teachers uses the previous loop's last index."""
    made: list[int] = []
    index = -1
    for index in range(TEACHERS):
        made.append(index)
    return [made[index] for _ in range(TEACHERS)]


def most_votes(parts: list[int]) -> float:
    """The most teachers of these parts whose votes one record sways."""
    return float(max(map(parts.count, parts)))


CLAIM = finding(
    "pate-gan-same-partition",
    Source(
        "PATE-GAN (Jordon, Yoon, van der Schaar 2019), code of 2020",
        "copy in spalabucr/pategan-audit 2d26d52, code/pate_gans/updated/updated.py:109-118,"
        "197-203; vanderschaarlab/mlforhealthlabpub issue 29",
    ),
    says="The teachers' parts of the data are disjoint, so one record sways one teacher's vote.",
    at_most=1.0,
    compute=lambda: most_votes(parts_as_released()),
    explanation="The loop over teachers takes the part with the index that the loop before it "
    "left over, so all 10 teachers are trained on the last part: one of its records sways all 10 "
    "votes, and the noise is for one.",
    code=Code(
        was="for _ in teachers: fit(parts[left_over])",
        should="for t in teachers: fit(parts[t])",
        cause="sensitivity",
    ),
)
