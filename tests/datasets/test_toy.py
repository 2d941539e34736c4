import numpy as np

from dpkit.datasets import gaussian_ring


def test_points_lie_about_their_means_and_repeat_with_the_seed():
    points, labels = gaussian_ring(4000, rng=np.random.default_rng(1), modes=5, radius=3, std=0.1)
    assert (points.shape, labels.shape) == ((4000, 2), (4000,))
    for mode in range(5):
        angle = 2 * np.pi * mode / 5
        mine = points[labels == mode]
        assert len(mine) > 700
        np.testing.assert_allclose(
            mine.mean(axis=0), [3 * np.cos(angle), 3 * np.sin(angle)], atol=0.02
        )
        np.testing.assert_allclose(mine.std(axis=0), 0.1, atol=0.01)
    again, _ = gaussian_ring(4000, rng=np.random.default_rng(1), modes=5, radius=3, std=0.1)
    np.testing.assert_array_equal(points, again)
