"""The lines of code that claims are about: as they were, and as they should be."""

from dpkit.papers.claims import Code

LINES = {  # by the claim's name
    "noise-times-norm": Code(
        was="charge(noise_multiplier=z * C)  # 1.12 * 1.1",
        should="charge(noise_multiplier=z)  # 1.12",
        cause="noise",
    ),
    "true-sample-rate": Code(
        was="sample_rate = 600 / 60_000",
        should="sample_rate = 600 / 55_000  # the images that train",
        cause="sampling",
    ),
    "per-tensor-clipping": Code(
        was="g_i = [clip(tensor, C) for tensor in g_i]",
        should="g_i = clip(g_i, C)  # its four tensors as one",
        cause="sensitivity",
    ),
    "label-leak": Code(
        was="fakes = generator(latents, batch.labels)",
        should="fakes = generator(latents, uniform_labels(rng))",
        cause="sensitivity",
    ),
    "generator-labels": Code(
        was="loss = cross_entropy(\n    critic(generator(latents, batch.labels)), real)",
        should="labels = uniform_labels(rng)  # public\n"
        "loss = cross_entropy(\n    critic(generator(latents, labels)), real)",
        cause="uncharged",
    ),
    "table-1-as-trained": Code(
        was="classifier.fit(train / 255, labels)\nscore(classifier, test)",
        should="classifier.fit(train / 255, labels)\nscore(classifier, test / 255)",
        cause="evaluation",
    ),
}
