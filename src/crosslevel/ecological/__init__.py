"""How did each subgroup behave in each place, when only totals by place are known?"""

from crosslevel.ecological.classical.baselines import bounds, goodman, neighbourhood
from crosslevel.ecological.classical.comparison import compare
from crosslevel.ecological.classical.em import rxc_em
from crosslevel.ecological.classical.homogeneous import homogeneous
from crosslevel.ecological.classical.linear_programme import lp
from crosslevel.ecological.classical.rxc import rxc
from crosslevel.ecological.classical.tables import UnitTables, group_counts, unit_tables

__all__ = [
    "UnitTables",
    "bounds",
    "compare",
    "goodman",
    "group_counts",
    "homogeneous",
    "lp",
    "neighbourhood",
    "rxc",
    "rxc_em",
    "unit_tables",
]
