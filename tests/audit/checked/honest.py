"""Twenty honest scripts: each claimed epsilon is a valid upper bound for exactly what runs.

Claims are rounded up. pld is dpkit's upper end; G(mu) is that of one Gaussian(1 / mu),
a release that moves by mu standard deviations. Under replace-one n is public.
"""

import math
import warnings
from typing import Any, Callable, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.utils.data import DataLoader, TensorDataset

class Case(NamedTuple):
    train: Callable
    data: Any
    claimed: float
    delta: float
    adjacency: str
    marker: str
    about: str

def _blobs(n=200, d=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, d)) + 1.5 * (2 * y[:, None] - 1)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)

def _people(n=200, seed=1):
    # age in years and yearly income in thousands
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(45, 14, n), rng.lognormal(3.6, 0.5, n)])

def _codes(n, *sizes):
    rng = np.random.default_rng(2)
    return np.column_stack([rng.binomial(k - 1, 0.4, n) for k in sizes])

def poisson_by_loop(data):
    """DP-SGD on a small network, one backward pass for each example of a Poisson batch."""
    x, y = data
    rate, clip, sigma, expected, lr = 0.1, 1.0, 1.0, 20, 0.5
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
    params = list(model.parameters())
    for _ in range(20):
        total = [torch.zeros_like(p) for p in params]
        for i in torch.nonzero(torch.rand(len(x)) < rate).flatten():
            grads = torch.autograd.grad(F.cross_entropy(model(x[i]), y[i]), params)
            norm = torch.sqrt(sum(g.square().sum() for g in grads))
            for t, g in zip(total, grads):
                t += g * min(1.0, clip / (float(norm) + 1e-6))
        for p, t in zip(params, total):
            p.data -= lr * (t + sigma * clip * torch.randn_like(t)) / expected
    return model.state_dict()

def _per_example(model, loss):
    def one(params, a, b):
        return loss(functional_call(model, params, (a[None],)), b[None])
    return vmap(grad(one), in_dims=(None, 0, 0))

def _clipped_sums(grads, clip, take=1):
    norms = torch.sqrt(sum(g.flatten(1).square().sum(1) for g in grads.values()))
    factor = (clip / norms.clamp(min=1e-12)).clamp(max=1.0) * take
    return {k: torch.einsum("i,i...->...", factor, g) for k, g in grads.items()}

def poisson_by_vmap(data):
    """DP-SGD on Poisson batches with per-example gradients from torch.func."""
    x, y = data
    n, rate, clip, sigma = len(x), 0.15, 0.5, 2.0
    model = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 2))
    params = {k: p.detach().clone() for k, p in model.named_parameters()}
    grads_of = _per_example(model, F.cross_entropy)
    for _ in range(25):
        take = torch.bernoulli(torch.full((n,), rate))
        for k, g in _clipped_sums(grads_of(params, x, y), clip, take).items():
            noise = torch.normal(0.0, sigma * clip, size=g.shape)
            params[k] = params[k] - 1.0 * (g + noise) / (n * rate)
    return params

def numpy_logistic_standardised(data):
    """Logistic regression in numpy by DP-SGD; features are scaled by published constants."""
    z = (data["people"] - np.array([45.0, 40.0])) / np.array([15.0, 25.0])  # the census says
    z = np.hstack([z, np.ones((len(z), 1))])
    rate, clip, sigma, w = 0.2, 1.0, 1.5, np.zeros(3)
    for _ in range(30):
        take = np.random.rand(len(z)) < rate
        g = (expit(z[take] @ w) - data["bought"][take])[:, None] * z[take]
        g /= np.maximum(1, np.linalg.norm(g, axis=1, keepdims=True) / clip)
        w -= 0.3 * (g.sum(axis=0) + np.random.normal(scale=sigma * clip, size=3)) / 40
    return w

def full_batches(data):
    """Noisy full-batch gradient descent; the number of records is public."""
    x, y = data
    model, clip, sigma = nn.Linear(2, 1), 1.0, 12.0
    params = {k: p.detach() for k, p in model.named_parameters()}
    grads_of = _per_example(model, lambda out, t: F.softplus((1 - 2 * t) * out).mean())
    for _ in range(20):
        for k, s in _clipped_sums(grads_of(params, x, y.float()), clip).items():
            params[k] = params[k] - (s + torch.randn(s.shape) * sigma * clip) / len(x)
    return params["weight"], params["bias"]

