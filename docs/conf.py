"""
Settings of the documentation site: C{tox run -e docs} builds it into C{build/site}.

The pages are Markdown that a code host shows as well. What only the site has, a menu, pages of the
programs that are linked and the reference of the interfaces, is made by C{siteparts.py}.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import siteparts

from natsbroker import __version__

project = "natsbroker"
author = "natsbroker contributors"
copyright = author
version = release = __version__

extensions = ["myst_parser", "siteparts"]

# Headings are link targets as on code hosts, and blocks without a language are configurations.
myst_heading_anchors = 4
myst_url_schemes = {"http": None, "https": None, "mailto": None, siteparts.SCHEME: None}
highlight_language = "none"

html_theme = "furo"
html_title = f"natsbroker {version}"
html_copy_source = False
html_show_sphinx = False
