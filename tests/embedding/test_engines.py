"""One contract for every engine that goes over people: all give the same, whatever is killed, broken or run twice.

One Spark session serves the whole file. Nothing here waits for a moment: a worker that dies kills itself when it reads a certain
piece for the first time, which a marker file remembers.
"""

from __future__ import annotations

import functools
import os
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

from crosslevel import EcologicalInference, MeanEmbedding, load, save
from crosslevel.data import engines
from crosslevel.data.batches import Batches, open_batches
from crosslevel.data.engines import Failure, Ledger, Node, check_versions, find_cluster, merge_nodes, run_piece
from crosslevel.data.learning import learn_people
from crosslevel.data.place_cells import count_people, learn_bins
from crosslevel.data.simulate import nation
from crosslevel.data.sketch import Fetching, Sketch
from crosslevel.errors import CrosslevelError, EngineError, FileError, InputError

pytestmark = pytest.mark.filterwarnings(
    "ignore:os.fork:RuntimeWarning"
)  # of jax, where Spark starts its Java: fork, then exec

ROOT = Path(__file__).resolve().parents[2]
PLACES = 24
WORLD = nation(PLACES, 250, n_states=4)
COUNTS = {"by": "region", "weight": "weight"}
SCALES = {"effect_variance": 0.3, "spatial": 0.1, "length": 400.0, "nugget": 0.02}
TOTALS = {"successes": "dem", "trials": "votes", "coords": ("lon", "lat")}


DEADLY = """
import os
import signal
from pathlib import Path

from crosslevel.data.batches import Source


class Deadly(Source):
    "A source one of whose pieces does what it is told when it is read for the first time; a file remembers."

    unit = "piece"

    def __init__(self, source, piece, marker, deed):
        self.source, self.piece, self.marker, self.deed = source, piece, Path(marker), deed
        self.name, self.schema, self.n_parts = source.name, source.schema, source.n_parts

    @property
    def num_rows(self):
        return self.source.num_rows

    def parts(self, request, start=0):
        if start == self.piece and (self.deed == "always fail" or not self.marker.exists()):
            self.marker.touch()
            if self.deed == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            raise MemoryError("no room for this piece")
        return self.source.parts(request, start)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Workers find this checkout, and a module with a deadly source."""
    before, path = dict(os.environ), list(sys.path)
    folder = tmp_path_factory.mktemp("modules")
    (folder / "crosslevel_deadly.py").write_text(DEADLY)
    sys.path[:0] = [str(ROOT / "src"), str(folder)]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(folder), before.get("PYTHONPATH", "")])
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    yield
    sys.path[:] = path
    os.environ.clear()
    os.environ.update(before)


class Elsewhere:
    """Another machine, played by this process: tasks and answers travel as bytes, the last pieces first, and one comes twice."""

    name = "elsewhere"

    def check(self, expected):
        check_versions(expected)

    def describe(self):
        return self.name

    def run(self, task, groups):
        shipped = pickle.dumps(task)
        for group in reversed(groups):
            found = []
            for piece in group:
                try:
                    found.append(run_piece(pickle.loads(shipped), piece))
                except CrosslevelError as error:
                    found.append(Failure(piece, error))
            if all(isinstance(one, Node) for one in found):
                found = [merge_nodes(found)]
            for one in [*found, *found[:1]]:
                yield pickle.loads(pickle.dumps(one)) if isinstance(one, Node) else one


@pytest.fixture
def elsewhere():
    return Elsewhere()


