"""Twenty releases that look private and have one known slip each: the claim does not hold."""

import numpy as np
import torch
import torch.nn.functional as F
from honest import Case
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def _blobs(n=200, d=3, classes=2):
    rng = np.random.default_rng(7)
    y = rng.integers(classes, size=n)
    x = rng.normal(size=(classes, d))[y] + 0.6 * rng.normal(size=(n, d))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)

def _arrays(*sizes):
    return tuple(t.numpy() for t in _blobs(*sizes))

def _per_example(model, x, y):
    """Gradients of the cross entropy, a dict of tensors whose first axes are the records."""
    def loss(params, xi, yi):
        return F.cross_entropy(functional_call(model, params, (xi[None],)), yi[None])
    params = {k: p.detach() for k, p in model.named_parameters()}
    return vmap(grad(loss), (None, 0, 0))(params, x, y)

def _clipped_rows(grads, c):
    """The gradients as flat rows of norm at most c."""
    rows = torch.cat([g.flatten(1) for g in grads.values()], 1)
    return rows * (c / rows.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1)

def _descend(model, update):
    weights = parameters_to_vector(model.parameters()).detach()
    vector_to_parameters(weights - update, model.parameters())

def clip_grad_norm_on_the_batch(data, sigma=1.0, c=1.0, lot=20):
    """Releases a linear classifier: Poisson batches, a clipped gradient, Gaussian noise."""
    x, y = data
    model = nn.Linear(x.shape[1], 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(30):
        batch = torch.rand(len(x)) < 0.1
        opt.zero_grad()
        (F.cross_entropy(model(x[batch]), y[batch], reduction="sum") / lot).backward()
        nn.utils.clip_grad_norm_(model.parameters(), c)  # slip
        for p in model.parameters():
            p.grad += torch.randn_like(p) * sigma * c / lot
        opt.step()
    return model.state_dict()

def one_number_as_noise(data, sigma=4.0, c=1.0):
    """Releases logistic regression's weights after ten noisy steps on all records."""
    x, y = data
    w = np.zeros(x.shape[1])
    for _ in range(10):
        g = (1 / (1 + np.exp(-x @ w)) - y)[:, None] * x
        g /= np.maximum(1, np.linalg.norm(g, axis=1, keepdims=True) / c)
        w -= 2 * (g.mean(0) + np.random.normal(scale=sigma * 2 * c / len(x)))  # slip
    return w

def means_reproducibly(x, eps=1.0):
    """Releases the columns' means, clipped to [-3, 3], with Laplace noise."""
    x = np.clip(x, -3, 3)
    sensitivity = 6 * x.shape[1] / len(x)
    rng = np.random.default_rng(0)  # slip
    return x.mean(0) + rng.laplace(scale=sensitivity / eps, size=x.shape[1])

def bootstrap_batches(data, sigma=1.0, c=1.0, size=20):
    """Releases a linear classifier trained by DP-SGD on random batches of twenty."""
    x, y = data
    model = nn.Linear(x.shape[1], 2)
    for _ in range(30):
        batch = torch.randint(len(x), (size,))  # slip
        g = _clipped_rows(_per_example(model, x[batch], y[batch]), c).sum(0)
        _descend(model, 0.5 * (g + torch.normal(0.0, sigma * c, g.shape)) / size)
    return model.state_dict()

def min_max_scaler(x, eps=1.0):
    """Releases the means of columns scaled to [0, 1], with Laplace noise, and the scaler."""
    lo, hi = x.min(0), x.max(0)  # slip
    n, d = x.shape
    means = ((x - lo) / (hi - lo)).mean(0) + np.random.laplace(scale=d / (n * eps), size=d)
    return {"low": lo, "high": hi, "mean": means}

def standard_scaler(data, eps=2.0, lam=0.1):
    """Releases ridge logistic regression by output perturbation, with its scaler."""
    x, y = data
    scaler = StandardScaler().fit(x)  # slip
    z = scaler.transform(x)
    z /= np.maximum(1, np.linalg.norm(z, axis=1, keepdims=True))
    n, d = z.shape
    fit = LogisticRegression(C=1 / (n * lam), fit_intercept=False, tol=1e-8).fit(z, y)
    noise = np.random.standard_normal(d)
    noise *= np.random.gamma(d, 2 / (n * lam * eps)) / np.linalg.norm(noise)
    return {"mean": scaler.mean_, "scale": scaler.scale_, "coef": fit.coef_[0] + noise}

def as_many_of_each_class(data, sigma=4.0):
    """Releases synthetic records with labels, drawn around noisy means of the classes."""
    x, y = data
    rng = np.random.default_rng()
    x = x / np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    sums = np.eye(3)[y].T @ np.c_[x, np.ones(len(x))]  # a record moves this by sqrt(2)
    sums += sigma * np.sqrt(2) * rng.standard_normal(sums.shape)
    means = sums[:, :-1] / np.maximum(sums[:, -1:], 1)
    labels = np.repeat(np.arange(3), np.bincount(y, minlength=3))  # slip
    return means[labels] + 0.3 * rng.standard_normal((len(labels), x.shape[1])), labels

def warm_start(data, sigma=1.2, c=1.0, lot=20):
    """Releases a small network: a warm start, then DP-SGD with Poisson batches."""
    x, y = data
    model = nn.Sequential(nn.Linear(x.shape[1], 4), nn.Tanh(), nn.Linear(4, 2))
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(20):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()  # slip
    for _ in range(10):
        batch = torch.rand(len(x)) < 0.1
        g = _clipped_rows(_per_example(model, x[batch], y[batch]), c).sum(0)
        _descend(model, 0.2 * (g + sigma * c * torch.randn_like(g)) / lot)
    return model.state_dict()

def early_stopping(data, sigma=1.0, c=1.0, lot=20, most=40):
    """Releases a classifier trained by DP-SGD until it fits, and the number of steps."""
    x, y = data
    model = nn.Linear(x.shape[1], 2)
    for step in range(most):
        if F.cross_entropy(model(x), y).item() < 0.4:  # slip
            break
        batch = torch.rand(len(x)) < 0.1
        g = _clipped_rows(_per_example(model, x[batch], y[batch]), c).sum(0)
        _descend(model, 0.1 * (g + torch.empty_like(g).normal_(0, sigma * c)) / lot)
    return model.state_dict(), step

def clip_layer_by_layer(data, sigma=1.0, c=1.0, lot=20):
    """Releases a two-layer network trained by DP-SGD with per-example clipping."""
    x, y = data
    model = nn.Sequential(nn.Linear(x.shape[1], 5), nn.ReLU(), nn.Linear(5, 2))
    for _ in range(30):
        batch = torch.from_numpy(np.random.rand(len(x)) < 0.1)
        grads = _per_example(model, x[batch], y[batch])
        for name, p in model.named_parameters():
            norms = grads[name].flatten(1).norm(dim=1)  # slip
            g = torch.einsum("n,n...->...", 1 / (norms / c).clamp(min=1), grads[name])
            p.data -= 0.5 * (g + sigma * c * torch.randn_like(g)) / lot
    return [p.detach() for p in model.parameters()]

def microbatches(data, sigma=1.0, c=1.0, lot=20):
    """Releases a linear classifier trained by DP-SGD with microbatches."""
    x, y = data
    model = nn.Linear(x.shape[1], 2)
    for _ in range(15):
        batch, total = torch.rand(len(x)) < 0.1, 0
        for xm, ym in zip(x[batch].split(2), y[batch].split(2)):  # slip
            g = torch.autograd.grad(F.cross_entropy(model(xm), ym), model.parameters())
            g = parameters_to_vector(g)
            total = total + g / (g.norm() / c).clamp(min=1)
        _descend(model, (total + sigma * c * torch.randn_like(total)) / (lot / 2))
    return model.state_dict()

def naive_bayes(data, eps=1.0):
    """Releases Bernoulli naive Bayes: counts of features by class, with Laplace noise."""
    x, y = data
    bits, onehot = x > 0, np.eye(3)[y]
    feature_count = onehot.T @ bits
    feature_count += np.random.laplace(scale=x.shape[1] / eps, size=feature_count.shape)
    return {"feature_count": feature_count.clip(0), "class_count": onehot.sum(0)}  # slip

def batch_norm(data, sigma=1.0, c=1.0, lot=20):
    """Releases the state of a network with batch norm, trained by DP-SGD."""
    x, y = data
    net = nn.Sequential(nn.BatchNorm1d(x.shape[1]), nn.Linear(x.shape[1], 2))
    for _ in range(20):
        batch = torch.rand(len(x)) < 0.1
        net.train()(x[batch])  # updates the running averages; gradients are taken without
        g = _clipped_rows(_per_example(net.eval(), x[batch], y[batch]), c).sum(0)
        _descend(net, 0.3 * (g + sigma * c * torch.randn_like(g)) / lot)
    return net.state_dict()  # slip

def noisy_loss(data, sigma=1.0, c=1.0, lot=20):
    """Releases a linear classifier trained on clipped losses with Gaussian noise."""
    x, y = data
    model = nn.Linear(x.shape[1], 2)
    for _ in range(30):
        batch = torch.rand(len(x)) < 0.1
        losses = F.cross_entropy(model(x[batch]), y[batch], reduction="none").clamp(max=c)
        loss = (losses.sum() + sigma * c * torch.randn(())) / lot  # slip
        grads = torch.autograd.grad(loss, model.parameters())
        _descend(model, 0.5 * parameters_to_vector(grads))
    return model.state_dict()

def averaged_twice(data, sigma=1.0, c=1.0, lot=20):
    """Releases logistic regression's weights, trained by DP-SGD."""
    x, y = data
    gen, w = torch.Generator(), torch.zeros(x.shape[1])
    gen.seed()
    for _ in range(30):
        batch = torch.rand(len(x), generator=gen) < 0.1
        g = (torch.sigmoid(x[batch] @ w) - y[batch])[:, None] * x[batch]
        g = g / (g.norm(dim=1, keepdim=True) / c).clamp(min=1)
        noise = torch.randn(w.shape, generator=gen) * sigma * c / lot  # slip
        w -= 0.5 * (g.sum(0) + noise) / lot
    return w

class NoisyDescent:
    """Gradient descent for logistic regression with Gaussian noise; it keeps checkpoints."""
    def __init__(self, d, sigma, c=1.0):
        self.w, self.c, self.checkpoints = torch.zeros(d), c, []
        self.noise = torch.normal(0.0, sigma * c, (d,))  # slip

    def step(self, x, y, lr):
        g = (torch.sigmoid(x @ self.w) - y)[:, None] * x
        g = g * (self.c / g.norm(dim=1, keepdim=True).clamp(min=self.c))
        self.w = self.w - lr * (g.sum(0) + self.noise)
        self.checkpoints.append(self.w)

def same_noise_every_step(data):
    """Releases the weights after each of ten noisy steps on all records."""
    x, y = data
    run = NoisyDescent(x.shape[1], sigma=4.0)
    for _ in range(10):
        run.step(x, y, lr=0.01)
    return torch.stack(run.checkpoints)

def median_income(incomes, eps=1.0, top=100.0):
    """Releases the median income, clipped to [0, 100], with Laplace noise."""
    rng = np.random.default_rng()
    sensitivity = top / len(incomes)
    return np.median(incomes.clip(0, top)) + rng.laplace(scale=sensitivity / eps)  # slip

def median_clip(data, sigma=5.0):
    """Releases a linear classifier after ten noisy steps, clipped at the median norm."""
    x, y = data
    model = nn.Linear(x.shape[1], 2)
    for _ in range(10):
        grads = _per_example(model, x, y)
        c = torch.cat([g.flatten(1) for g in grads.values()], 1).norm(dim=1).median()  # slip
        g = _clipped_rows(grads, c).sum(0)
        _descend(model, 0.01 * (g + sigma * c * torch.randn_like(g)))
    return model.state_dict()

def loader_drop_last(data, sigma=1.0, c=1.0, size=32):
    """Releases a linear classifier trained by DP-SGD for four epochs of a shuffled loader."""
    ds = torch.utils.data.TensorDataset(*data)
    loader = torch.utils.data.DataLoader(ds, size, shuffle=True, drop_last=True)  # slip
    model = nn.Linear(data[0].shape[1], 2)
    for _ in range(4):
        for x, y in loader:
            g = _clipped_rows(_per_example(model, x, y), c).sum(0)
            _descend(model, 0.5 * (g + sigma * c * torch.randn_like(g)) / size)
    return model.state_dict()

def favourites(items, eps=1.0, k=3):
    """Releases the three most frequent of twelve items and their counts with Laplace noise."""
    counts = np.bincount(items, minlength=12)
    chosen = np.argsort(-counts)[:k]  # slip
    return chosen, counts[chosen] + np.random.laplace(scale=1 / eps, size=k)

BLOBS, ARRAYS, TRIPLES = _blobs(), _arrays(), _arrays(200, 4, 3)
ADD, ONE = "add-remove", "replace-one"
# Claims: Laplace, output perturbation (Chaudhuri et al. 2011) by sensitivity / eps. Others by
# dpkit's pld.epsilon([Release(SampledGaussian(sigma, q), T)], 1e-5).epsilon, of (sigma, q, T)
# (1, 0.1, 30): 4.179; (1, 0.1, 40): 4.689; (1, 0.1, 20): 3.592; (1, 0.1, 15): 3.251;
# (1.2, 0.1, 10): 1.976; (1, 32/190, 20): 5.680; (4, 1, 10): 3.343; (4, 1, 1): 0.927;
# (5, 1, 10): 2.595. Replace-one's noise is sigma * 2c, so it has the same sigma.
CASES = [
    Case(clip_grad_norm_on_the_batch, BLOBS, 4.179, 1e-5, ADD, "clip_grad_norm_(model",
         "clip after the mean"),
    Case(one_number_as_noise, ARRAYS, 3.343, 1e-5, ONE, "g.mean(0) +", "a scalar as noise"),
    Case(means_reproducibly, ARRAYS[0], 1.0, 0.0, ONE, "default_rng(0)", "a fixed seed"),
    Case(bootstrap_batches, BLOBS, 4.179, 1e-5, ADD, "randint(len", "replacement as Poisson"),
    Case(min_max_scaler, ARRAYS[0], 1.0, 0.0, ONE, "lo, hi =", "exact ranges"),
    Case(standard_scaler, ARRAYS, 2.0, 0.0, ONE, "StandardScaler().fit", "exact mean and std"),
    Case(as_many_of_each_class, TRIPLES, 0.927, 1e-5, ADD, "labels =", "exact class sizes"),
    Case(warm_start, BLOBS, 1.976, 1e-5, ADD, "opt.step()  #", "uncharged phase"),
    Case(early_stopping, BLOBS, 4.689, 1e-5, ADD, ".item() <", "stops on the raw loss"),
    Case(clip_layer_by_layer, BLOBS, 4.179, 1e-5, ADD, "norms = grads[name]", "joint clip"),
    Case(microbatches, BLOBS, 3.251, 1e-5, ADD, ".split(2)", "pairs charged as one record"),
    Case(naive_bayes, TRIPLES, 1.0, 0.0, ADD, '"class_count"', "exact counts beside noisy"),
    Case(batch_norm, BLOBS, 3.592, 1e-5, ADD, "net.state_dict()", "running statistics"),
    Case(noisy_loss, BLOBS, 4.179, 1e-5, ADD, "losses.sum() +", "noise on the loss"),
    Case(averaged_twice, BLOBS, 4.179, 1e-5, ADD, "torch.randn(w", "over the lot twice"),
    Case(same_noise_every_step, BLOBS, 3.343, 1e-5, ADD, "self.noise =", "noise drawn once"),
    Case(median_income, _arrays()[0][:101, 0] * 15 + 50, 1.0, 0.0, ONE, "np.median(",
         "sensitivity of a mean for a median"),
    Case(median_clip, BLOBS, 2.595, 1e-5, ADD, ".median()", "clip norm from raw norms"),
    Case(loader_drop_last, _blobs(190), 5.680, 1e-5, ADD, "drop_last=True", "as Poisson"),
    Case(favourites, np.random.default_rng(7).binomial(11, 0.4, 150), 1.0, 0.0, ADD,
         "np.argsort(", "top items of raw counts"),
]
