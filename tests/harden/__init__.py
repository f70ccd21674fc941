"""The harness behind ``make harden``: each module is a door, knocked on thousands of times."""