@pytest.fixture(scope="module")
def session(environment, tmp_path_factory):
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime")
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
    }
    builder = sql.SparkSession.builder.master("local[2,4]").appName("crosslevel tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(params=["local", "elsewhere", "session"])
def engine(request):
    """What a user passes: a name, an engine, a session."""
    return "local" if request.param == "local" else request.getfixturevalue(request.param)


@pytest.fixture(params=["local", "elsewhere"])
def here(request):
    return "local" if request.param == "local" else request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six files of two row groups, cut across places; the fourth holds nobody of positive age."""
    folder = tmp_path_factory.mktemp("people")
    people = WORLD.people
    size = -(-people.num_rows // 6)
    for i in range(6):
        pq.write_table(people.slice(i * size, size), folder / f"part-{i}.parquet", row_group_size=-(-size // 2))
    return folder


@pytest.fixture
def files(folder, tmp_path):
    """Give files of one's own, to be broken."""
    return Path(shutil.copytree(folder, tmp_path / "people"))


@pytest.fixture(scope="module")
def fitted(folder):
    return MeanEmbedding(n_features=32, categorical=["sex"], n_jobs=1).fit(folder, **COUNTS)


def on(model, engine):
    """Give the same fitted embedding on another engine."""
    other = MeanEmbedding(**{**model.get_params(), "engine": engine})
    other.__dict__.update({n: v for n, v in model.__dict__.items() if n.endswith("_")})
    return other


def facts(encoder):
    return [column.facts() for column in encoder.columns]


def close(one, two, tolerance=1e-9):
    assert one.key_table.equals(two.key_table)
    assert (one.n_rows == two.n_rows).all()
    np.testing.assert_allclose(one.weight, two.weight, rtol=1e-12)
    np.testing.assert_allclose(one.values, two.values, rtol=0, atol=tolerance * np.abs(two.values).max())
    return True


def same(one, two):
    return close(one, two, 1e-12)


# ---- the same numbers


def test_fit_and_transform_give_what_the_local_engine_gives(fitted, folder, engine):
    model = MeanEmbedding(n_features=32, categorical=["sex"], engine=engine).fit(folder, **COUNTS)
    assert facts(model.encoder_) == facts(fitted.encoder_)
    assert model.bandwidth_ == fitted.bandwidth_
    options = {"where": "age >= 30", "subgroups": {"women": "sex == 2"}}
    found, expected = model.transform(folder, **options), fitted.transform(folder, **options)
    close(found, expected)
    assert same(found, model.transform(folder, **options))
    if engine != "local":
        everybody = expected.select("subgroup == 'all'")
        (said,) = found.checked
        assert f"{everybody.n_rows.sum():,} people of weight {everybody.weight.sum():.12g} in 12 piece(s)" in said


def test_a_frame_in_memory_is_cut_for_the_workers(fitted, here, monkeypatch):
    monkeypatch.setattr(engines, "FRAME_ROWS", 1000)
    close(on(fitted, here).transform(WORLD.people), fitted.transform(WORLD.people))


def test_a_piece_that_nobody_matches_adds_nothing(fitted, files, here):
    empty = pq.read_table(files / "part-2.parquet").slice(0, 0)
    pq.write_table(empty, files / "part-2.parquet")
    pq.write_table(empty, files / "part-5.parquet")
    close(on(fitted, here).transform(files, where="age > 40"), fitted.transform(files, where="age > 40"))


def test_dataframes_of_spark_are_pieces_by_partition(fitted, folder, session):
    people = session.read.parquet(str(folder))
    model = MeanEmbedding(n_features=32, categorical=["sex"], engine=session).fit(people, **COUNTS)
    assert facts(model.encoder_) == facts(fitted.encoder_)
    close(model.transform(people), fitted.transform(folder))
    with pytest.raises(InputError, match="engine="):
        fitted.transform(people)


def test_the_sample_is_the_same_though_no_piece_alone_would_have_held_it(monkeypatch):
    def piece(i):
        own, shared = [f"own {i} {j}" for j in range(400)], [f"shared {j}" for j in range(100)]
        return pa.record_batch({"kind": own + shared}), np.repeat([2.0, 1.0], [400, 100])

    def sketch():
        return Sketch({"kind": True}, 5, 0)

    whole, parts = sketch(), []
    for i in range(12):
        whole.add(*piece(i))
    monkeypatch.setattr("crosslevel.data.sketch.SLACK", -8)  # pieces hold too few rows
    for i in range(12):
        parts.append(sketch())
        parts[-1].add(*piece(i))
    monkeypatch.undo()
    merged = sketch()
    for part in parts:
        merged.merge(pickle.loads(pickle.dumps(part)))
    missing = merged.missing()
    assert len(missing), "every row was held; fetching is not tested"
    found = [Fetching({"kind": True}, 0, missing)([piece(i)[0]], i) for i in range(12)]
    merged.take(functools.reduce(lambda one, two: one.merge(two), found))
    assert not len(merged.missing())
    assert merged.finish().sample.equals(whole.finish().sample)
    assert merged.finish().kinds.equals(whole.finish().kinds)


def estimated(folder, engine):
    model = EcologicalInference(categorical=["sex"], hyperparameters=SCALES, engine=engine)
    model.fit(folder, WORLD.places, **COUNTS, **TOTALS, columns=["age", "sex", "race"])
    return model.estimate(by="sex", n_draws=50)


def test_ecological_inference_gives_the_same_estimates(folder, session):
    expected, found = estimated(folder, "local"), estimated(folder, session)
    for name in ("estimate", "std_error", "conf_low", "conf_high"):
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-6)


