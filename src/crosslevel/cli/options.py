"""Options of a verb, taken from signatures and docstrings: what the library documents is not written again for the command line.

A parameter ``n_bins : int, default 12`` of an estimator becomes ``--n-bins``, with the text of its docstring as help. What was not
written on the command line is not passed on, so defaults are the library's.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crosslevel.errors import InputError, listed, unknown_name

SPELLED = {"random_state": "seed", "n_jobs": "jobs", "outcomes": "outcome", "groups": "group", "as_json": "json"}
"""Parameters whose option has another name."""

METAVARS = {
    "whole": "INTEGER",
    "number": "NUMBER",
    "file": "PATH",
    "pairs": "NAME=VALUE",
    "crossings": "A*B",
    "value": "VALUE",
}
"""What stands behind an option in the help where no choices are documented."""

_TYPES: dict[str, Any] = {"whole": int, "number": float, "flag": bool, "switch": bool, "file": Path}


@dataclass(frozen=True)
class Option:
    """One option, or with ``argument`` one file named without an option.

    Attributes
    ----------
    name : str
        The parameter it stands for.
    kind : str
        ``text``, ``whole`` (number), ``number``, ``value`` (a number or a word), ``flag`` (with its --no form), ``switch``, ``file``,
        ``pairs`` (name=value, repeated) or ``crossings`` (a*b, repeated).
    help : str
    several : bool
        Whether it may be repeated.
    required, argument : bool
    panel : str
        Heading in the help, and the part of the job that takes it.
    column_of : str
        The file whose columns it names.
    metavar : str
        What stands behind it in the help.
    nullable : bool
        Whether the word ``none`` means None.
    choices : sequence of str
        The values there are; any other is refused.
    needs, excludes : sequence of str
        Options that must be given with it, and options that must not.
    """

    name: str
    kind: str = "text"
    help: str = ""
    several: bool = False
    required: bool = False
    argument: bool = False
    panel: str = "Options"
    column_of: str = ""
    metavar: str = ""
    nullable: bool = False
    choices: Sequence[str] = ()
    needs: Sequence[str] = ()
    excludes: Sequence[str] = ()


class Given(dict[str, Any]):
    """What was written on the command line: parameter to value; ``of`` gives those of one panel."""

    def __init__(self, values: Mapping[str, Any], panels: Mapping[str, str]) -> None:
        super().__init__(values)
        self.panels = panels

    def of(self, *panels: str, skip: Iterable[str] = ()) -> dict[str, Any]:
        """Give the values of some panels, to be passed on as keyword arguments."""
        return {n: v for n, v in self.items() if self.panels[n] in panels and n not in skip}


def spelled(name: str) -> str:
    """Spell a parameter as an option.

    Examples
    --------
    >>> spelled("inducing_points"), spelled("random_state")
    ('--inducing-points', '--seed')
    """
    return "--" + SPELLED.get(name, name).replace("_", "-")


def from_signature(
    function: Callable[..., Any],
    panel: str,
    *,
    skip: Iterable[str] = (),
    kinds: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> list[Option]:
    """Make an option of every parameter that can be written as text.

    Parameters
    ----------
    function : callable
        A class, method or function with a numpydoc docstring.
    panel : str
        Heading of the options in the help.
    skip : iterable of str
        Parameters that are not options.
    kinds : mapping of parameter to kind, optional
        For parameters whose annotation does not tell it: a table to read from a file, a column.
    columns : mapping of parameter to file, optional
        Parameters that name columns of a file.

    Examples
    --------
    >>> def fit(*, n_bins: int = 12, labels: Sequence[str] | None = None, data: Any = None):
    ...     '''Fit.
    ...
    ...     Parameters
    ...     ----------
    ...     n_bins : int, default 12
    ...         Number of ``bins``.
    ...     '''
    >>> [(o.name, o.kind, o.several, o.help) for o in from_signature(fit, "Model")]
    [('n_bins', 'whole', False, 'Number of bins. Default: 12.'), ('labels', 'text', True, '')]
    """
    docs, kinds, columns = read_docs(function), kinds or {}, columns or {}
    made = []
    for name, parameter in inspect.signature(function).parameters.items():
        kind, several, nullable = _kind(str(parameter.annotation), name)
        stated, text = docs.get(name, ("", ""))
        choices = re.search(r"\{(.*?)\}", stated)
        kind = kinds.get(name, kind or ("text" if choices else ""))
        if kind and name != "self" and name not in skip and parameter.kind is not parameter.VAR_KEYWORD:
            said = _default(parameter.default)
            made.append(
                Option(
                    name,
                    kind,
                    f"{text}{said and ' Default: ' + said + '.'}".strip(),
                    several or kind in ("pairs", "crossings"),
                    required=parameter.default is parameter.empty,
                    panel=panel,
                    column_of=columns.get(name, ""),
                    metavar=re.sub(r",\s*", "|", re.sub(r"['\"]", "", choices[1])) if choices else "",
                    nullable=nullable,
                )
            )
    return made


def from_classes(classes: Mapping[str, Any], panel: str, choice: str, **options: Any) -> list[Option]:
    """Make an option of every parameter of several estimators; where not all have it, its help says which do."""
    found: dict[str, Option] = {}
    holders: dict[str, list[str]] = {}
    for name, cls in classes.items():
        for option in from_signature(cls, panel, **options):
            found.setdefault(option.name, option)
            holders.setdefault(option.name, []).append(name)
    for name, having in holders.items():
        if len(having) < len(classes):
            found[name] = replace(
                found[name], help=f"{found[name].help} Only with {spelled(choice)} {' or '.join(having)}."
            )
    return list(found.values())


def check_known(functions: Mapping[str, Any], chosen: str, parameters: Iterable[str], choice: str) -> None:
    """Refuse a parameter that the chosen function (or estimator) lacks, and say which have it."""
    known = {name: inspect.signature(function).parameters for name, function in functions.items()}
    for name in parameters:
        if name not in known[chosen]:
            having = " or ".join(n for n in known if name in known[n])
            raise InputError(
                f"{spelled(name)} is not an option of {spelled(choice)} {chosen}; it goes with {spelled(choice)} {having}."
            )


def read_docs(function: Callable[..., Any]) -> dict[str, tuple[str, str]]:
    """Read the section Parameters of a numpydoc docstring: name to its type and its text, as one line without markup.

    Examples
    --------
    >>> read_docs(read_docs)
    {}
    """
    lines = inspect.cleandoc(function.__doc__ or "").splitlines()
    found: dict[str, tuple[str, str]] = {}
    names: list[str] = []
    inside = False
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below.startswith("---") and not line.startswith(" "):
            inside = line == "Parameters"
        elif inside and line and not line.startswith((" ", "-")):
            head, _, stated = line.partition(" : ")
            names = [n.strip(" *") for n in head.split(",")]
            found |= dict.fromkeys(names, (stated, ""))
        elif inside and line.strip():
            for name in names:
                stated, text = found[name]
                found[name] = (stated, f"{text} {_unmarked(line.strip())}".strip())
    return found


def _unmarked(text: str) -> str:
    return re.sub(r":\w+:`~?([^`]*)`|`+([^`]*)`+", lambda m: m[1] or m[2], text)


def _default(value: object) -> str:
    if value is inspect.Parameter.empty or value is None or value == ():
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value) if isinstance(value, str | int | float) else ""


def _kind(annotation: str, name: str) -> tuple[str, bool, bool]:
    """Tell from an annotation how a value is written, whether several are, and whether there may be none."""
    parts = [p.strip() for p in re.split(r"\|(?![^\[]*\])", annotation)]
    nullable = "None" in parts
    parts = [p for p in parts if p != "None"]
    if name == "random_state" or parts == ["int"]:
        return "whole", False, nullable
    if parts == ["bool"]:
        return "flag", False, nullable
    if any(p.startswith("Sequence[Sequence[str") for p in parts):
        return "crossings", True, nullable
    if any(p.startswith(("Sequence[str", "list[str", "tuple[str")) for p in parts):
        return "text", True, nullable
    if any(p in ("int", "float") for p in parts):
        return ("number" if parts == ["float"] else "value"), False, nullable
    if "str" in parts or any(p.startswith("Literal") for p in parts):
        return "text", False, nullable
    pairs = bool(parts) and parts[0].startswith("Mapping[str")
    return "pairs" if pairs else "", pairs, nullable


def as_function(options: Sequence[Option]) -> Callable[..., dict[str, Any]]:
    """Make a function whose signature typer turns into a command; called, it gives what was written."""
    import typer

    parameters, hints = [], {}
    for option in options:
        kind = _TYPES.get(option.kind, str)
        hints[option.name] = list[kind] | None if option.several else kind if option.required else kind | None  # type: ignore[valid-type]
        text = option.help.replace("[", r"\[")
        stated: dict[str, Any] = {"help": text}
        if option.kind not in ("flag", "switch"):
            stated["metavar"] = option.metavar or "|".join(option.choices) or METAVARS.get(option.kind, "TEXT")
        default = ... if option.required else None
        if option.argument:
            shown: Any = typer.Argument(default, **stated)
        else:
            flag = spelled(option.name)
            name = f"{flag}/--no-{flag[2:]}" if option.kind == "flag" else flag
            shown = typer.Option(default, name, show_default=False, rich_help_panel=option.panel, **stated)
        parameters.append(
            inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=shown, annotation=hints[option.name])
        )

    def collect(**values: Any) -> dict[str, Any]:
        return values

    collect.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    collect.__annotations__ = hints
    return collect


def read(options: Sequence[Option], values: Mapping[str, Any]) -> Given:
    """Give what was written, as the values the library takes."""
    found = {o.name: _value(o, values[o.name]) for o in options if values[o.name] not in (None, [], ())}
    for option in (o for o in options if o.name in found):
        said = str(found[option.name]) if option.argument else spelled(option.name)
        for other in option.needs:
            if other not in found:
                raise InputError(f"{said} goes with {spelled(other)}, which is missing; add it, or leave {said} out.")
        for other in option.excludes:
            if other in found:
                raise InputError(
                    f"{said} and {spelled(other)} exclude one another; choose one and leave the other out."
                )
    return Given(found, {o.name: o.panel for o in options})


def _value(option: Option, raw: Any) -> Any:
    if option.nullable and raw == "none":
        return None
    if option.choices and raw not in option.choices:
        raise unknown_name(spelled(option.name), raw, list(option.choices), "choice")
    if option.kind in ("text", "crossings") and option.several and len(set(raw)) < len(raw):
        twice = next(v for v in raw if list(raw).count(v) > 1)
        raise InputError(f"{spelled(option.name)} names {twice!r} twice; name each once.")
    if option.kind == "value":
        return _number(raw)
    if option.kind == "pairs":
        return {name: _number(value) for name, value in read_pairs(raw, spelled(option.name)).items()}
    if option.kind == "crossings":
        return [tuple(_parts(text)) for text in raw]
    return raw


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _parts(text: str) -> Iterator[str]:
    return (part.strip() for part in re.split(r"[,*]", text))


def read_pairs(texts: Sequence[str], option: str, example: str = "name=value") -> dict[str, str]:
    """Read ``name=value`` texts; the first ``=`` ends the name.

    Examples
    --------
    >>> read_pairs(["women over 65=sex = 2 and age >= 65"], "--subgroup")
    {'women over 65': 'sex = 2 and age >= 65'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, mark, value = (part.strip() for part in text.partition("="))
        if not mark or not name or not value or value.startswith("="):
            raise InputError(f"{option} {text!r} is not {example}; write the name, '=' and what it stands for.")
        if name in found:
            raise InputError(f"{option} names {name!r} twice; name each once ({listed(texts)}).")
        found[name] = value
    return found
