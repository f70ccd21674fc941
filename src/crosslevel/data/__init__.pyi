"""Public names of this package and where each is defined; :mod:`crosslevel.lazy` loads them from here."""

from crosslevel.data import readers as readers
from crosslevel.data import regions as regions
from crosslevel.data import simulate as simulate
