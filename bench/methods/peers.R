# Peers in R: Rscript peers.R FUNCTION FOLDER asks one function every case of a folder.
#
# A case is a folder N with a CSV file (no header) for each array. Written are N.answer.csv (a column of estimates, and where the method
# has them of lower and upper limits of 95 % intervals), N.why where there is no answer, and run.json with seconds and peak memory.

case_folder <- ""
array_of <- function(name) {
  found <- read.csv(file.path(case_folder, paste0(name, ".csv")), header = FALSE, stringsAsFactors = FALSE)
  if (ncol(found) == 1) found[[1]] else as.matrix(found)
}
quietly <- function(expression) {
  suppressMessages(suppressWarnings(capture.output(found <- eval(expression, parent.frame()))))
  found
}
of_draws <- function(draws) { # a row per draw, a column per answer
  limits <- apply(draws, 2, quantile, c(0.025, 0.975), names = FALSE)
  cbind(colMeans(draws), limits[1, ], limits[2, ])
}
two_by_two <- function() {
  X <- array_of("groups"); T <- array_of("outcomes")
  if (ncol(X) != 2 || ncol(T) != 2) stop("answers tables of two by two")
  n <- rowSums(X); keep <- n > 0
  data.frame(x = X[, 1] / n, t = T[, 1] / n, n = n, first = X[, 1], second = X[, 2])[keep, ]
}

