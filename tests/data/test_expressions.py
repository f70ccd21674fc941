"""Conditions: what is let through means what it says, and nothing else is run, whoever wrote it."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from crosslevel.data.expressions import read_expression
from crosslevel.data.people import People
from crosslevel.data.sql import is_value, mask_of
from crosslevel.errors import InputError

SEX, AGE = [1, 2, None, 2, 1], [20.0, 70.5, None, 40.0, 65.0]
RACE, OWNER = ["a", "it's", None, "b%", ""], [True, False, None, True, False]
TABLE = pa.table(
    {
        "sex": SEX,
        "age": AGE,
        "race": RACE,
        "owner": OWNER,
        "a b": [1, 2, 3, 4, 5],
        'the "old" town': ["x"] * 5,
        "born": pa.array([0, 1, None, 3, 4], pa.date32()),
    }
)

MEANING = {
    "sex = 2": lambda sex, age, race, owner: sex == 2,
    "SEX == 2 and age >= 65": lambda sex, age, race, owner: sex == 2 and age >= 65,
    "sex <> 2 or age < 30": lambda sex, age, race, owner: (
        (sex is not None and sex != 2) or (age is not None and age < 30)
    ),
    "not (sex = 2)": lambda sex, age, race, owner: sex is not None and sex != 2,
    "sex in (2, 3, null)": lambda sex, age, race, owner: sex == 2,
    "sex not in (2)": lambda sex, age, race, owner: sex == 1,
    "age between 40 and 65": lambda sex, age, race, owner: age is not None and 40 <= age <= 65,
    "age is null": lambda sex, age, race, owner: age is None,
    "age is not null and not owner": lambda sex, age, race, owner: owner is False,
    "owner": lambda sex, age, race, owner: owner is True,
    "owner is not true": lambda sex, age, race, owner: owner is not True,
    "owner = false": lambda sex, age, race, owner: owner is False,
    "race = 'it''s'": lambda sex, age, race, owner: race == "it's",
    "race like 'b%'": lambda sex, age, race, owner: race == "b%",
    "race ilike 'A'": lambda sex, age, race, owner: race == "a",
    "race = ''": lambda sex, age, race, owner: race == "",
    "race in ('a', 'x'';drop table people--')": lambda sex, age, race, owner: race == "a",
    "age / 2 > 20 and sex / 2 = 0.5": lambda sex, age, race, owner: sex == 1 and age > 40,
    "-age + 2 * 10 <= -20.5": lambda sex, age, race, owner: age is not None and -age + 20 <= -20.5,
    "sex % 2 = 1": lambda sex, age, race, owner: sex == 1,
    "sex / 0 = 1": lambda sex, age, race, owner: False,
    "case when sex = 1 then age else 0 end >= 65": lambda sex, age, race, owner: sex == 1 and age >= 65,
    "case race when 'a' then true end": lambda sex, age, race, owner: race == "a",
    '"a b" >= 1 and "the ""old"" town" = \'x\'': lambda sex, age, race, owner: True,
    "born > '1970-01-02'": lambda sex, age, race, owner: age in (40.0, 65.0),
    "(18 <= age) = owner": lambda sex, age, race, owner: owner is True,
    "true": lambda sex, age, race, owner: True,
    "sex = null": lambda sex, age, race, owner: False,
    "sex = 2 -- and age > 90": lambda sex, age, race, owner: sex == 2,
    "sex /* ' */ = 2;": lambda sex, age, race, owner: sex == 2,
    "sex = 1 or 'a' = 'a'": lambda sex, age, race, owner: True,
}


@pytest.mark.parametrize("text", MEANING)
def test_a_condition_means_what_it_says(text):
    expected = [bool(MEANING[text](*row)) for row in zip(SEX, AGE, RACE, OWNER, strict=True)]
    assert mask_of(TABLE, read_expression(text, "where", TABLE.schema)).tolist() == expected
    kept = People(TABLE, where=text).answer('select "a b" as i from people order by 1')["i"].to_pylist()
    assert kept == [i + 1 for i, held in enumerate(expected) if held]


@pytest.mark.parametrize("value", [1, 2.5, True, "it's", "", "b%", "'; drop table people; --", '"', "\\", "\n", "ä"])
def test_a_value_is_found_by_the_condition_for_it(value):
    table = pa.table({'the "odd" name': [value, None]})
    condition = read_expression(is_value('the "odd" name', value), "where", table.schema)
    assert mask_of(table, condition).tolist() == [True, False]
    assert condition.columns == ('the "odd" name',)


FUNCTIONS = """
read_csv('{0}')|read_text('{0}')|read_blob('{0}')|read_parquet('{0}')|glob('{0}')|getenv('HOME')
current_setting('memory_limit')|current_user|current_date|now()|random()|uuid()|version()
current_database()|getvariable('x')|nextval('x')|query('select 1')|query_table('people')
error('x')|sleep(1)|pg_sleep(1)|hash(sex)|unnest([1, 2])|list_transform([1], x -> x)
list_filter([1], lambda x: true)|columns(*)|columns('s.*')|sum(sex) over ()
row_number() over (order by sex)|count(*)|max(sex)|(select 1)|(select sex from people limit 1)
(from people)|(values (1))|sex::int|cast(sex as int)|try_cast(race as int)|$1|?|:a|@a
{{{{ a }}}}|[1]|{{'a': 1}}|array[1]|struct_pack(a := 1)|race[1]|race[1:2]|race.x|people.sex
stored.sex|main.people.sex|rowid|filename|file_row_number|crosslevel_row|abs(sex)
coalesce(sex, 1)|nullif(sex, 1)|greatest(sex, 1)|if(owner, 1, 2)|upper(race)|length(race)
concat(race)|regexp_replace(race, 'a', 'b')|trim(race)|substring(race from 1 for 1)
extract(year from born)|interval '1 day'|date '2020-01-01'|x'61'|e'a'|$$a$$|~sex|sex & 1
sex << 1|sex ** 2|sex ^ 2|sex // 2|sex, age|*|0x1"""
STATEMENTS = """
drop table people|drop table stored|delete from stored|update stored set sex = 1
insert into stored values (1)|create table x as select 1|copy stored to '{0}'
copy (select 1) to '{0}'|export database '{0}'|import database '{0}'|attach '{0}'|detach memory
install httpfs|load httpfs|pragma version|pragma database_list|set enable_external_access = true
reset all|call pragma_version()|select 1|from people|values (1)|describe people
with x as (select 1) select * from x|explain select 1|summarize people|use memory|begin
checkpoint|vacuum|alter table stored add column x int|show tables"""
CONDITIONS = """
exists (select 1)|not exists (select 1)|sex in (select 1)|sex = any (select 1)
sex > all (select 1)|sex in (from people)|sex in people|sex in ()|sex in unnest([1])
(sex, age) = (1, 20)|(sex, age) in ((1, 20))|sex is distinct from 1|race similar to 'a'
race ~ 'a'|race glob 'a'|race like 'a' escape 'b'|race collate nocase = 'a'
regexp_matches(race, 'a')|race is true|sex is 1|sex and 1|sex or owner|not sex|-owner
-race = 'a'|race + 1 = 2|born + 1 = born|born = 1|sex = 'a'|race = 1|owner = 1|race = "a"
race = `a`|[sex] = 1|sеx = 1|ѕex = 1|sex ＝ 1|sex = １|18 <= age <= 65|sex = 1 = true
sex = 2 limit 1|sex = 2 order by 1|sex = 2 group by 1|sex = 2 union select 1|sex = 2 having true
sex = 2 as x|sex = 2 qualify true|sex|1|'a'|race|age|sex =|= 1|sex = = 1|(sex = 1|sex = 1)
'unclosed|"unclosed|sex between 1 and 'a'|age between (select 1) and 2|sex = 2 \\g|nobody = 1
case when sex then true end|case when sex = 1 then 'a' else 1 end = 'a'
case sex when 'a' then true end|sex = 2 where true|owner xor true|sex === 2"""


