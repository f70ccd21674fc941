"""A nation with known truth: people, places, votes, and the true rate of every subgroup in every region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.checks import check_between, check_whole, read_seed
from crosslevel.data.frames import as_names
from crosslevel.data.simulate.map import Settings, feature_collection, plan_nation
from crosslevel.data.simulate.population import LEVELS, draw_region, rates, truth_table
from crosslevel.errors import unknown_name
from crosslevel.typing import RandomState

PEOPLE = ("region", "weight", "sex", "age", "age_group", "race", "education", "income", "urban", "hours")
ORDERED = ("age_group", "education")


@dataclass(frozen=True, eq=False)
class Nation:
    """A simulated nation; made by :func:`nation`, which documents how it works.

    Attributes
    ----------
    people : pyarrow.Table
        The sampled people, region by region: ``region, weight, sex`` (1 man, 2 woman), ``age`` (years), ``age_group,
        race, education`` (ordered), ``income`` (null where not told), ``urban, hours`` (worked a week).
    places : pyarrow.Table
        The regions: ``region, state, lon, lat, dem`` (successes), ``votes`` (trials), ``population``.
    truth : pyarrow.Table
        For sex, age_group, race, education and sex x age_group in every region: ``region, variable, level, rate,
        count`` (votes), ``dem, population``.
    polygons : dict
        GeoJSON FeatureCollection whose features tile the country, with properties ``region`` and ``state``.
    counts : (3, n_regions, 2, 4, 5, 2, 4)
        Everybody, voters and voters for dem, by region, sex, race, education, urban and age group.

    Examples
    --------
    >>> world = nation(20, 50)
    >>> world.truth.column_names
    ['region', 'variable', 'level', 'rate', 'count', 'dem', 'population']
    """

    people: pa.Table
    places: pa.Table
    truth: pa.Table
    polygons: dict[str, Any] = field(repr=False)
    counts: npt.NDArray[np.int64] = field(repr=False)

    def __repr__(self) -> str:
        return (
            f"<Nation: {self.people.num_rows:,} people sampled in {self.places.num_rows:,} regions; "
            "see .people, .places, .truth and .true_rates(by=...)>"
        )

    def true_rates(self, by: str | Sequence[str] | None = None, rollup: str | None = None) -> pa.Table:
        """What share of each subgroup truly voted dem?

        Parameters
        ----------
        by : str or list of str, optional
            Any of sex, race, education, urban, age_group, or several for their combinations.
        rollup : {"state", "all"}, optional
            Answer by state or for the nation; by default for every region.

        Returns
        -------
        pyarrow.Table
            ``region`` or ``state`` (nothing for "all"), the by columns, ``rate, count`` (votes), ``dem, population``.

        Examples
        --------
        >>> world = nation(20, 50)
        >>> world.true_rates(by="sex", rollup="all").column_names
        ['sex', 'rate', 'count', 'dem', 'population']
        """
        names = () if by is None else as_names(by, "by")
        for name in names:
            if name not in LEVELS:
                raise unknown_name("by", name, list(LEVELS), "variable with known truth")
        if rollup is None:
            return rates(self.counts, {"region": self.places["region"].to_pylist()}, names)
        if rollup == "all":
            return rates(self.counts.sum(axis=1, keepdims=True), {}, names)
        if rollup != "state":
            raise unknown_name("rollup", rollup, ["state", "all"], "choice")
        states, owner = np.unique(self.places["state"].to_numpy(), return_inverse=True)
        counts = np.stack([self.counts[:, owner == state].sum(axis=1) for state in range(len(states))], axis=1)
        return rates(counts, {"state": states.tolist()}, names)

    def survey(self, n: int = 1000, *, shift: float = 0.0, random_state: RandomState = 0) -> pa.Table:
        """Ask so many voters, drawn anew from everybody, how they voted.

        Parameters
        ----------
        n : int, default 1000
        shift : float, default 0
            By how much the log-odds of answering are larger for those who voted dem.
        random_state : int, None, Generator or RandomState, default 0

        Returns
        -------
        pyarrow.Table
            ``region, state, sex, race, education, urban, age_group`` as in people, and ``voted_dem``, 1 or 0.

        Examples
        --------
        >>> asked = nation(20, 50).survey(500)
        >>> asked.num_rows, sorted(set(asked["voted_dem"].to_pylist()))
        (500, [0, 1])
        """
        rng = np.random.default_rng(read_seed(random_state))
        names = ["sex", "race", "education", "urban", "age_group"]
        kinds = self.true_rates(by=names)
        dem, votes = (np.asarray(kinds[c].to_numpy(), dtype=np.float64) for c in ("dem", "count"))
        odds = np.exp(check_between(shift, "shift", -10.0, 10.0))
        answering = np.concatenate([dem * odds, votes - dem])
        drawn = rng.choice(len(answering), check_whole(n, "n", 1), p=answering / answering.sum())
        people = kinds.take(pa.array(drawn % len(dem))).select(["region", *names])
        homes = dict(zip(self.places["region"].to_pylist(), self.places["state"].to_pylist(), strict=True))
        states = pa.array([homes[r] for r in people["region"].to_pylist()])
        people = people.add_column(1, "state", states)
        return people.append_column("voted_dem", pa.array((drawn < len(dem)).astype(np.int8)))


def nation(
    n_regions: int = 300,
    people_per_region: int = 1000,
    *,
    n_states: int = 12,
    sampling_rate: float = 0.1,
    turnout: float | None = None,
    contextual: float = 0.25,
    spatial: float = 0.2,
    random_state: RandomState = 0,
) -> Nation:
    """Simulate a nation whose regions differ as those of the United States do, and whose truth is known.

    Parameters
    ----------
    n_regions : int
        Regions with published votes.
    people_per_region : int
        Sampled people in an average region; the population is ``1 / sampling_rate`` times as large.
    n_states : int
        States, each a block of neighboring regions; one per region where there are fewer regions.
    sampling_rate : float
        Share of the population in the survey, in (0, 1].
    turnout : float, optional
        Share of the population that votes, in (0, 1]; by default everybody.
    contextual : float
        Multiplies the effect of a region's composition on everybody in it; 0 switches it off, and 1 makes a nation that is harder
        than any survey: where minorities are many, everybody votes otherwise.
    spatial : float
        Standard deviation of the smooth place effect, in log odds.
    random_state : int, None, Generator or RandomState
        Seed. Each region has a stream of its own, so the answer does not depend on how the work is cut.

    Returns
    -------
    Nation

    Notes
    -----
    *Places.* Let g be a fresh smooth random field over the map (mean 0, standard deviation 1 over the regions, length
    scale about a sixth of the country) and e fresh standard normal noise, in each place where they occur. Region i has

    - an urban share u_i from 0.12 to 0.92, high in and around n_regions / 20 cities of falling size;
    - race shares q_i, the softmax of (0, -1.9, -1.7, -2.6) + u_i (0, 0.6, 0.5, 0.9) + g (0, 1.25, 1.1, 0.4) and, but for the
      first, + 0.25 e; its minority share m_i is one minus the first;
    - education s_i = 0.35 g + 0.9 (u_i - mean) + 0.2 e, wealth w_i = 0.12 g + 0.2 s_i, youth y_i = 0.08 g + 0.25 (u_i - mean);
    - a share k_i = 0.3 + 0.1 g + 0.06 e of people in the middle of life, and women with probability p_i = 0.515 + 0.016 e;
    - a population proportional to exp(0.4 e).

    So shares vary between regions, over s (1 - s), by about .02-.18 for races, .01-.025 for most levels of education, .003-.009 for age
    groups and .001 for sex, which is what American regions of 250,000 people show.

    *People.* With U uniform on (0, 1), c = (age - 18) / 72, and effects listed in the order of the races,

    - sex is 2 (woman) with probability p_i, and race is drawn from q_i;
    - age is uniform from 30 to 64 with probability k_i, else 18 + floor(72 U^t) with t = 1.25 + y_i + (0, 0.1, 0.2, 0.1);
    - education is an ordered logit with mean s_i + (0, -0.5, -0.6, 0.4) - 0.9 (c - 0.4) and cuts -1.9, -0.4, 0.6, 1.8;
    - urban has log odds logit(u_i) + (0, 0.8, 0.6, 0.8);
    - log income is normal with standard deviation 0.65 around 10.1 + w_i + 0.22 (education - 2) - 0.25 [woman]
      + 0.15 [urban] + 1.8 c (1 - c), education counted from 0.

    *Votes.* Everybody votes dem with probability sigmoid(f(x) + a_i + contextual * b_i), where, with z the log income
    in units of 0.8 around 10.5, clipped to 2.5 either way,

    - f = race (-0.95, 1.2, 0.2, 0) + education (-0.5, -0.35, -0.05, 0.4, 0.8 for the first race; 0.15, 0.1, 0, -0.1,
      -0.15 for others)
      + urban (0.4 first race, 0.15 others) + 0.7 cos(2.5 pi c) + [woman] (0.2 + 0.5 (1 - c)) + z (0.25 z - 0.1) - 0.25;
    - a_i = spatial * (0.9 smooth field - 0.5 contextual * standardized m_i) + 0.15 noise;
    - b_i = -1.2 (m_i - 0.35) for the first race and -0.5 (m_i - 0.35) for others, + 0.5 s_i.

    So age and income act non-monotonely, race and education interact, and where minorities are many everybody votes
    less for dem: the regression of votes on composition reads that as the minorities' vote. The default of ``contextual`` leaves
    answers of :class:`crosslevel.EcologicalInference` about as far off, in log odds, as columns
    hidden in United States surveys were. With ``turnout``, people vote
    with a probability that grows with age and education and has mean ``turnout`` in every region.

    *Survey.* A person is sampled with probability proportional, nearly, to 1 + 0.35 [45 and over] - 0.2 [not of the
    first race] + 0.15 [bachelor or more], with mean ``sampling_rate`` in every region, systematically, so that sample
    sizes are fixed up to rounding; weight is one over that probability. Between 3 and 9 % do not tell their income.

    The truth is what the whole population did, not the probabilities.

    Examples
    --------
    >>> world = nation(30, 100, n_states=4)
    >>> world
    <Nation: 3,005 people sampled in 30 regions; see .people, .places, .truth and .true_rates(by=...)>
    >>> world.places.column_names
    ['region', 'state', 'lon', 'lat', 'dem', 'votes', 'population']
    """
    known = (n_regions, people_per_region, n_states, sampling_rate, turnout, contextual, spatial)
    settings = Settings(*known, entropy=read_seed(random_state))
    plan = plan_nation(settings)
    draws = [draw_region(plan, i) for i in range(n_regions)]
    counts = np.stack([counted for counted, _ in draws], axis=1)
    people = {name: np.concatenate([asked[name] for _, asked in draws]) for name in draws[0][1]}
    owner = np.repeat(np.arange(n_regions, dtype=np.int32), [len(asked["age"]) for _, asked in draws])
    columns = {"region": pa.DictionaryArray.from_arrays(owner, plan.regions)}
    for name, codes in people.items():
        columns[name] = pa.array(codes, from_pandas=True)
        if name in LEVELS and name != "sex":
            columns[name] = pa.DictionaryArray.from_arrays(codes, LEVELS[name], ordered=name in ORDERED)
    population, votes, dem = counts.sum(axis=tuple(range(2, counts.ndim)))
    country = plan.country
    places = {"region": plan.regions, "state": plan.states, "lon": country.lon, "lat": country.lat}
    return Nation(
        people=pa.table({name: columns[name] for name in PEOPLE}),
        places=pa.table(places | {"dem": dem, "votes": votes, "population": population}),
        truth=truth_table(counts, plan.regions),
        polygons=feature_collection(country, plan.regions, plan.states),
        counts=counts,
    )
