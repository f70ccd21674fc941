"""How did each subgroup behave in each place, when only totals by place are known?"""

from crosslevel.ecological.classical import bounds, goodman, neighbourhood
from crosslevel.ecological.tables import UnitTables, group_counts, unit_tables

__all__ = ["UnitTables", "bounds", "goodman", "group_counts", "neighbourhood", "unit_tables"]
