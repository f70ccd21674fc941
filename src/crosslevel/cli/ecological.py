"""``crosslevel ecological``: people by place and totals by place in, the behaviour of any subgroup in any place out."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from crosslevel.cli.console import check_folder, make_folder, people_bar, quietly, read_table, write_estimates
from crosslevel.cli.ecological_asks import Ask, read_asks
from crosslevel.cli.ecological_pages import observed_map, read_polygons
from crosslevel.data.batches import Batches, open_batches
from crosslevel.data.checks import check_level
from crosslevel.data.totals import read_places
from crosslevel.ecological.estimate import PlaceEstimator, read_interval
from crosslevel.ecological.persons.estimator import EcologicalInference
from crosslevel.ecological.regression.estimator import DistributionRegression
from crosslevel.ecological.subgroups import read_question, read_request
from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.reports import report
from crosslevel.reports.bundle import available
from crosslevel.reports.pictures import pictures
from crosslevel.results import Estimates, save

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Settings", "run"]

MODEL, REPORT, VALIDATION = "model.crosslevel", "report.html", "cross-validation"
AUTOMATIC = "auto"
EVERYWHERE = "all"


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    people: Path
    places: Path
    by: str | None
    weight: str | None
    successes: str | None
    trials: str | None
    outcome: list[str]
    population: str | None
    lon: str | None
    lat: str | None
    estimate: list[str]
    rollup: list[str]
    of: str
    contrast: str | None
    columns: list[str]
    categorical: list[str]
    where: str | None
    evidence: Path | None
    state_effect: str | None
    features: int
    feature_map: str
    spatial: str
    no_spatial: bool
    metric: str
    no_nugget: bool
    link: str
    interval: str | None
    calibrate: list[str]
    rho: float
    no_account: bool
    unmatched: str
    level: float
    draws: int
    cross_validate: int | None
    leave_out: str | None
    polygons: Path | None
    seed: int
    jobs: int | None
    out: Path | None
    report: bool

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> Self:
        """Take from all options of the verb those that belong here; a list that was not given is empty."""
        several = ("outcome", "estimate", "rollup", "columns", "categorical", "calibrate")
        given = {f.name: options[f.name] for f in fields(cls)}
        return cls(**given | {name: list(given[name] or ()) for name in several})


def run(settings: Settings, as_json: bool) -> None:
    """Read, fit, answer, validate, write what was asked for, print the tables."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    began = time.monotonic()
    _check(settings)
    people = open_batches(settings.people)
    places = _read_places(settings, people)
    _check_columns(settings, people.schema.names, places.column_names)
    asks = read_asks(settings.estimate, people.schema)
    _check_questions(settings, asks, places)
    polygons = None
    if settings.polygons is not None:
        polygons = read_polygons(settings.polygons, str(settings.by), places[settings.by].to_pylist())
    if settings.out is not None:
        make_folder(settings.out)
    model = _fitted(settings, people, places, console)
    if settings.calibrate:
        _calibrated(settings, model, console)
    files: dict[str, str] = {}
    if settings.out is not None:
        save(model, settings.out / MODEL)
        files["model"] = str(settings.out / MODEL)
    answers = _answered(settings, model, asks, console, files)
    if settings.cross_validate is not None or settings.leave_out is not None:
        with console.status("Predicting every place from the others ..."):
            answers[VALIDATION] = _validated(settings, model)
        if settings.out is not None:
            files |= write_estimates(answers[VALIDATION], settings.out, VALIDATION)
    if settings.report and settings.out is not None:
        with console.status("Writing the report ..."):
            _write_report(settings, model, answers, polygons, settings.out / REPORT)
        files["report"] = str(settings.out / REPORT)
    facts = _facts(model, answers, files, time.monotonic() - began)
    if as_json:
        print(json.dumps(facts, ensure_ascii=False, allow_nan=False, default=str))
    else:
        _say(settings, answers, facts)


def _check(settings: Settings) -> None:
    check_folder(settings.out)
    if settings.by is None:
        raise InputError("--by is missing; name the column, in both tables, that says where somebody lives.")
    asked = settings.estimate or settings.out or settings.cross_validate is not None or settings.leave_out
    if not asked:
        raise InputError(
            "nothing is asked; write for example --estimate sex, --estimate 'age >= 65' or --cross-validate 10, or keep the model "
            "with --out."
        )
    if settings.rollup and not settings.estimate:
        raise InputError("--rollup puts subgroups together; name them with --estimate.")
    if (settings.lon is None) != (settings.lat is None):
        raise InputError("--lon and --lat go together; name both columns of places.")
    if settings.lon is None and not settings.no_spatial:
        raise InputError("--lon and --lat are missing; name two columns of places, or pass --no-spatial.")
    if settings.cross_validate is not None and settings.leave_out is not None:
        raise InputError("--cross-validate and --leave-out are two ways to leave places out; choose one.")
    if settings.calibrate and settings.link != "individual":
        raise InputError("--calibrate hides columns from the individual link; leave out --link group.")
    if AUTOMATIC in settings.calibrate and len(settings.calibrate) > 1:
        raise InputError("--calibrate auto chooses the labels itself; leave out the others.")
    if settings.report and settings.out is None:
        raise InputError("--report needs a folder; name it with --out.")
    if settings.polygons is not None and not settings.report:
        raise InputError("--polygons are for the map of the report; pass --report too.")