def split(text):
    return [one for line in text.splitlines() for one in line.split("|") if one]


HOSTILE = [
    *split(CONDITIONS),
    *(f"{one} = 1" for one in split(FUNCTIONS)),
    *(f"sex = 2 and ({one}) is null" for one in split(FUNCTIONS)),
    *split(STATEMENTS),
    *(f"sex = 2; {one}" for one in split(STATEMENTS)),
    *(f"sex = 2); {one}; --" for one in split(STATEMENTS)),
    *("", " ", ";", "--", "race || 'b' = 'ab'"),
    "sex = 1\x00",
    "(" * 400 + "sex = 1" + ")" * 400,
    "not " * 3000 + "owner",
    "sex = 1" + " + 1" * 3000,
    "sex = 2" + " and sex = 2" * 3000,
    "race = '" + "a" * 30_000 + "'",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file that nobody may read, and the only one that may be there afterwards."""
    made = tmp_path_factory.mktemp("canary")
    (made / "canary.csv").write_text("sex\n1\n")
    return made


def test_nothing_else_is_run(folder):
    people, canary = People(TABLE), folder / "canary.csv"
    before = {p: (p.stat().st_mtime_ns, p.stat().st_atime_ns) for p in folder.iterdir()}
    let_through = []
    assert len(set(HOSTILE)) > 250
    for text in HOSTILE:
        text = text.replace("{0}", str(canary)).replace("{{", "{").replace("}}", "}")
        try:
            people.expression(text, "where")
        except InputError:
            continue
        let_through.append(text)
    assert let_through == []
    assert {p: (p.stat().st_mtime_ns, p.stat().st_atime_ns) for p in folder.iterdir()} == before
    assert people.answer('select * from people order by "a b"').to_pylist() == TABLE.to_pylist()


def test_pieces_put_together_at_random_are_refused_or_harmless(folder):
    """Whatever passes runs in a database that reads no file and writes nothing."""
    pieces = [
        *split(FUNCTIONS),
        *split(STATEMENTS),
        *split(CONDITIONS),
        *MEANING,
        ";",
        "'",
        '"',
        "(",
        ")",
        "--",
        "/*",
        "and",
        "or",
        "=",
    ]
    rng, before = random.Random(0), sorted(folder.iterdir())
    for _ in range(1500):
        text = " ".join(rng.choices(pieces, k=rng.randint(1, 5))).replace("{0}", str(folder / "canary.csv"))
        try:
            condition = read_expression(text, "where", TABLE.schema)
            kept = mask_of(TABLE, condition)
        except InputError:
            continue
        assert len(kept) == 5
        assert set(condition.columns) <= set(TABLE.column_names)
    assert sorted(folder.iterdir()) == before
    assert not list(Path.cwd().glob("people*"))


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('{0}')",
        "copy (select 1) to '{0}.out'",
        "attach '{0}.db'",
        "install httpfs",
        "set enable_external_access=true",
    ],
)
def test_a_database_reads_and_writes_no_other_file(folder, sql):
    """The second wall: even SQL that no condition may hold."""
    people = People(TABLE)
    with pytest.raises(InputError):
        people.table.answer(sql.format(folder / "canary.csv"))
    with pytest.raises(people.table.errors):
        people.table.connection.execute(sql.format(folder / "canary.csv"))
    assert [p.name for p in folder.iterdir()] == ["canary.csv"]
