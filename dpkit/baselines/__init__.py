"""Synthesizers of images that read the data in one or two noisy releases: what a GAN has to beat.

`class_moments` samples Gaussians with each class's noisy moments; `jitter` turns and shifts what is
sampled, which costs nothing. `dpkit.marginals` is their counterpart for tables.
"""
