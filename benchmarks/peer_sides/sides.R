# Peers in R, run by benchmarks/peers.py: Rscript sides.R SIDE FOLDER REPEATS
#
# FOLDER holds the arrays of a world, a CSV file each without a header. The last line printed is JSON: processor seconds of every repeat,
# peak memory of the process in MiB, version, estimate, and where the package has them low and high of 95 % intervals.

given <- commandArgs(TRUE)
array_of <- function(name) {
  found <- read.csv(file.path(given[2], paste0(name, ".csv")), header = FALSE, stringsAsFactors = FALSE)
  if (ncol(found) == 1) found[[1]] else as.matrix(found)
}
quietly <- function(expression) {
  suppressMessages(suppressWarnings(capture.output(found <- eval(expression, parent.frame()))))
  found
}
of_draws <- function(draws) { # a row per draw, a column per share
  limits <- apply(draws, 2, quantile, c(0.025, 0.975), names = FALSE)
  list(estimate = colMeans(draws), low = limits[1, ], high = limits[2, ])
}

# Rosen, Jiang, King and Tanner by chains, after the package's own tuning; the draws are of the counts of the whole area
peer_eipack <- function() {
  X <- array_of("groups"); T <- array_of("outcomes")
  keep <- rowSums(X) > 0
  units <- data.frame(X[keep, ], T[keep, ])
  names(units) <- c(paste0("g", seq_len(ncol(X))), paste0("o", seq_len(ncol(T))))
  model <- as.formula(sprintf("cbind(%s) ~ cbind(%s)", paste(names(units)[-seq_len(ncol(X))], collapse = ","),
                              paste(names(units)[seq_len(ncol(X))], collapse = ",")))
  environment(model) <- environment()
  tuned <- quietly(quote(eiPack::tuneMD(model, data = units, ntunes = 5, totaldraws = 2000)))
  found <- quietly(quote(eiPack::ei.MD.bayes(model, data = units, tune.list = tuned, sample = 1000, thin = 20, burnin = 20000)))
  cells <- as.matrix(found$draws$Cell.counts)
  wanted <- as.vector(t(outer(seq_len(ncol(X)), seq_len(ncol(T)), function(r, c) sprintf("ccount.g%d.o%d", r, c))))
  cells <- cells[, wanted]
  group <- rep(seq_len(ncol(X)), each = ncol(T))
  shares <- sapply(seq_along(group), function(k) cells[, k] / rowSums(cells[, group == group[k], drop = FALSE]))
  c(of_draws(shares), effective = round(min(coda::effectiveSize(cells))))
}

# King's model; simulated rates of the units are weighted to those of both groups
peer_ei <- function() {
  X <- array_of("groups"); T <- array_of("outcomes")
  n <- rowSums(X)
  units <- data.frame(x = X[, 1] / n, t = T[, 1] / n, n = n)
  found <- quietly(quote(ei::ei(t ~ x, total = "n", data = units)))
  first <- colSums(found$betabs * X[, 1]) / sum(X[, 1])
  second <- colSums(found$betaws * X[, 2]) / sum(X[, 2])
  of_draws(cbind(first, 1 - first, second, 1 - second))
}

# mice has no means of groups: it is given the places as further rows, and answers are pooled by Rubin's rules
peer_mice <- function() {
  age <- array_of("age"); school <- array_of("school"); place <- array_of("place"); share <- array_of("share")
  rows <- data.frame(age = c(tapply(age, place, mean), age), school = c(tapply(school, place, mean), school),
                     ill = c(share, rep(NA, length(age))))
  found <- quietly(quote(mice::mice(rows, m = 20, seed = 0, printFlag = FALSE)))
  filled <- sapply(1:20, function(k) mice::complete(found, k)$ill[-seq_along(share)])
  bands <- sapply(0:5, function(a) {
    each <- filled[age == a, , drop = FALSE]
    pooled <- mice::pool.scalar(colMeans(each), apply(each, 2, var) / nrow(each), n = nrow(each))
    c(pooled$qbar, pooled$qbar + c(-1, 1) * qt(0.975, pooled$df) * sqrt(pooled$t))
  })
  list(estimate = bands[1, ], low = bands[2, ], high = bands[3, ])
}

# respondents raked to the composition of the people, and to the votes of every state
peer_survey <- function() {
  columns <- c("age_group", "race", "education", "sex")
  asked <- data.frame(sapply(c(columns, "state"), function(c) factor(array_of(paste0("asked_", c))), simplify = FALSE), y = array_of("asked_y"))
  people <- data.frame(sapply(columns, function(c) factor(array_of(paste0("people_", c)), levels(asked[[c]])), simplify = FALSE))
  state <- factor(array_of("place_state"), levels(asked$state)); votes <- array_of("votes"); dem <- array_of("dem")
  whole <- sum(votes)
  margins <- lapply(columns, function(c) {
    counted <- xtabs(array_of("people_weight") ~ people[[c]])
    setNames(data.frame(names(counted), whole * as.vector(counted) / sum(counted)), c(c, "Freq"))
  })
  by_state <- rbind(data.frame(state = levels(state), y = 1, Freq = as.vector(tapply(dem, state, sum))),
                    data.frame(state = levels(state), y = 0, Freq = as.vector(tapply(votes - dem, state, sum))))
  asked$cast <- whole / nrow(asked)
  design <- survey::svydesign(~1, weights = ~cast, data = asked)
  raked <- survey::rake(design, c(lapply(columns, function(c) as.formula(paste0("~", c))), list(~state + y)), c(margins, list(by_state)),
                        control = list(maxit = 50, epsilon = 1e-6 * whole))
  found <- do.call(rbind, lapply(columns, function(c) {
    by <- survey::svyby(~y, as.formula(paste0("~", c)), raked, survey::svymean)
    by <- by[order(as.character(by[[1]])), ]
    data.frame(estimate = by$y, se = by$se)
  }))
  list(estimate = found$estimate, low = found$estimate - 1.96 * found$se, high = found$estimate + 1.96 * found$se)
}

packages <- c(peer_eipack = "eiPack", peer_ei = "ei", peer_mice = "mice", peer_survey = "survey")
set.seed(0)
seconds <- c()
for (k in seq_len(as.integer(given[3]))) {
  begun <- sum(proc.time()[1:2])
  answer <- get(given[1])()
  seconds <- c(seconds, sum(proc.time()[1:2]) - begun)
}
peak <- grep("VmHWM", readLines("/proc/self/status"), value = TRUE)
made <- c(list(seconds = seconds, memory = as.numeric(gsub("[^0-9]", "", peak)) / 1024), answer)
listed <- sapply(names(made), function(n) sprintf('"%s": [%s]', n, paste(sprintf("%.10g", made[[n]]), collapse = ", ")))
cat("\n{", paste(listed, collapse = ", "), sprintf(', "version": "%s"', packageVersion(packages[[given[1]]])), "}\n", sep = "")