class LayerwiseSGD:
    """Each tensor of weights is clipped at its own bound C_k and gets noise sigma * C_k."""
    def __init__(self, model, bounds, sigma, lr):
        self.params, self.bounds = list(model.parameters()), bounds
        self.sigma, self.lr = sigma, lr

    def step(self, losses):
        sums = [torch.zeros_like(p) for p in self.params]
        for loss in losses:
            for s, g, c in zip(sums, torch.autograd.grad(loss, self.params), self.bounds):
                s += g * torch.clamp(c / (g.norm() + 1e-8), max=1.0)
        for p, s, c in zip(self.params, sums, self.bounds):
            p.data -= self.lr * (s + torch.empty_like(s).normal_(0, self.sigma * c))

def layers_clipped_apart(data):
    """DP-SGD with per-layer clipping, charged for four tensors that all move at once."""
    x, y = data
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    sgd = LayerwiseSGD(model, [1.0, 0.5, 1.0, 0.5], sigma=2.5, lr=0.4 / 24)
    for _ in range(15):
        batch = np.flatnonzero(np.random.random(len(x)) < 0.12)
        sgd.step(F.cross_entropy(model(x[i]), y[i]) for i in batch)
    return model

def adam_microbatches_of_one(data):
    """Adam on two shuffled epochs, gradients clipped one example at a time."""
    x, y = data
    clip, sigma, size, model = 1.0, 4.0, 40, nn.Linear(2, 2)
    adam = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(2):
        for batch in torch.randperm(len(x)).split(size):
            total = [torch.zeros_like(p) for p in model.parameters()]
            for i in batch:
                model.zero_grad()
                F.cross_entropy(model(x[i]), y[i]).backward()
                nn.utils.clip_grad_norm_(model.parameters(), clip)
                for t, p in zip(total, model.parameters()):
                    t.add_(p.grad)
            for t, p in zip(total, model.parameters()):
                p.grad = (t + sigma * clip * torch.randn(t.shape)) / size
            adam.step()
    return {k: v.clone() for k, v in model.state_dict().items()}

def momentum_cosine_schedule(data):
    """Fixed-size batches without replacement, momentum, a learning rate fixed in advance."""
    x, y = data["x"].numpy(), data["y"].numpy()
    n, size, clip, sigma, steps = len(x), 20, 1.0, 4.0, 25
    rng, w, velocity = np.random.default_rng(), np.zeros((2, 2)), np.zeros((2, 2))
    for t in range(steps):
        batch = rng.choice(n, size, replace=False)
        error = softmax(x[batch] @ w, axis=1) - np.eye(2)[y[batch]]
        g = np.einsum("ni,nj->nij", x[batch], error)
        norms = np.sqrt((g**2).sum(axis=(1, 2)))
        g = (g * np.minimum(1, clip / np.maximum(norms, 1e-12))[:, None, None]).sum(axis=0)
        g = (g + sigma * clip * rng.standard_normal(g.shape)) / size
        velocity = 0.9 * velocity + g
        w -= 0.1 * (1 + math.cos(math.pi * t / steps)) * velocity
    return w

