"""Regions: intervals, boxes, polygons, simplices, points and weighted sums of these; `crosslevel.binned` exports them."""
