"""How did each subgroup behave in each place, when only totals by place are known?"""

from crosslevel.ecological.classical import bounds, goodman, neighbourhood
from crosslevel.ecological.comparison import compare
from crosslevel.ecological.em import rxc_em
from crosslevel.ecological.homogeneous import homogeneous
from crosslevel.ecological.linear_programme import lp
from crosslevel.ecological.rxc import rxc
from crosslevel.ecological.tables import UnitTables, group_counts, unit_tables

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
