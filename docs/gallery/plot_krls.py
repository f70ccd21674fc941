"""
Estimate for whom a treatment works, with no functional form
============================================================

A treatment whose effect grows with age, and an outcome that is curved in age: no linear model has either. KRLS fits a
smooth function of all covariates and averages its effects, over everybody or within groups.
"""

import numpy as np

import crosslevel as cl

rng = np.random.default_rng(0)
n = 400
people = {
    "age": rng.integers(18, 85, n),
    "letter": rng.integers(0, 2, n),
    "past_votes": rng.binomial(4, 0.5, n),
}
age, letter, past = people.values()
mean = np.sin((age - 18) / 25) + 0.02 * (age - 50) * letter + 0.25 * past
y = mean + rng.normal(0, 0.5, n)

model = cl.KRLS().fit(people, y)
print(model.summary())

# %%
# The truth for the letter is the average of 0.02 (age - 50):
print(f"{np.mean(0.02 * (age - 50)):.3f}")

# %%
# Groups, and the differences between them.
groups = {"young": "age < 40", "middle": "age >= 40 and age < 65", "old": "age >= 65"}
print(model.effects(by=groups).select(term="letter").summary())
model.effects(by=groups).select(term="letter").plot()

# %%
# The effect at every row against age: the band holds 95 % on average over the curve.
model.plot_effect("letter", along="age")

# %%
# How each effect is distributed over the people, and how it varies with covariates.
model.plot_effects()
print(model.effects(along=["age", "past_votes"]).select(term="letter").summary())
