"""How does y respond to each x, with no functional form assumed?"""