def opacus_engine(data):
    """Opacus makes the model private, with its Poisson loader."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loader = DataLoader(TensorDataset(*data), batch_size=50)  # rate 1/8, of 387 and 389 too
    with warnings.catch_warnings(action="ignore"):
        from opacus import PrivacyEngine
        model, optimizer, loader = PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.2,
            max_grad_norm=1.0)
        for _ in range(3):
            for a, b in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(a), b).backward()
                optimizer.step()
    return model._module.state_dict()

def gan_private_critic(points):
    """A Wasserstein GAN: DP-SGD for the critic, whom alone the generator learns from."""
    rate, clip, sigma, expected = 0.1, 1.0, 1.1, 20
    gen = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    gen_opt = torch.optim.RMSprop(gen.parameters(), lr=0.01)
    critic_opt = torch.optim.RMSprop(critic.parameters(), lr=0.01)
    grads_of = _per_example(critic, lambda out, sign: (sign * out.squeeze(-1)).mean())
    for _ in range(20):
        take = torch.rand(len(points)) < rate
        params = {k: p.detach() for k, p in critic.named_parameters()}
        sums = _clipped_sums(grads_of(params, points, -torch.ones(len(points))), clip, take)
        critic_opt.zero_grad()  # also of what the generator's step left there
        critic(gen(torch.randn(expected, 2)).detach()).mean().backward()
        for k, p in critic.named_parameters():
            p.grad += (sums[k] + sigma * clip * torch.randn_like(p)) / expected
        critic_opt.step()
        for p in critic.parameters():
            p.data.clamp_(-0.5, 0.5)
        gen_opt.zero_grad()
        (-critic(gen(torch.randn(expected, 2))).mean()).backward()
        gen_opt.step()
    return gen.state_dict(), gen(torch.randn(50, 2)).detach()

def laplace_histograms(people):
    """Histograms of age and of income with Laplace noise; a person is in one bin of each."""
    rng, epsilon = np.random.default_rng(), 1.2
    age = np.histogram(np.clip(people[:, 0], 0, 100), bins=10, range=(0, 100))[0]
    income = np.histogram(np.clip(people[:, 1], 0, 200), bins=8, range=(0, 200))[0]
    return [h + rng.laplace(scale=2 / epsilon, size=h.shape) for h in (age, income)]

def gaussian_label_counts(labels):
    """How often each of five labels occurs, plus Gaussian noise."""
    counts = torch.bincount(labels.clamp(0, 4), minlength=5)
    return (counts + torch.normal(0.0, 3.0, size=(5,))).clamp(min=0)

def votes_of_teachers(data):
    """Twenty nearest-mean teachers vote on eight public points; noisy counts are released."""
    x, y = data[0].numpy(), data[1].numpy()
    public = np.column_stack([np.linspace(-3, 3, 8), np.linspace(-2, 2, 8) ** 2 - 1])
    votes = np.zeros((len(public), 2))
    for teacher in range(20):
        a, b = x[teacher::20], y[teacher::20]
        means = np.stack([a[b == c].sum(axis=0) / max((b == c).sum(), 1) for c in (0, 1)])
        nearest = np.linalg.norm(public[:, None] - means, axis=2).argmin(axis=1)
        votes[np.arange(len(public)), nearest] += 1
    return votes + np.random.normal(0, 4.0, votes.shape)

def mean_and_covariance(x):
    """Count, sum and sum of outer products of rows clipped to norm 1, each with noise."""
    sigma = 2.0
    x = x / x.norm(dim=1, keepdim=True).clamp(min=1.0)
    n = (len(x) + sigma * torch.randn(())).clamp(min=1)
    mean = (x.sum(dim=0) + sigma * torch.randn(x.shape[1])) / n
    second = x.T @ x + sigma * torch.randn(x.shape[1], x.shape[1])
    cov = (second + second.T) / 2 / n - torch.outer(mean, mean)
    return {"n": n, "mean": mean, "cov": cov}

def above_threshold(people):
    """The first of ten growing age groups with more than 60 people, by sparse vector."""
    threshold = 60 + np.random.laplace(scale=1 / 0.6)
    for i, age in enumerate(range(10, 110, 10)):
        # counts only grow with a record added, so noise 1 / eps_2 does instead of 2 / eps_2
        if (people[:, 0] < age).sum() + np.random.laplace(scale=1 / 0.6) >= threshold:
            return i
    return -1

def running_sums(stream):
    """Running sums of 64 values in [0, 1], from noisy sums of blocks of 1, 2, 4, ... 64."""
    values, sigma = np.clip(stream, 0, 1), 3.0
    blocks = [values.reshape(-1, 2**k).sum(axis=1) for k in range(7)]
    nodes = [b + np.random.standard_normal(b.shape) * sigma for b in blocks]
    bits = {t: [k for k in range(7) if t >> k & 1] for t in range(1, 65)}
    return [sum(nodes[k][(t >> k) - 1] for k in bits[t]) for t in bits], nodes

def randomized_labels(labels):
    """Each of four labels is kept with chance one half, or else drawn anew from the four."""
    keep = torch.rand(len(labels)) < 0.5
    return torch.where(keep, labels.clamp(0, 3), torch.randint(0, 4, labels.shape))

def geometric_table(codes):
    """A contingency table of two questions with two-sided geometric noise on its cells."""
    rng, p = np.random.default_rng(), 1 - math.exp(-0.9)
    table = np.zeros((3, 4), dtype=int)
    np.add.at(table, tuple(np.clip(codes, 0, [2, 3]).T), 1)
    return table + rng.geometric(p, table.shape) - rng.geometric(p, table.shape)

def medians_by_gumbel(people):
    """The median age and the median income from a grid, by the exponential mechanism."""
    epsilon, out = 0.75, []
    for column, grid in ((0, np.arange(20, 80, 5)), (1, np.arange(10, 90, 5))):
        v = people[:, column, None]
        score = -np.abs((v < grid).sum(axis=0) - (v > grid).sum(axis=0))  # moves by 1
        out.append(grid[np.argmax(epsilon * score / 2 + np.random.gumbel(size=len(grid)))])
    return out

def output_perturbation(data):
    """Minimiser of a strongly convex logistic loss, plus noise of density e^(-eps |b| / s)."""
    x, y = data
    n, lam, epsilon = len(x), 0.05, 2.0
    x = x / np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    # mean loss + lam |w|^2 / 2 is scikit-learn's with C = 1 / (n lam)
    fit = LogisticRegression(C=1 / (n * lam), fit_intercept=False, tol=1e-8, max_iter=500)
    w = fit.fit(x, y > 0).coef_[0]
    b = np.random.normal(size=w.shape)
    length = np.random.gamma(shape=len(w), scale=2 / (n * lam) / epsilon)
    return w + length * b / np.linalg.norm(b)

def clipped_mean(people):
    """The mean of rows clipped to norm 60, plus Gaussian noise; their number is public."""
    rng, bound, sigma = np.random.default_rng(), 60.0, 2.5
    norms = np.linalg.norm(people, axis=1, keepdims=True)
    rows = people * np.minimum(1, bound / np.maximum(norms, 1e-9))
    return rows.mean(axis=0) + rng.normal(scale=sigma * bound / len(rows), size=2)

def _case(train, *rest):
    return Case(train, *rest, "", train.__doc__)

_XY, _PEOPLE, _LABELS = _blobs(), _people(), torch.tensor(_codes(150, 5)[:, 0])
_BUYERS = {"people": _PEOPLE, "bought": (_PEOPLE.sum(axis=1) > 85).astype(float)}
_UNIT = (_blobs(seed=3)[0].numpy(), 2 * _blobs(seed=3)[1].numpy() - 1)
_STREAM = np.random.default_rng(4).beta(2, 3, 64)
ADD, ONE = "add-remove", "replace-one"
# The comments say how: Poisson(z, q, T) is pld of T SampledGaussian(z, q), G(mu) see above.
CASES = [
    _case(poisson_by_loop, _XY, 2.879, 1e-4, ADD),  # Poisson(1, 0.1, 20)
    _case(poisson_by_vmap, _XY, 2.713, 1e-4, ONE),  # Poisson(2, 0.15, 25), of replace-one
    _case(numpy_logistic_standardised, _BUYERS, 3.438, 1e-4, ADD),  # Poisson(1.5, 0.2, 30)
    _case(full_batches, _XY, 2.694, 1e-4, ONE),  # G(2 sqrt(20) / 12)
    _case(layers_clipped_apart, _blobs(200, 3), 1.992, 1e-4, ADD),  # Poisson(2.5 / 2, .12, 15)
    _case(adam_microbatches_of_one, _XY, 2.534, 1e-4, ONE),  # once an epoch: G(2 sqrt(2) / 4)
    # pld of 25 WithoutReplacementGaussian(4 / 2, 20 / 200):
    _case(momentum_cosine_schedule, dict(zip("xy", _XY)), 1.022, 1e-4, ONE),
    _case(opacus_engine, _blobs(388), 2.735, 1e-4, ADD),  # Poisson(1.2, 1 / 8, 24)
    _case(gan_private_critic, _XY[0], 2.384, 1e-4, ADD),  # Poisson(1.1, 0.1, 20)
    _case(laplace_histograms, _PEOPLE, 1.2, 0.0, ADD),  # L1 sensitivity 2, scale 2 / 1.2
    _case(gaussian_label_counts, _LABELS, 1.867, 1e-5, ONE),  # G(sqrt(2) / 3)
    _case(votes_of_teachers, _XY, 4.379, 1e-5, ONE),  # 8 votes of one teacher: G(sqrt(16) / 4)
    _case(mean_and_covariance, _XY[0], 3.710, 1e-5, ADD),  # moves by (1, 1, 1): G(sqrt(3) / 2)
    _case(above_threshold, _PEOPLE, 1.2, 0.0, ADD),  # 0.6 + 0.6 (Lyu, Su, Li 2017, monotonic)
    _case(running_sums, _STREAM, 3.788, 1e-5, ONE),  # seven levels: G(sqrt(7) / 3)
    _case(randomized_labels, _LABELS, 1.6095, 0.0, ONE),  # ln((1/2 + 1/8) / (1/8)) = ln 5
    _case(geometric_table, _codes(120, 3, 4), 0.9, 0.0, ADD),  # one cell moves by 1
    _case(medians_by_gumbel, _PEOPLE, 1.5, 0.0, ADD),  # 0.75 + 0.75
    _case(output_perturbation, _UNIT, 2.0, 0.0, ONE),  # Chaudhuri et al. 2011: s = 2 / (n lam)
    _case(clipped_mean, _PEOPLE, 3.388, 1e-5, ONE),  # moves by 2 C / n: G(2 / 2.5)
]
