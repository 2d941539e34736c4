"""The book: the stored notebooks, docs/, and the API from its docstrings (`make book`).

The source folder is the checkout, so that links between pages are those that work there, too.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pages

project = "dpkit"
author = "The dpkit authors"
copyright = "2026, the dpkit authors. Text: CC BY 4.0, code: MIT"
root_doc = "docs/book/index"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
]
include_patterns = [
    "docs/*.md",
    "docs/book/*.md",
    "docs/book/api/*.md",
    "notebooks/*.ipynb",
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *("notebooks/README.md", "data/README.md", "binder/README.md"),
    "dpkit/**/*.md",
]
html_theme = "furo"
html_title = "dpkit"
html_search_scorer = str(Path(__file__).parent / "search.js")  # prose before the API
html_extra_path = ["extra"]
html_static_path = [str(Path(find_spec("sphinx-mathjax-offline").origin).parent / "static")]
mathjax_path = "mathjax/tex-chtml.js"
html_show_sourcelink = False
html_copy_source = False

nb_execution_mode = "off"  # what is stored is compared with a fresh run by `make compare`
nb_ipywidgets_js = {}  # no request leaves a page
nb_merge_streams = True
myst_enable_extensions = ["deflist", "dollarmath", "html_image"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
copybutton_exclude = ".linenos, .gp, .go"

suppress_warnings = [
    "myst.header",  # pages that stand by themselves begin where they like
    "ref.python",  # names such as `values` that several classes have
]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
toc_object_entries = False  # or every page lists three thousand names beside it
napoleon_google_docstring = True


def setup(app):
    """Write the API's pages before they are read; mend what a page of this book would lose."""
    app.connect("builder-inited", pages.write_api)
    app.connect("autodoc-process-docstring", pages.plain_docstring)
    app.connect("autodoc-skip-member", pages.skipped)
    app.connect("build-finished", pages.copy_lab)
    app.connect("doctree-resolved", pages.describe_pictures)