def test_clusters_of_people_are_those_of_the_local_pass(folder, elsewhere):
    stream = open_batches(folder)
    learned = learn_people(stream, by=["region"], columns=["age", "sex"], weight="weight", categorical=["sex"])
    bins = learn_bins(learned.encoder, learned.encoded_sample(), 6)
    keys = sorted(WORLD.places["region"].to_pylist())[3:]
    asked = {"place": "region", "keys": keys, "weight": "weight", "cluster": "race"}
    here = count_people(stream, bins, **asked)
    there = count_people(stream, bins, **asked, engine=find_cluster(elsewhere))
    assert (there.codes == here.codes).all()
    assert there.elsewhere.keys() == here.elsewhere.keys()
    assert len(there.elsewhere) == 3
    np.testing.assert_allclose(there.pairs.weight, here.pairs.weight, rtol=1e-12)
    assert (there.clusters.cluster == here.clusters.cluster).all()


# ---- faults


def test_a_vanished_file_is_named_and_the_rest_is_kept(fitted, files, tmp_path, engine):
    model, people = on(fitted, engine), open_batches(files)
    state, gone = tmp_path / "state", files / "part-3.parquet"
    whole = model.transform(people)

    def vanish(*_):
        if gone.exists():
            shutil.move(gone, tmp_path / "elsewhere")

    if engine != "local":  # several pieces are under way before the first is done
        vanish()
    with pytest.raises(FileError):
        model.transform(people, checkpoint=state, checkpoint_every=0, progress=vanish)
    assert state.exists()
    shutil.move(tmp_path / "elsewhere", gone)
    done = []
    assert same(model.transform(people, checkpoint=state, progress=lambda rows, _: done.append(rows)), whole)
    assert not state.exists()
    half = whole.n_rows.sum() // 12
    assert done[0] > (6 if engine == "local" else 10) * half  # what was done is not done again


