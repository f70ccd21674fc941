"""Write ``llms.txt``: the pages of the documentation with their titles and first sentences, for programs that read it."""

from __future__ import annotations

from typing import Any

HEAD = """# crosslevel {version}

> What can be said about people when the outcome is known only for groups, and how sure may we be? A Python library and command line for
> ecological inference, surveys beside totals, racially polarized voting, imputation from group means, curves behind bins and areas,
> distribution regression and kernel regularized least squares. `import crosslevel as cl`; every answer is a table with
> `estimate, std_error, conf_low, conf_high`.
"""


def write(app: Any) -> None:
    """Write the file into the folder of the built pages."""
    if app.builder.name != "html":
        return
    lines = [HEAD.format(version=app.config.release)]
    for section in app.env.toctree_includes.get(app.config.root_doc, []):
        lines.append(f"## {app.env.titles[section].astext()}\n")
        for page in _below(app.env, section):
            lines.append(f"- [{app.env.titles[page].astext()}]({page}.html){_first(app.env, page)}")
        lines.append("")
    (app.outdir / "llms.txt").write_text("\n".join(lines))


def _below(env: Any, page: str) -> list[str]:
    return [
        p for child in env.toctree_includes.get(page, []) if child in env.titles for p in (child, *_below(env, child))
    ]


def _first(env: Any, page: str) -> str:
    from docutils import nodes

    for paragraph in env.get_doctree(page).findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if text:
            end = text.find(". ")
            return f": {text if end < 0 else text[: end + 1]}"
    return ""