def _read_places(settings: Settings, people: Batches) -> pa.Table:
    """Read places; the keys of a CSV file as the type they have in people, so that 1001 and '1001' are the same place."""
    by = str(settings.by)
    if by not in people.schema.names:
        raise unknown_name("--by", by, people.schema.names)
    kind = people.schema.field(by).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    found = open_batches(settings.places)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    delimited = settings.places.name.removesuffix(".gz").endswith((".csv", ".tsv"))
    if text and delimited and by in found.schema.names and pa.types.is_integer(found.schema.field(by).type):
        found = open_batches(settings.places, column_types={by: pa.string()})
    return found.to_table()


def _check_columns(settings: Settings, people: list[str], places: list[str]) -> None:
    of_people: dict[str, Any] = {"--weight": settings.weight}
    of_people |= {"--columns": settings.columns, "--categorical": settings.categorical}
    of_places: dict[str, Any] = {
        "--by": settings.by,
        "--successes": settings.successes,
        "--trials": settings.trials,
        "--outcome": settings.outcome,
        "--population": settings.population,
        "--lon": settings.lon,
        "--lat": settings.lat,
        "--state-effect": settings.state_effect,
        "--rollup": [name for name in settings.rollup if name != EVERYWHERE],
        "--leave-out": settings.leave_out,
    }
    for asked, known in ((of_people, people), (of_places, places)):
        for option, names in asked.items():
            for name in [names] if isinstance(names, str) else names or []:
                if name not in known:
                    raise unknown_name(option, name, known)
    if len(set(settings.rollup)) < len(settings.rollup):
        raise InputError("--rollup names the same column twice; name each once.")


def _check_questions(settings: Settings, asks: list[Ask], places: pa.Table) -> None:
    """Refuse what cannot be answered before anybody is read."""
    by = str(settings.by)
    check_level(settings.level)
    interval = read_interval(settings.interval, ("model",) if settings.link == "group" else ("confounding", "model"))
    found = read_places(
        places,
        by,
        settings.successes,
        settings.trials,
        outcomes=settings.outcome or None,
        population=settings.population,
    )
    for ask in asks:
        request = read_request(ask.by or None, ask.subgroups or None, None, by)
        for rollup in (*settings.rollup, None):
            read_question(
                found,
                request,
                rollup=rollup,
                denominator=settings.of,
                contrast=settings.contrast,
                reference=None,
                level=settings.level,
                n_draws=settings.draws,
                seed=settings.seed,
                interval=interval,
            )
    k = settings.cross_validate
    if k is not None and not 2 <= k <= len(found):
        raise InputError(f"--cross-validate {k} is not between 2 and the {len(found):,} places.")


def _fitted(settings: Settings, people: Batches, places: pa.Table, console: Console) -> PlaceEstimator:
    common: dict[str, Any] = {
        "categorical": settings.categorical or None,
        "spatial": None if settings.no_spatial else settings.spatial,
        "metric": settings.metric,
        "nugget": not settings.no_nugget,
        "group": settings.state_effect,
        "match_totals": not settings.no_account,
        "random_state": settings.seed,
        "n_jobs": settings.jobs,
    }
    model: Any
    if settings.link == "group":
        if settings.rho:
            raise InputError("--rho belongs to --link individual; leave it out of --link group.")
        model = DistributionRegression(settings.features, feature_map=settings.feature_map, **common)
    elif settings.link == "individual":
        model = EcologicalInference(contextual_variance=settings.rho, **common)
        if settings.evidence is not None:
            raise InputError("--evidence is read by --link group only; leave it out.")
    else:
        raise unknown_name("--link", settings.link, ["individual", "group"], "link")
    evidence = None if settings.evidence is None else read_table(settings.evidence)
    began = time.monotonic()
    with people_bar(console, "Learning from people and totals") as progress:
        quietly(
            lambda: model.fit(
                people,
                places,
                by=str(settings.by),
                successes=settings.successes,
                trials=settings.trials,
                weight=settings.weight,
                coords=None if settings.lon is None or settings.lat is None else (settings.lon, settings.lat),
                columns=settings.columns or None,
                outcomes=settings.outcome or None,
                population=settings.population,
                **({} if evidence is None else {"evidence": evidence}),
                where=settings.where,
                unmatched=settings.unmatched,
                progress=progress,
            )
        )
    said = model.convergence_
    seconds = time.monotonic() - began
    words = f"Fitted {said['places']:,} places, {said['people']:,} people in {seconds:,.1f} s"
    console.print(words, markup=False, soft_wrap=True)
    return model


