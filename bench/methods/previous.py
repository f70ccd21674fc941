"""Version 0.2 as it was, run in an environment of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from methods.people import NUMBERS, Answer, Arrays, people_of, pick, places_of


def rxc(given: Arrays) -> Any:
    """Answer tables as version 0.2 did, told what kind of table it is."""
    import crosslevel as cl

    kind = str(given["kind"])
    return cl.ecological.rxc(given["groups"], given["outcomes"], kind="votes" if kind == "votes" else "demographic")


def ecological_inference(given: Arrays) -> Answer:
    """Answer hidden labels as version 0.2 did."""
    import crosslevel as cl

    frame, features = people_of(given)
    places = places_of(given).rename(columns={"yes": "n_yes", "all": "n_all"})
    codes = [c for c in features if c not in NUMBERS]
    frame[codes] = frame[codes].astype(int).astype(str)  # text was what made a column categorical
    model = cl.EcologicalInference(n_bins=8)
    fit = model.fit(
        frame, places, by="place", successes="n_yes", trials="n_all", coords=("lon", "lat"), weight="weight", cluster="household",
        columns=features, unmatched="drop",
    )  # fmt: skip
    asked = np.unique(given["ask_column"]).tolist()
    return pick(given, {c: fit.estimate(by=f"group_{c}", rollup="all").to_frame("pandas") for c in asked})
