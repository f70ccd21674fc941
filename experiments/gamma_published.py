"""The published numbers of the gamma experiments: Table 1 of Law et al. (2018), and the scores of its committed runs by seed."""

from __future__ import annotations

TABLE_1 = {
    "optimum": (0.170, 0.401),
    "RBF network": (0.235, None),
    "freq-shrinkage": (0.232, None),
    "shrinkage": (0.237, 0.703),
    "shrinkageC": (0.236, 0.700),
    "BLR": (0.228, 0.681),
    "BDR": (0.227, 0.683),
}
"""Method -> mean squared error and negative log likelihood, means over ten draws."""

FIXED = {
    "RBF network": [0.2415, 0.2231, 0.2537, 0.2253, 0.2232, 0.2322, 0.2177, 0.2601, 0.2403, 0.2375],
    "shrinkage": [0.2428, 0.2260, 0.2565, 0.2223, 0.2269, 0.2331, 0.2170, 0.2606, 0.2405, 0.2405],
    "shrinkageC": [0.2444, 0.2245, 0.2538, 0.2238, 0.2250, 0.2364, 0.2152, 0.2548, 0.2456, 0.2389],
    "BLR": [0.2356, 0.2180, 0.2466, 0.2146, 0.2220, 0.2261, 0.2140, 0.2472, 0.2282, 0.2285],
}
"""Mean squared errors of the committed fixed-size runs, seeds 23 to 32."""
FIXED_NLL = {
    "shrinkage": [0.7179, 0.6768, 0.7387, 0.6677, 0.6805, 0.6920, 0.6947, 0.7500, 0.7078, 0.7065],
    "shrinkageC": [0.7194, 0.6729, 0.7451, 0.6738, 0.6825, 0.6986, 0.6509, 0.7361, 0.7173, 0.7068],
    "BLR": [0.6964, 0.6574, 0.7198, 0.6504, 0.6675, 0.6755, 0.6509, 0.7272, 0.6806, 0.6821],
}

VARYING = {
    0: {
        "optimum": (0.1389, -0.117),
        "BLR": (0.2384, 0.664),
        "shrinkage": (0.1794, 0.212),
        "shrinkageC": (0.2250, 0.230),
        "BDR": (0.1788, 0.211),
    },
    10: {
        "optimum": (0.2077, 0.045),
        "BLR": (0.4563, 0.984),
        "shrinkage": (0.3146, 0.436),
        "shrinkageC": (0.4865, 0.494),
        "BDR": (0.2815, 0.415),
    },
    25: {
        "optimum": (0.3505, 0.372),
        "BLR": (0.6130, 1.162),
        "shrinkage": (0.4651, 0.738),
        "shrinkageC": (0.5429, 0.783),
        "BDR": (0.4300, 0.708),
    },
    40: {
        "optimum": (0.4465, 0.627),
        "BLR": (0.6900, 1.234),
        "shrinkage": (0.5626, 0.947),
        "shrinkageC": (0.5215, 0.974),
        "BDR": (0.5322, 0.922),
    },
    50: {
        "optimum": (0.6025, 0.888),
        "BLR": (0.8000, 1.304),
        "shrinkage": (0.7250, 1.179),
        "shrinkageC": (0.7248, 1.187),
        "BDR": (0.6881, 1.148),
    },
}
"""Percentage of bags of five -> method -> error and negative log likelihood of the committed runs, seed 23."""
