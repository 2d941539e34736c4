"""`check` on forty scripts, on the five papers, and on programs of a few lines."""

import inspect
import json
import random
from functools import partial
from pathlib import Path

import honest
import numpy as np
import papers
import pytest
import slips
import torch

from dpkit.audit import check
from dpkit.privacy import Gaussian, Release, SampledGaussian, pld

SLOW = {"poisson_by_loop", "poisson_by_vmap", "layers_clipped_apart", "adam_microbatches_of_one"}
SLOW |= {"opacus_engine", "gan_private_critic", "clip_layer_by_layer", "microbatches"}
SLOW |= {"batch_norm", "clip_grad_norm_on_the_batch", "warm_start", "bootstrap_batches"}
UNDECIDED = {"randomized_labels", "geometric_table", "medians_by_gumbel", "output_perturbation"}
UNDECIDED |= {"above_threshold"}
OTHER_LINE = {"clip_grad_norm_on_the_batch", "clip_layer_by_layer", "microbatches", "batch_norm"}
OTHER_LINE |= {"noisy_loss", "median_clip", "loader_drop_last"}
X = torch.rand(60, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def cases(module):
    named = [(case, case.train.__name__) for case in module.CASES]
    slow = pytest.mark.slow("a draw, a batch or a clip of a longer program that is not followed")
    return [pytest.param(x, id=name, marks=slow if name in SLOW else ()) for x, name in named]


def judged(case):
    told = {"claimed": case.claimed, "delta": case.delta, "adjacency": case.adjacency}
    return check(case.train, case.data, **told)


@pytest.mark.parametrize("case", cases(honest))
def test_an_honest_script_raises_no_alarm(case):
    report = judged(case)
    wanted = "undecided" if case.train.__name__ in UNDECIDED else "covered"
    assert report.verdict == wanted, report
    assert (report.proven == report.charged) is (wanted == "covered")


@pytest.mark.parametrize("case", cases(slips))
def test_a_slip_is_found_and_mostly_its_line(case):
    report = judged(case)
    assert report.verdict in ("broken", "understated"), report
    assert report.proven is None
    text = inspect.getsource(slips).splitlines()
    right = {i for i, x in enumerate(text, 1) if case.marker in x and x.endswith("# slip")}
    found = bool(right & {blame.line for blame in report.blame if Path(blame.file).stem == "slips"})
    assert found is (case.train.__name__ not in OTHER_LINE)


@pytest.mark.slow("a paper's own steps that are judged otherwise than its claims")
@pytest.mark.parametrize("case", papers.CASES, ids=[case[0] for case in papers.CASES])
def test_the_five_papers_get_the_verdicts_of_the_claims(case):
    _, train, data, claimed, delta, adjacency, verdict = case
    report = check(train, data, claimed=claimed, delta=delta, adjacency=adjacency)
    assert report.verdict == verdict, report


def R(seed=None):
    return np.random.default_rng(seed)


def of_five(x):
    return x.clamp(0, 1).sum(0) + 5 * torch.randn(2)


def test_what_is_charged_is_the_price_of_what_was_found():
    mu = 2**0.5 / 5 * float((X.max(0).values - X.min(0).values).norm() / 2**0.5)
    report = check(of_five, X, claimed=2.0, delta=1e-5, adjacency="replace-one")
    assert report.charged == pytest.approx(
        pld.epsilon([Release(Gaussian(1 / mu))], delta=1e-5).epsilon, rel=0.02
    )

    def sampled(x):
        return [(x[torch.rand(60) < 0.1] > -1).double().sum(0)[0] + torch.randn(()) for _ in "abc"]

    report = check(sampled, X, claimed=9, delta=1e-5)
    assert report.charged == pytest.approx(
        pld.epsilon([Release(SampledGaussian(1, 0.1), 3)], delta=1e-5).epsilon, rel=1e-3
    )


@pytest.mark.parametrize(
    ("train", "verdict"),
    [
        (lambda x: [x.sum(0) + (z := 9 * torch.randn(2)), 2 * x.sum(0) + z], "broken"),
        (lambda x: 9 * torch.randn(2) - x.sum(0), "covered"),
        (lambda x: x.sum(0) + float(9 * torch.randn(())), "undecided"),
        (lambda x: of_five(x) if x[0, 0] < x[1:, 0].max() else 1 / 0, "undecided"),
        (lambda x: torch.zeros(2), "undecided"),
        (lambda x: (x.sum(0) + (z := 9 * torch.randn(2)), z), "undecided"),
        (lambda x: (x.sum(0) + (z := 9 * torch.randn(2)), x.sum(0) - z), "broken"),
        (lambda x: x.sum(0) + (9 * torch.randn(2)).long(), "undecided"),
        (lambda x: x.sum() + R().normal(0, 9), "covered"),
        (lambda x: x[[bool(torch.rand(()) < 0.1) for _ in x]].sum(0) + torch.randn(2), "undecided"),
        (lambda x: (x[i := torch.randperm(60)[:6]].sum(0) + 9 * torch.randn(2), i), "undecided"),
        (lambda x: (of_five(x), torch.get_rng_state()), "undecided"),
        (lambda x: (s := int(torch.randint(99, ())), R(s).normal(0, 9) + x.sum()), "undecided"),
        (lambda x: x.sum(0)[[0, 1, 1]] + (9 * torch.randn(2))[[0, 1, 0]], "undecided"),
        (lambda x: x.T @ x + (z := 99 * torch.randn(2, 2)) - z.T, "undecided"),
        (lambda x: (of_five(x), partial(torch.add, x[0])), "broken"),
        (lambda x: partial(torch.add, x.sum(0) + (9 * torch.randn(9))[3:5]), "covered"),
        (lambda x: x.sum(0) + torch.distributions.Laplace(0.0, 90.0).sample((2,)), "covered"),
        (lambda x: ((m := torch.nn.Linear(2, 1)), setattr(m, "_rows", x))[0], "broken"),
        (lambda x: x.sum(0) + 9 * torch.randn(2) * torch.tensor([1.0, 0.0]), "broken"),
        (lambda x: (x.sum(0)[None] + np.triu(z := R().normal(0, 9, (2, 2))) + z.T)[0], "undecided"),
        (lambda x: (random.choice("ab"), x.sum(0) + 9 * torch.randn(2)), "covered"),
        (lambda x: x[R().permutation(60)[:20]].sum(0) + 9 * torch.randn(2), "covered"),
        (lambda x: (x > 9).sum() + R().laplace(0, 0.1), "undecided"),
        (lambda x: next(t for t in range(99) if x.sum() + R().laplace(0, 40) > 99), "undecided"),
        # in four digits two of 300 would be alike by chance; in nine with probability 0.0001
        (lambda x: [(x.sum() + R().normal(0, 900)).clamp(0) for _ in range(300)], "covered"),
    ],
)
def test_a_line_or_two(train, verdict):
    assert check(train, X, claimed=1, delta=1e-5, adjacency="replace-one").verdict == verdict


@pytest.mark.parametrize("inverted", [False, True])
def test_a_rate_is_that_of_the_comparison(inverted):
    def train(x):
        chosen = torch.rand(60) > 0.2 if inverted else torch.rand(60) < 0.8
        return x[chosen].clamp(1, 1).sum(0)[0] + 2 * torch.randn(())

    expected = pld.epsilon([Release(SampledGaussian(2, 0.8))], delta=1e-5).epsilon
    assert check(train, X, claimed=9, delta=1e-5).charged == pytest.approx(expected, rel=1e-3)


def test_adding_a_record_moves_a_one_sided_sum_by_all_of_it():
    def train(x):
        return x.clamp(9, 10).sum() + R().laplace(0, 40)

    def beside(x):
        return x[torch.rand(len(x)) < 0.5].clamp(0, 1).sum() + R().laplace(0, 4e6), train(x)

    for program in (train, beside):
        report = check(program, 10 * X, claimed=1.0, delta=0)
        assert report.charged == pytest.approx(2 * 10 / 40, rel=0.2)


def test_an_attack_measures_what_gets_out():
    told = {"claimed": 1, "delta": 1e-5, "adjacency": "replace-one"}
    assert check(lambda x: x.sum(0), X, trials=40, **told).measured.epsilon > 1
    report = check(of_five, X, trials=40, **told)
    assert report.measured.epsilon <= report.charged  # fails by chance with probability 0.05


@pytest.mark.parametrize(
    ("data", "asked", "error"),
    [
        ("rows", {}, "TypeError: data must be arrays"),
        ((X, X[1:]), {}, "ValueError: data must hold as many records"),
        (X, {"claimed": float("nan")}, "ValueError: claimed must be"),
        (X, {"delta": 1.0}, "ValueError: delta must be"),
        (X, {"seed": -1}, "ValueError: seed must be"),
        (np.array(["a"] * 60), {}, "TypeError: data must be arrays"),
    ],
)
def test_bad_input_is_refused(data, asked, error):
    kind, _, said = error.partition(": ")
    with pytest.raises(ValueError if kind == "ValueError" else TypeError, match=said):
        check(of_five, data, **{"claimed": 1.0, "delta": 1e-5, **asked})


def test_a_terminal_asks_for_a_module_and_a_file(dpkit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("def train(data):\n    return data['x'].sum(0)\n")
    np.savez("rows.npz", x=X.numpy())
    line = "check mine:train --data rows.npz --claimed 1 --delta 1e-5"
    code, out, err = dpkit(f"{line} --page page.html", "--json")
    assert (code, err) == (3, "")
    assert (told := json.loads(out))["verdict"] == "broken"
    assert told["blame"][0]["line"] == 2
    assert "&gt;    2     return" in Path("page.html").read_text()
    assert dpkit(line.replace("npz", "csv"))[0] == dpkit(line.replace("train", "no"))[0] == 2
