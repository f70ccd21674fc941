"""Draw a chart with matplotlib: ``ax=None`` in, the axes out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslevel.charts.chart import Axis, Chart, Mark, Panel, Shade, field_rows
from crosslevel.charts.style import CYCLE, GRAY, INK, PALE, new_axes, note, plain, style
from crosslevel.errors import unknown_name
from crosslevel.typing import AnyArray, BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_LABEL = 42
GROUP_GAP = 0.7
"""Rows between two groups of names."""
OFFSET_GAP = 1.2
"""Between two names whose rows are set apart, in rows."""
RIDGE = 0.8
SHAPES = {
    "circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v",
    "triangle-left": "<", "triangle-right": ">", "cross": "x", "stroke": "|",
}  # fmt: skip
SCHEMES = {"blueorange": "RdBu", "oranges": "magma_r", "blues": "Blues"}
DASH = (0, (4, 2))

Fields = Mapping[str, AnyArray]


@dataclass(frozen=True)
class _Names:
    """Where the names of an axis stand: (head, name) to position, the middle of its rows, heads of groups, rows of a name."""

    at: dict[tuple[str, str], float]
    heads: list[tuple[float, str]]
    offsets: list[str]

    @property
    def middle(self) -> float:
        return (max(len(self.offsets), 1) - 1) / 2


class _Canvas:
    """One panel being drawn."""

    def __init__(self, ax: Axes, panel: Panel, rows: Mapping[str, Fields]) -> None:
        self.ax, self.panel, self.rows = ax, panel, rows
        self.x_names, self.y_names = (_lay_out(axis, rows) if axis.names else None for axis in (panel.x, panel.y))
        self.handles: list[tuple[Any, str]] = []

    def along(self, mark: Mark, side: str) -> FloatArray:
        """Give the coordinates of a mark's rows on one side, "x", "x2", "y" or "y2"; the end is where the start is if not given."""
        value = getattr(mark, side)
        value = getattr(mark, side[0]) if value is None else value
        rows = self.rows[mark.data]
        axis, names = (self.panel.x, self.x_names) if side[0] == "x" else (self.panel.y, self.y_names)
        if isinstance(value, str):
            return np.asarray(rows[value], dtype=np.float64)
        if value is not None or names is None:
            return np.full(len(next(iter(rows.values()))), np.nan if value is None else value, dtype=np.float64)
        heads = rows[axis.group] if axis.group in rows else itertools.repeat("")
        at = np.array([names.at[str(h), str(v)] for h, v in zip(heads, rows[axis.names], strict=False)], dtype=float)
        if mark.offset:
            return at + np.array([names.offsets.index(str(v)) for v in rows[axis.offset]], dtype=float)
        return at + names.middle

    def xy(self, mark: Mark) -> tuple[FloatArray, FloatArray]:
        return self.along(mark, "x"), self.along(mark, "y")

    def look(self, mark: Mark, level: float, **more: Any) -> dict[str, Any]:
        """Give what all marks of one color share."""
        color = mark.color if isinstance(mark.color, str) else CYCLE[0]
        return {"color": color, "zorder": level, "alpha": None if mark.alpha == 1 else mark.alpha} | more

    def keep(self, artist: Any, mark: Mark, label: str | None = None) -> None:
        words = mark.label if label is None else label
        if words:
            artist.set_label(plain(words))
            self.handles.append((artist, plain(words)))

    def parts(self, mark: Mark) -> Iterator[tuple[BoolArray, str, str, str]]:
        """Give (rows, color, label, shape) of each part of a mark: one, or one for each name that colors it."""
        rows = self.rows[mark.data]
        shade = mark.color
        if not isinstance(shade, Shade) or not shade.names:
            every = np.ones(len(next(iter(rows.values()))), dtype=bool)
            yield every, shade if isinstance(shade, str) else CYCLE[0], mark.label, mark.shape
            return
        values = np.array([str(v) for v in rows[shade.field]], dtype=object)
        colors, shapes = shade.range or CYCLE, [mark.shape, "square", "triangle-up"]
        for i, name in enumerate(shade.domain or dict.fromkeys(values)):
            label = (mark.label or name) if mark.form in ("dot", "line") else ""
            yield values == name, colors[i % len(colors)], label, shapes[i // len(colors) % 3]


def draw(chart: Chart, ax: Axes | None = None, *, legend: bool = True) -> Axes:
    """Draw the first panel of a chart, each drop-down list at its start.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from crosslevel.charts.chart import Rows
    >>> chart = Chart("c", "A line", "", [Panel([Mark("line", "x", "y")], Axis("x"), Axis("y"))],
    ...               {"t": pa.table({"x": [0.0, 1.0], "y": [2.0, 3.0]})}, {"rows": Rows("t")})
    >>> draw(chart).lines[0].get_ydata().tolist()
    [2.0, 3.0]
    """
    panel = chart.panels[0]
    assert isinstance(panel, Panel)
    rows = {name: field_rows(chart, name, panel.y.group) for name in chart.data}
    rows[""] = rows[next(iter(rows))]
    with style("x" if panel.y.names else "both"):
        ax = new_axes(ax, *chart.inches)
        ax.use_sticky_edges = False  # a bar that starts at 0 would cut the dot there in half
        canvas = _Canvas(ax, panel, rows)
        for axis, scale in ((panel.x, ax.set_xscale), (panel.y, ax.set_yscale)):
            if axis.root:
                scale("function", functions=(_root, np.square))
        for level, mark in enumerate(panel.marks):
            _FORMS[mark.form](canvas, mark, 2.0 + 0.1 * level)
        _dress(canvas)
        ax.set_title(plain(chart.title), loc="left")
        several = sum(m.explained for m in panel.marks) > 1
        shaded = any(isinstance(m.color, Shade) and m.color.names for m in panel.marks)
        if legend and canvas.handles and (several or shaded):
            found = {words: artist for artist, words in reversed(canvas.handles)}
            order = list(dict.fromkeys(words for _, words in canvas.handles))
            ax.legend(
                [found[w] for w in order], order, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0,
                handlelength=1.4,
            )  # fmt: skip
        if chart.note:
            note(ax, plain(chart.note))
    return ax


def _lay_out(axis: Axis, rows: Mapping[str, Fields]) -> _Names:
    """Give every name its place: groups gathered, in order, room for the rows of each."""
    have = [r for r in rows.values() if axis.names in r]
    fields = next((r for r in have if len(r[axis.names])), have[0])
    names = [str(v) for v in fields[axis.names]]
    heads = [str(v) for v in fields[axis.group]] if axis.group in fields else [""] * len(names)
    keys = list(zip(heads, names, strict=True))
    if axis.order:
        by = np.asarray(fields[axis.order], dtype=np.float64)
        keys = [keys[i] for i in np.argsort(-by if axis.down else by, kind="stable")]
    first = {head: i for i, head in enumerate(dict.fromkeys(heads))}
    distinct = sorted(dict.fromkeys(keys), key=lambda key: first[key[0]])
    offsets = [str(v) for v in dict.fromkeys(fields[axis.offset])] if axis.offset else []
    step = len(offsets) + OFFSET_GAP if offsets else 1.0
    at, marked, shift = {}, [], 0.0
    for i, (head, name) in enumerate(distinct):
        if axis.group and (i == 0 or head != distinct[i - 1][0]):
            shift += GROUP_GAP if i else 0.0
            marked.append((i * step + shift, head))
            shift += 1.0
        at[head, name] = i * step + shift
    return _Names(at, marked, offsets)


def _area(canvas: _Canvas, mark: Mark) -> float | FloatArray:
    if not isinstance(mark.size, str):
        return mark.size
    values = np.asarray(canvas.rows[mark.data][mark.size], dtype=np.float64)
    return np.asarray(10.0 + 110.0 * values / max(float(np.nanmax(values)), 1e-300))


def _dot(canvas: _Canvas, mark: Mark, level: float) -> None:
    x, y = canvas.xy(mark)
    area = _area(canvas, mark)
    if isinstance(mark.color, Shade) and not mark.color.names:
        shade = mark.color
        limits = dict(zip(("vmin", "vmax"), shade.domain or (None, None), strict=True))
        drawn = canvas.ax.scatter(
            x, y, s=area, c=np.asarray(canvas.rows[mark.data][shade.field], dtype=float), cmap=scheme(shade.scheme),
            edgecolors="white", linewidths=0.4, zorder=level, **limits,
        )  # fmt: skip
        if shade.title:
            canvas.ax.figure.colorbar(drawn, ax=canvas.ax, label=plain(shade.title), pad=0.02)
        canvas.keep(drawn, mark)
        return
    for rows, color, label, shape in canvas.parts(mark):
        open_ = not mark.filled or SHAPES[shape] in "x|"
        look: dict[str, Any] = {"zorder": level, "alpha": None if mark.alpha == 1 else mark.alpha}
        look |= {"clip_on": False} if canvas.panel.x.limits is not None and canvas.y_names is not None else {}
        if isinstance(area, float):
            edge: dict[str, Any] = {"mfc": "none", "mew": 1.4} if open_ else {"mec": "white", "mew": 0.7}
            ms = 10.0 if shape == "stroke" else np.sqrt(area)
            canvas.keep(
                canvas.ax.plot(x[rows], y[rows], SHAPES[shape], color=color, ms=ms, **edge, **look)[0], mark, label
            )
            continue
        edge = {"facecolors": "none", "edgecolors": color} if open_ else {"color": color, "edgecolors": "white"}
        drawn = canvas.ax.scatter(x[rows], y[rows], s=area[rows], marker=SHAPES[shape], linewidths=0.5, **edge, **look)
        canvas.keep(drawn, mark, label)


def _interval(canvas: _Canvas, mark: Mark, level: float) -> None:
    from matplotlib.collections import LineCollection

    x, y, x2, y2 = (canvas.along(mark, side) for side in ("x", "y", "x2", "y2"))
    lines = np.stack([np.column_stack([x, y]), np.column_stack([x2, y2])], axis=1)
    there = np.isfinite(lines).all(axis=(1, 2))
    for rows, color, _, _ in canvas.parts(mark):
        if (rows & there).any():
            drawn = LineCollection(
                list(lines[rows & there]), **canvas.look(mark, level, color=color, linewidths=mark.width)
            )
            canvas.ax.add_collection(drawn)
            canvas.ax.autoscale_view()
            canvas.keep(drawn, mark)


def _bar(canvas: _Canvas, mark: Mark, level: float) -> None:
    x, y, end = (canvas.along(mark, side) for side in ("x", "y", "x2"))
    there = np.isfinite([x, y, end]).all(axis=0)
    x, y, end = x[there], y[there], end[there]
    if not len(x):
        return
    look = canvas.look(mark, level)
    if canvas.y_names is not None:
        height = 0.54 if not canvas.y_names.offsets else len(canvas.y_names.offsets) + 0.1
        drawn = canvas.ax.barh(y, end - x, left=x, height=height, lw=0, **look)
    else:
        drawn = canvas.ax.bar(x, y, end - x, align="edge", edgecolor="white", lw=0.8, **look)
    canvas.keep(drawn, mark)


def _band(canvas: _Canvas, mark: Mark, level: float) -> None:
    (x, y), end = canvas.xy(mark), canvas.along(mark, "y2")
    if np.isfinite(end).any():
        canvas.keep(canvas.ax.fill_between(x, y, end, lw=0, **canvas.look(mark, level)), mark)


def _line(canvas: _Canvas, mark: Mark, level: float) -> None:
    x, y = canvas.xy(mark)
    groups = np.array([str(v) for v in canvas.rows[mark.data][mark.by]]) if mark.by else np.zeros(len(x))
    for rows, color, label, _ in canvas.parts(mark):
        for i, group in enumerate(dict.fromkeys(groups[rows].tolist())):
            at = rows & (groups == group)
            look = canvas.look(mark, level, color=color, lw=mark.width, ls="--" if mark.dash else "-")
            (drawn,) = canvas.ax.plot(x[at], y[at], **look)
            if i == 0:
                canvas.keep(drawn, mark, label)


def _tick(canvas: _Canvas, mark: Mark, level: float) -> None:
    x, y = canvas.xy(mark)
    half = canvas.y_names.middle + 0.5 if canvas.y_names is not None else 0.5
    there = np.isfinite(x)
    look = canvas.look(mark, level, lw=1.6, ls=(0, (3, 1.5)))
    canvas.keep(canvas.ax.vlines(x[there], y[there] - half, y[there] + half, **look), mark)


def _text(canvas: _Canvas, mark: Mark, level: float) -> None:
    x, y = canvas.xy(mark)
    colors = canvas.rows[mark.data].get("ink", [INK] * len(x))
    for at, up, words, ink in zip(x, y, map(str, canvas.rows[mark.data][mark.text]), colors, strict=True):
        if canvas.x_names is not None:
            look: dict[str, Any] = {"ha": "center", "va": "center", "color": ink, "linespacing": 1.35}
            canvas.ax.text(at, up, plain(words), fontsize=9.0 if "\n" in words else 9.5, **look)
        elif words:
            look = {"xytext": (5, 3), "textcoords": "offset points", "fontsize": 8.0, "color": INK, "zorder": level}
            canvas.ax.annotate(_short(words), (at, up), **look)


def _cell(canvas: _Canvas, mark: Mark, level: float) -> None:
    import matplotlib as mpl

    assert canvas.x_names is not None
    assert canvas.y_names is not None
    assert isinstance(mark.color, Shade)
    x, y = (v.astype(int) for v in canvas.xy(mark))
    image = np.full((len(canvas.y_names.at), len(canvas.x_names.at)), np.nan)
    image[y, x] = np.asarray(canvas.rows[mark.data][mark.color.field], dtype=float)
    low, high = mark.color.domain or (None, None)
    colors = mpl.colormaps[scheme(mark.color.scheme)].with_extremes(bad=PALE)
    canvas.ax.imshow(
        np.ma.masked_invalid(image), cmap=colors, vmin=low, vmax=high, aspect="auto", alpha=mark.alpha, zorder=level
    )


def _ridge(canvas: _Canvas, mark: Mark, level: float) -> None:
    assert canvas.y_names is not None
    rows = canvas.rows[mark.data]
    x, height = canvas.xy(mark)
    names = np.array([str(v) for v in rows[canvas.panel.y.names]], dtype=object)
    for (_, name), at in canvas.y_names.at.items():
        own = names == name
        canvas.ax.axhline(at, color=PALE, lw=0.8, zorder=level)
        if own.any():
            look = canvas.look(mark, level)
            canvas.keep(canvas.ax.fill_between(x[own], at, at - RIDGE * height[own], lw=0, **look), mark)


def _rule(canvas: _Canvas, mark: Mark, level: float) -> None:
    look = canvas.look(mark, level, lw=1.0 if mark.dash else 0.9, ls=DASH if mark.dash else "-")
    upright = mark.x is not None
    drawn = (
        canvas.ax.axvline(float(mark.x or 0.0), **look) if upright else canvas.ax.axhline(float(mark.y or 0.0), **look)
    )
    canvas.keep(drawn, mark)


def _diagonal(canvas: _Canvas, mark: Mark, level: float) -> None:
    x = canvas.along(mark, "x")
    ends = [np.nanmin(x), np.nanmax(x)]
    canvas.keep(canvas.ax.plot(ends, ends, **canvas.look(mark, level, lw=1.0, ls=DASH))[0], mark)


def _trend(canvas: _Canvas, mark: Mark, level: float) -> None:
    """Draw running means of a tenth of the rows."""
    x, y = canvas.xy(mark)
    order = np.argsort(x, kind="stable")
    near = max(5, len(x) // 10)
    if len(x) > near:
        mean = np.convolve(y[order], np.full(near, 1 / near), "valid")
        at = np.convolve(x[order], np.full(near, 1 / near), "valid")
        canvas.ax.plot(at, mean, color=mark.color, lw=mark.width, zorder=level)


_FORMS: dict[str, Callable[[_Canvas, Mark, float], None]] = {
    "dot": _dot, "interval": _interval, "bar": _bar, "band": _band, "line": _line, "tick": _tick, "text": _text,
    "cell": _cell, "ridge": _ridge, "rule": _rule, "diagonal": _diagonal, "trend": _trend,
}  # fmt: skip


def _dress(canvas: _Canvas) -> None:
    """Label the axes, name the rows and heads, set the limits."""
    ax, panel = canvas.ax, canvas.panel
    ax.set_xlabel(plain(panel.x.title))
    ax.set_ylabel(plain(panel.y.title))
    if panel.x.limits is not None:
        ax.set_xlim(*panel.x.limits)
    if panel.y.limits is not None:
        ax.set_ylim(*panel.y.limits)
    elif panel.y.zero:
        ax.set_ylim(bottom=0.0)
    for axis, put in ((panel.x, ax.set_xticks), (panel.y, ax.set_yticks)):
        if axis.ticks is not None:
            said = axis.ticks.values() if isinstance(axis.ticks, Mapping) else axis.ticks
            put(list(axis.ticks), [f"{v:.6g}" for v in said])
            ax.minorticks_off()
    if canvas.x_names is not None:
        _grid_of_cells(canvas)
    elif canvas.y_names is not None:
        _rows_of_names(canvas, canvas.y_names)


def _rows_of_names(canvas: _Canvas, names: _Names) -> None:
    ax, axis = canvas.ax, canvas.panel.y
    ax.set_yticks([at + names.middle for at in names.at.values()], [_short(name) for _, name in names.at])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.margins(x=0.03)
    ridges = any(m.form == "ridge" for m in canvas.panel.marks)
    top = names.heads[0][0] if names.heads else 0.0
    last = max(names.at.values(), default=0.0) + 2 * names.middle
    ax.set_ylim(last + (0.5 if ridges else 0.7), top - (1.15 if ridges else 0.7))
    for at, words in names.heads:
        ax.annotate(
            _short(words), xy=(0, at), xycoords=ax.get_yaxis_transform(), xytext=(-5, 0), textcoords="offset points",
            ha="right", va="center", fontweight="bold", fontsize=9,
        )  # fmt: skip
    if axis.notes:
        fields = next(r for r in canvas.rows.values() if axis.notes in r)
        for name, words in zip(fields[axis.names], fields[axis.notes], strict=True):
            if not words:
                continue
            ax.text(
                1.01, names.at["", str(name)] - 0.2, plain(str(words)), transform=ax.get_yaxis_transform(), va="center",
                fontsize=8.5, color=GRAY,
            )  # fmt: skip


def _grid_of_cells(canvas: _Canvas) -> None:
    ax = canvas.ax
    assert canvas.x_names is not None
    assert canvas.y_names is not None
    columns, rows = ([name for _, name in names.at] for names in (canvas.x_names, canvas.y_names))
    turned: dict[str, Any] = {"rotation": 35, "ha": "right"} if len(columns) > 6 else {}
    ax.set_xticks(range(len(columns)), [_short(c, 24) for c in columns], **turned)
    ax.set_yticks(range(len(rows)), [_short(r, 24) for r in rows])
    ax.tick_params(length=0, labelcolor=INK)
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)


def scheme(name: str) -> str:
    """Give matplotlib's name of a color map, refusing what is none."""
    import matplotlib as mpl

    own = SCHEMES.get(name, name)
    if own not in mpl.colormaps:
        raise unknown_name("cmap", name, list(mpl.colormaps), "color map")
    return own


def _root(values: Any) -> FloatArray:
    return np.sqrt(np.maximum(np.asarray(values, dtype=np.float64), 0.0))


def _short(text: str, most: int = LONGEST_LABEL) -> str:
    return plain(text if len(text) <= most else text[: most - 1] + "…")
