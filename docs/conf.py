"""Configuration of the documentation."""

import os
import sys
import warnings
from pathlib import Path

from sphinx.errors import ExtensionError

import crosslevel

sys.path.insert(0, str(Path(__file__).parent))

project = "crosslevel"
author = "The crosslevel authors"
version = release = crosslevel.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "gallery"]
templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = "crosslevel"
html_theme_options = {
    "navigation_with_keys": False,
    "show_nav_level": 2,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "**": ["sidebar-nav-bs"]}
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # sphinx-gallery's settings hold objects that cannot be cached

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"plot_",
    "download_all_examples": False,
    "abort_on_example_error": True,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive", category=UserWarning)


def setup(app):
    """Run the blocks of the pages and photograph reports before the guide is read; list the pages for programs afterwards."""
    import blocks
    import llms
    import screenshots

    def prepare(_):
        wrong = blocks.main([]) if os.environ.get("CROSSLEVEL_DOCS_BLOCKS") != "no" else 0
        if wrong:
            raise ExtensionError(f"{wrong} pages have code blocks that do not run; see above")
        screenshots.make()

    app.connect("builder-inited", prepare)
    app.connect("build-finished", lambda app, error: error or llms.write(app))
