"""Commands of the terminal that ask what papers say: claims, reproduce, audit."""
