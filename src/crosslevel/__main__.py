"""``python -m crosslevel``."""

from crosslevel.cli import main

if __name__ == "__main__":
    main()
