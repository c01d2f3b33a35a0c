#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""SciPy's least_squares on the starts of bench_fit; bench/scipy_ratio.sh runs it.

    scipy_fit.py TABLE STARTS OURS

STARTS is what `bench_fit --starts TABLE` prints, OURS the JSON of `bench_fit TABLE mosaic 1`.
Same law (mosaic), same residuals (ln L^ - ln L), same parameters (logarithms of the exponents and
of each term at the centre of the runs), analytic Jacobian, MINPACK's Levenberg-Marquardt with the
tolerances of fit.h.  Seeding is in our time and not in SciPy's.  One thread each, best of three.
"""
import csv
import json
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import scipy  # noqa: E402
from scipy.optimize import least_squares  # noqa: E402

REPEATS = 3
TOLERANCE = 1e-10
MAX_CALLS = 1000
SAME_MINIMUM = 1e-6
AMPLITUDES = ["a", "b", "c", "j", "e"]
EXPONENTS = ["alpha", "beta", "lambda", "delta", "gamma", "eta"]
# Of each exponent: its term, its variable.
TERM = [0, 1, 2, 3, 3, 3]
VARIABLE = ["n", "d", "u", "u", "n", "g"]


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def main(table, starts, ours):
    runs = read(table)
    total = np.array([float(r["n_total"]) for r in runs])
    columns = {
        "n": np.log(total),
        "d": np.log([float(r["tokens"]) for r in runs]),
        "u": np.log(np.array([float(r["n_active"]) for r in runs]) / total),
        "g": np.log([float(r["granularity"]) for r in runs]),
    }
    mean = {name: x.mean() for name, x in columns.items()}
    x = np.array([columns[v] - mean[v] for v in VARIABLE])
    log_loss = np.log([float(r["loss"]) for r in runs])

    def terms(p):
        t = np.repeat(p[:5, None], len(log_loss), axis=1)
        step = np.exp(p[5:, None]) * x
        np.subtract.at(t, TERM, step)
        t = np.exp(t)
        return t, step, t.sum(axis=0)

    def residual(p):
        return np.log(terms(p)[2]) - log_loss

    def jacobian(p):
        t, step, loss = terms(p)
        return np.concatenate([t, -t[TERM] * step]).T / loss[:, None]

    def centred(row):
        exponent = np.array([float(row[name]) for name in EXPONENTS])
        log_term = np.log([float(row[name]) for name in AMPLITUDES])
        for k, v, power in zip(TERM, VARIABLE, exponent):
            log_term[k] -= power * mean[v]
        return np.concatenate([log_term, np.log(exponent)])

    points = [centred(row) for row in read(starts)]
    seconds, fits = float("inf"), []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        with np.errstate(all="ignore"):
            fits = [least_squares(residual, p, jacobian, method="lm", xtol=TOLERANCE,
                                  ftol=TOLERANCE, gtol=TOLERANCE, max_nfev=MAX_CALLS)
                    for p in points]
        seconds = min(seconds, time.perf_counter() - begun)
    ssr = [2 * fit.cost for fit in fits]
    with open(ours) as file:
        own = json.load(file)
    print(json.dumps({
        "bench": "scipy_ratio", "scipy": scipy.__version__, "table": table, "runs": len(runs),
        "starts": len(points), "jacobian": "analytic", "method": "lm",
        "scipy_s": round(seconds, 4), "scipy_calls": sum(int(fit.nfev) for fit in fits),
        "scipy_reached": sum(bool(s <= min(ssr) * (1 + SAME_MINIMUM)) for s in ssr),
        "scipy_ssr": float("%.10g" % min(ssr)), "fit_s": own["fit_s"],
        "reached": own["reached"], "ssr": own["ssr"],
        "scipy_over_fit": round(seconds / own["fit_s"], 2)}))


main(*sys.argv[1:4])
