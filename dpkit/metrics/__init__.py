"""Utility of synthetic data, and scores of generated images: is the output any good?"""
