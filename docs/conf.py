"""The settings of the site: `make site` builds it, without the network, to build/site."""

import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from _site import commands, docstrings, reference, sources  # noqa: E402
from sphinx_gallery.sorting import ExplicitOrder  # noqa: E402

from attsvm._utils.version import __version__  # noqa: E402

project = "attsvm"
author = "attsvm contributors"
release = version = __version__
language = "en"
smartquotes = False  # what is typed can be copied
html_title = f"attsvm {__version__}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_site", "_static"]

# Pages are Markdown; `code` is code in docstrings too.
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_dmath_allow_labels = False
myst_heading_anchors = 3
default_role = "code"

# Docstrings: what is public is listed in the package; see _site/reference.py.
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

suppress_warnings = ["config.cache"]  # the order of the gallery is an object

# Everything a page needs lies beside it: no fonts, scripts or styles from elsewhere.
html_theme = "furo"
MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static/mathjax/tex-svg.js"
html_static_path = ["_static", str(MATHJAX)]
mathjax_path = MATHJAX.name
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
pygments_dark_style = "monokai"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5c8f", "color-brand-content": "#0b5c8f"},
    "dark_css_variables": {"color-brand-primary": "#7cc0ea", "color-brand-content": "#7cc0ea"},
}

_SKIPPED = ["outside", *([] if find_spec("torch") else ["torch_"])]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": rf"(?:^|/)(?:{'|'.join(_SKIPPED)})\w*\.py$",
    "within_subsection_order": ExplicitOrder([*reference.GALLERY, "*"]),
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 0,
    "write_computation_times": False,  # its page would load scripts from elsewhere
    "image_scrapers": ("matplotlib",),
    "image_srcset": ["2x"],
    "abort_on_example_error": True,
    "plot_gallery": "True",
}


def playground(app, failed):
    """Write the page that docs/playground.md opens beside the others."""
    if failed is None and app.builder.format == "html":
        from attsvm.plotting.play import page

        (Path(app.outdir) / "play.html").write_text(page(), encoding="utf-8")


def setup(app):
    """Pages that are made of the package itself: the reference, and the help of every command."""
    app.connect("config-inited", lambda app, config: reference.write(HERE / "api"))
    app.connect("config-inited", lambda app, config: commands.write(HERE / "api"))
    app.connect("build-finished", playground)
    app.connect("autodoc-process-docstring", docstrings.reshape, priority=100)
    app.connect("autodoc-skip-member", docstrings.foreign)
    app.connect("source-read", sources.prepare)