def test_a_damaged_file_is_named_and_may_be_replaced(fitted, files, tmp_path, elsewhere):
    model, people = on(fitted, elsewhere), open_batches(files)
    state, path = tmp_path / "state", files / "part-1.parquet"
    good = path.read_bytes()
    whole = model.transform(people)
    path.write_bytes(good[:4] + bytes(len(good) // 2) + good[4 + len(good) // 2 :])
    with pytest.raises(FileError):
        model.transform(people, checkpoint=state, checkpoint_every=0)
    path.write_bytes(good)
    os.utime(path, ns=(0, 0))
    assert same(model.transform(open_batches(files), checkpoint=state), whole)


def test_a_checkpoint_is_refused_where_a_counted_file_has_changed(fitted, files, tmp_path, elsewhere):
    model, state = on(fitted, elsewhere), tmp_path / "state"

    def stop(rows, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.transform(files, checkpoint=state, progress=stop)
    for path in files.iterdir():
        os.utime(path, ns=(0, 0))
    with pytest.raises(InputError):
        model.transform(files, checkpoint=state)


def test_an_interrupted_pass_resumes_with_the_same(fitted, folder, tmp_path, here):
    model, calls = on(fitted, here), []
    whole = model.transform(folder)

    def stop(rows, total):
        calls.append(rows)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.transform(folder, checkpoint=tmp_path / "state", progress=stop)
    calls.clear()
    calls.append(0)
    assert same(model.transform(folder, checkpoint=tmp_path / "state", progress=lambda n, _: calls.append(n)), whole)
    assert calls[1] > whole.n_rows.sum() * 2 // 12


def deadly(files, tmp_path, deed):
    """Open people of whom piece 5 does what it is told when it is read for the first time; a file remembers."""
    from crosslevel_deadly import Deadly

    sources = list(open_batches(files).sources)
    sources[2] = Deadly(sources[2], 1, tmp_path / "marker", deed)
    return Batches(sources)


def test_a_killed_worker_is_recovered(fitted, folder, tmp_path, session):
    found = on(fitted, session).transform(deadly(folder, tmp_path, "die"))
    assert (tmp_path / "marker").exists(), "nobody was killed"
    close(found, fitted.transform(folder))


def test_a_piece_that_always_runs_out_of_memory_is_named_and_the_rest_is_kept(fitted, folder, tmp_path, elsewhere):
    people = deadly(folder, tmp_path, "always fail")
    with pytest.raises(EngineError):
        on(fitted, elsewhere).transform(people, checkpoint=tmp_path / "state", checkpoint_every=0)


# ---- reruns count once


class Total:
    """A state that counts."""

    def __init__(self, n):
        self.n = n

    def merge(self, other):
        self.n += other.n
        return self


def test_a_group_that_was_computed_in_part_is_finished_from_its_pieces():
    ledger = Ledger(200)
    assert ledger.groups[1] == (3, 4, 5)
    ledger.put(Node((4,), 1, 1.0, Total(1)))
    assert ledger.todo()[:4] == [(0, 1, 2), (3,), (5,), (6, 7, 8)]
    ledger.put(Node((3, 4, 5), 3, 3.0, Total(3)))  # a rerun of the whole group
    for group in ledger.todo():
        ledger.put(Node(group, len(group), float(len(group)), Total(len(group))))
    assert (ledger.node.state.n, ledger.node.rows) == (200, 200)


def test_pieces_merged_on_the_workers_give_the_same_and_name_who_failed(
    fitted, files, tmp_path, elsewhere, monkeypatch
):
    monkeypatch.setattr(engines, "FEW", 4)  # groups of three pieces
    model, people = on(fitted, elsewhere), open_batches(files)
    whole = model.transform(people)
    close(whole, fitted.transform(files))
    shutil.move(files / "part-3.parquet", tmp_path / "elsewhere")
    with pytest.raises(FileError):
        model.transform(people, checkpoint=tmp_path / "state", checkpoint_every=0)
    shutil.move(tmp_path / "elsewhere", files / "part-3.parquet")
    assert same(model.transform(people, checkpoint=tmp_path / "state"), whole)


# ---- who may compute


def test_workers_of_another_version_are_refused_before_the_first_row(fitted, folder, session, monkeypatch):
    monkeypatch.setattr(engines, "versions", lambda: {"python": "3.11", "crosslevel": "99.0"})
    reads = []
    monkeypatch.setattr(engines, "run_piece", reads.append)
    with pytest.raises(EngineError):
        on(fitted, session).transform(folder)
    with pytest.raises(EngineError):
        MeanEmbedding(n_features=8, engine=session).fit(folder, **COUNTS)
    assert not reads


def test_a_model_on_an_engine_is_cloned_and_saved(fitted, folder, elsewhere, tmp_path):
    model = on(fitted, elsewhere)
    assert clone(model).engine is elsewhere
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").engine == "local"


def test_weights_that_do_not_add_up_are_refused(fitted, folder, elsewhere, monkeypatch):
    put = Ledger.put

    def twice(self, node):
        put(self, node)
        if node.pieces == (0,):
            self.node.state.merge(node.state.copy())

    monkeypatch.setattr(Ledger, "put", twice)
    with pytest.raises(EngineError):
        on(fitted, elsewhere).transform(folder)
