"""Mathematics on arrays. Nothing here knows people, places or tables."""