def _calibrated(settings: Settings, model: Any, console: Console) -> None:
    """Hide the labels one after another; the model keeps what it learnt."""
    automatic = settings.calibrate == [AUTOMATIC]
    with people_bar(console, "Hiding columns", "labels") as progress, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CrosslevelWarning)
        model.learn_confounding(labels=AUTOMATIC if automatic else settings.calibrate, progress=progress)
    for text in said:
        console.print(f"Warning: {text.message}", markup=False, soft_wrap=True)
    console.print(f"Calibrated: {model.confounding_.describe()}", markup=False, soft_wrap=True)


def _answered(
    settings: Settings, model: PlaceEstimator, asks: list[Ask], console: Console, files: dict[str, str]
) -> dict[str, Estimates]:
    """Answer every question, roll-ups first, each in one pass over the people, and write each as soon as it is there."""
    answers: dict[str, Estimates] = {}
    for ask in asks:
        for rollup in (*settings.rollup, None):
            where = settings.by if rollup is None else None if rollup == EVERYWHERE else rollup
            with people_bar(console, f"{ask.words}, {'everywhere' if where is None else f'by {where}'}") as progress:
                found = quietly(
                    lambda ask=ask, rollup=rollup, progress=progress: model.estimate(  # type: ignore[misc]
                        ask.by or None,
                        ask.subgroups or None,
                        rollup=rollup,
                        denominator=settings.of,
                        contrast=settings.contrast,
                        interval=settings.interval,
                        level=settings.level,
                        n_draws=settings.draws,
                        progress=progress,
                    )
                )
            stem = _free(ask.stem(where), answers)
            answers[stem] = found
            if settings.out is not None:
                files |= write_estimates(found, settings.out, stem)
    return answers


def _free(stem: str, taken: Mapping[str, object]) -> str:
    """Keep names of files apart that differ only in signs a file name cannot have."""
    return next(name for name in chain([stem], (f"{stem}-{i}" for i in count(2))) if name not in taken)


def _validated(settings: Settings, model: PlaceEstimator) -> Estimates:
    k = 10 if settings.cross_validate is None else settings.cross_validate
    return quietly(
        lambda: model.cross_validate(k, leave_out=settings.leave_out, level=settings.level, random_state=settings.seed)
    )


def _write_report(
    settings: Settings,
    model: PlaceEstimator,
    answers: Mapping[str, Estimates],
    polygons: Mapping[str, Any] | None,
    path: Path,
) -> None:
    shown = {name.replace("-", " "): found for name, found in answers.items()}
    figures: dict[str, Any] = {}
    if not available():  # an interactive page draws its own maps
        figures |= {} if polygons is None else observed_map(model, polygons)
        subgroups = {name: found for name, found in shown.items() if found is not answers.get(VALIDATION)}
        figures |= pictures(subgroups, polygons)
    shown = shown or {"places": model.predict_places(level=settings.level)}
    report(shown, path, title=f"Ecological inference: {settings.places.name}", figures=figures, polygons=polygons)


def _facts(
    model: PlaceEstimator, answers: Mapping[str, Estimates], files: Mapping[str, str], seconds: float
) -> dict[str, Any]:
    said = [*model.warnings_, *(w for found in answers.values() for w in found.warnings)]
    return {
        "answers": {
            name: {
                "title": found.title,
                "keys": list(found.keys),
                "level": found.level,
                "interval": found.interval,
                "rows": found.table.to_pylist(),
            }
            for name, found in answers.items()
        },
        "scores": answers[VALIDATION].diagnostics if VALIDATION in answers else {},
        "fit": model.convergence_,
        "calibration": _calibration_facts(model),
        "warnings": list(dict.fromkeys(said)),
        "seconds": round(seconds, 3),
        "files": dict(files),
    }


def _calibration_facts(model: PlaceEstimator) -> dict[str, Any] | None:
    found = model.confounding_
    if found is None:
        return None
    return {
        "words": found.describe(),
        "tau": found.confounding.tau,
        "omega": found.confounding.omega,
        "shrinkage": dict(found.shrinkage),
        # JSON has no NaN: labels without places of enough people have no scores there
        "labels": [{n: None if v != v else v for n, v in row.items()} for row in found.table.to_pylist()],
    }


def _say(settings: Settings, answers: Mapping[str, Estimates], facts: Mapping[str, Any]) -> None:
    """Print what all answers share once, then each table; long ones by place only where no file holds them."""
    fit = {n: v for n, v in facts["fit"].items() if not isinstance(v, list)}
    print(f"Fit: {', '.join(f'{n} {_short(v)}' for n, v in fit.items())}")
    if facts["scores"]:
        print(f"Places predicted from others: {', '.join(f'{n} {_short(v)}' for n, v in facts['scores'].items())}")
    for text in facts["warnings"]:
        print(f"Warning: {text}")
    for name, found in answers.items():
        by_place = name == VALIDATION or (settings.by in found.keys and settings.rollup)
        if settings.out is None or not by_place:
            print(f"\n{replace(found, warnings=(), diagnostics={}).summary()}")
    if facts["files"]:
        print()
    for name, path in facts["files"].items():
        print(f"{name:<28} {path}")


def _short(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
