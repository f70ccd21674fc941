"""The Vega libraries as one script, from the package that ships them."""

from __future__ import annotations

import functools
import importlib.util

from crosslevel.errors import MissingExtraError

__all__ = ["available", "vega_script"]

MISSING = (
    "The charts of this page are pictures: install crosslevel[report] (pip install 'crosslevel[report]') and make the page again "
    "for maps and charts that answer to the reader."
)
"""What a page without the extra says."""
SNIPPET = "window.crosslevelVega = vegaEmbed;"
"""One name of our own: a host page may have a Vega of its own."""


def available() -> bool:
    """Tell whether the extra ``report`` is installed."""
    return importlib.util.find_spec("vl_convert") is not None


@functools.cache
def vega_script() -> str:
    """Give Vega, Vega-Lite and vega-embed (which holds Vega's interpreter of expressions) as one script.

    It stands in a function of its own, so that two reports in one page do not meet, and runs once where it is there twice.

    Examples
    --------
    >>> "crosslevelVega" in vega_script() and "</script" not in vega_script()
    True
    """
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError(
            "interactive charts need vl-convert-python; install it with pip install 'crosslevel[report]'."
        ) from error
    code = vl_convert.javascript_bundle(SNIPPET)
    # neither may stand inside a script element, whatever the JavaScript around it means
    for bad, good in (("</script", "<\\/script"), ("<!--", "<\\!--")):
        code = code.replace(bad, good)
    return f"if (!window.crosslevelVega) {{(() => {{\n{code}\n}})();}}"