# Rosen, Jiang, King and Tanner by chains, after the package's own tuning; the draws are of the counts of the whole area
eipack <- function() {
  X <- array_of("groups"); T <- array_of("outcomes")
  keep <- rowSums(X) > 0
  units <- data.frame(round(X[keep, ]), round(T[keep, ]))
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
  of_draws(sapply(seq_along(group), function(k) cells[, k] / rowSums(cells[, group == group[k], drop = FALSE])))
}
# King's model; simulated rates of the units are weighted to those of both groups
king <- function() {
  units <- two_by_two()
  found <- quietly(quote(ei::ei(t ~ x, total = "n", data = units)))
  first <- colSums(found$betabs * units$first) / sum(units$first)
  second <- colSums(found$betaws * units$second) / sum(units$second)
  of_draws(cbind(first, 1 - first, second, 1 - second))
}
# Imai, Lu and Strauss, parametric
eco <- function() {
  units <- two_by_two()
  found <- quietly(quote(eco::eco(t ~ x, data = units, N = n, n.draws = 20000, burnin = 5000, thin = 5)))
  first <- colSums(t(found$W[, 1, ]) * units$first) / sum(units$first)
  second <- colSums(t(found$W[, 2, ]) * units$second) / sum(units$second)
  of_draws(cbind(first, 1 - first, second, 1 - second))
}
fastei <- function() {
  X <- array_of("groups"); T <- array_of("outcomes")
  found <- quietly(quote(fastei::run_em(X = round(T), W = round(X))))
  matrix(as.vector(t(found$prob)), ncol = 1)
}
lphom <- function() {
  found <- quietly(quote(lphom::nslphom(array_of("groups"), array_of("outcomes"))))
  shares <- as.matrix(found$VTM)
  matrix(as.vector(t(shares / rowSums(shares))), ncol = 1)
}
# mice has no means of groups: it is given the places as further rows; intervals by Rubin's rules
mice_means <- function() {
  person <- array_of("X"); place <- array_of("place"); mean <- array_of("mean"); asked <- array_of("asked"); cells <- array_of("cells")
  of_place <- apply(person, 2, function(column) tapply(column, place, base::mean))
  rows <- data.frame(rbind(of_place, person), hidden = c(mean, rep(NA, nrow(person))))
  found <- quietly(quote(mice::mice(rows, m = 20, seed = 0, printFlag = FALSE)))
  filled <- sapply(1:20, function(k) mice::complete(found, k)$hidden[-seq_along(mean)])
  pooled <- function(member) {
    each <- filled[member, , drop = FALSE]
    of_all <- mice::pool.scalar(colMeans(each), apply(each, 2, var) / nrow(each), n = nrow(each))
    of_all$qbar + c(0, -1, 1) * qt(0.975, of_all$df) * sqrt(of_all$t)
  }
  rbind(t(apply(asked, 1, function(q) pooled(person[, q[1] + 1] == q[2]))),
        t(apply(cells, 1, function(cell) pooled(rowSums(person == matrix(cell, nrow(person), ncol(person), byrow = TRUE)) == ncol(person)))))
}
# respondents raked to the composition of the people, and to the totals of all places
survey_raked <- function() {
  columns <- unique(array_of("ask_column"))
  label <- function(prefix, c) as.character(array_of(paste0(prefix, c)))
  asked <- data.frame(sapply(columns, function(c) label("asked_", c), simplify = FALSE), y = array_of("asked_yes"))
  weight <- array_of("weight"); whole <- sum(weight)
  margins <- lapply(columns, function(c) {
    counted <- tapply(weight, label("group_", c), sum)
    counted <- counted[names(counted) %in% asked[[c]]]
    setNames(data.frame(names(counted), whole * as.vector(counted) / sum(counted)), c(c, "Freq"))
  })
  of_place <- tapply(weight, factor(array_of("place"), seq_along(array_of("place_all")) - 1), sum, default = 0)
  yes <- sum(of_place * array_of("place_yes") / array_of("place_all"))
  totals <- data.frame(y = 0:1, Freq = c(whole - yes, yes))
  asked$cast <- whole / nrow(asked)
  raked <- survey::rake(survey::svydesign(~1, weights = ~cast, data = asked), lapply(c(columns, "y"), function(c) as.formula(paste0("~", c))),
                        c(margins, list(totals)), control = list(maxit = 50, epsilon = 1e-6 * whole))
  by <- sapply(columns, function(c) survey::svyby(~y, as.formula(paste0("~", c)), raked, survey::svymean), simplify = FALSE)
  t(mapply(function(c, value) {
    row <- by[[c]][as.character(by[[c]][[1]]) == value, ]
    row$y + c(0, -1.96, 1.96) * row$se
  }, array_of("ask_column"), as.character(array_of("ask_value"))))
}
krls <- function() {
  found <- quietly(quote(KRLS::krls(X = array_of("X"), y = array_of("y"), print.level = 0)))
  average <- as.vector(found$avgderivatives); error <- sqrt(as.vector(found$var.avgderivatives))
  cbind(average, average - 1.96 * error, average + 1.96 * error)
}

# ages behind bins by the penalized composite link model
ungroup <- function() {
  edges <- array_of("edges")
  found <- quietly(quote(ungroup::pclm(x = edges[-length(edges)], y = array_of("y"), nlast = edges[length(edges)] - edges[length(edges) - 1])))
  cbind(found$fitted, found$ci$lower, found$ci$upper)
}

given <- commandArgs(TRUE)
seconds <- c()
for (case in list.dirs(given[2], full.names = FALSE, recursive = FALSE)) {
  case_folder <- file.path(given[2], case)
  set.seed(0)
  begun <- sum(proc.time()[1:2])
  tryCatch(
    write.table(get(given[1])(), file.path(given[2], paste0(case, ".answer.csv")), sep = ",", row.names = FALSE, col.names = FALSE),
    error = function(e) writeLines(substr(conditionMessage(e), 1, 300), file.path(given[2], paste0(case, ".why")))
  )
  seconds <- c(seconds, sum(proc.time()[1:2]) - begun)
}
peak <- grep("VmHWM", readLines("/proc/self/status"), value = TRUE)
writeLines(sprintf('{"seconds": [%s], "memory": %.1f}', paste(sprintf("%.4f", seconds), collapse = ", "), as.numeric(gsub("[^0-9]", "", peak)) / 1024),
           file.path(given[2], "run.json"))
