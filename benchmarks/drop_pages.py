"""The words of docs/benchmarks/drop.md."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

INTRODUCTION = """\
# How well the accuracy drop is estimated

Written by `python benchmarks/drop.py --write`, section by section where `--only` is given. A model is trained
on one domain and watched on another one, without labels there. How many points of accuracy has it lost? Ours
is agreement with a panel of heads trained on the labelled reference domains. Beside it stand the methods of
the paper *To Annotate or Not?* and those a specialist would try.

The tables take every window for a new domain: what they measure is `detectors.drop.DropEstimator`.
`leadline estimate`, `leadline evaluate` and the agent add one correction to it, for the share of a window that
is the source itself (`detectors.intervals.Home`). It matters in the rows *the source, N %*, and is not in these
figures. Nor is that the regressions of a fit also know the source's own rows, where nothing is lost.
"""

PROTOCOL = """
- **Data.** 20 domains of English sentiment (reviews, tweets, sentences, posts), 1,556 to 2,400 texts each,
  half of them positive; 380 shifts from one domain to another. Not the paper's data, which are 23 domains of
  reviews alone.
- **Models.** For each source a logistic head on the frozen all-MiniLM-L6-v2 encoder (int8), trained on the
  source's train and validation splits. Its features are the embeddings, so **PAD\\* is PAD here**, and CBPE
  and DoC, regressed, are CONF_CALIB and CONF but for a constant. RCA and RCA\\* always are.
- **Truth.** Drop = accuracy on the source's test split (400 to 641 texts) less accuracy on all texts of the
  target. Sampling alone moves the target's accuracy by about 0.9 points, one standard deviation. In the
  sections on windows the truth is that of the window's own labels.
- **Left out.** Whatever is fitted for a source and a target has seen neither a text nor a label of the
  target. The other 18 domains are labelled references. Panels know all their rows, and the source's.
- **Windows.** A method is given at most 2,000 texts of the target in random order, as much as the agent
  keeps.
- **Intervals** of 90 %. Those of the regressions are made from their left-out residuals with the same formula
  as ours: a quantile of their sizes, widened by Student's t for the number of domains.
- **Figures** are percentage points. MAE is the mean over sources, ± the sample standard deviation across
  them; the max of a source is the largest MAE of a source; the max of a shift the largest single error. Half
  widths are medians. *Used directly* means that a metric is taken for the drop, as its authors do; all else
  is regressed on.

Constants and formulas of ours were chosen on these 20 domains: what that is worth is under *The constants*.
"""

TEXTS: "Mapping[str, str]" = {
    "shifts": "",
    "backtest": """
The strict figures above leave the target out before anything is fitted, 20 times. A fit on a user's domains
takes a short cut: it leaves each domain out of the panel and of the regression, but the widths of its
intervals know it.
""",
    "classes": """
800 texts of the target with another ratio of the classes than the 1:1 of all domains: the change that says
nothing about how the texts look, and that reference domains cannot have prepared for. MAE in points.
""",
    "mixed": """
The target mixed with another domain (800 texts), or with the source's own test texts (400). Ten panels each
leave a pair of domains out: of both, nothing was seen. They learn from train and validation texts only, so
that the source's test texts are new to them; above, panels know all texts of their domains. MAE in points.
""",
    "sizes": """
Ours on fewer texts of the target, up to five windows of a size from each. The last row holds all that a
target has, up to 2,000.
""",
    "domains": """
The domains are cut at random into sets, five times. In a set of j + 1 each domain is the source once and the
others are its j references; all domains outside are targets. So every row but the last rests on 450 to 1,600
estimates; the last is the main table. In brackets the MAE of the source where it is largest.
""",
    "adversarial": """
The paper's tag `<source>` before every text of the source and `<target>` before every other one, references
included, encoded and trained again. To keep this short it is done on 800 texts of each domain as a source
(400 to train, 100 to validate, 300 to test) and 600 as a target, the same with and without tags; with so few,
sampling alone costs all methods about 1.5 points. The panel knows the source's texts with the source's tag.
Estimates are those of the short cut described under *What a fit says of itself*.
""",
    "constants": """
CHANGED is the chance that a window's classes differ from the domains' for a reason of their own, NEARNESS how
much more near domains count. Here they are chosen again for each target by the errors on the others:
on whole domains alone, or counted alike with those on other class ratios. MAE in points.
""",
}

CLOSING = """
- **Ours has the lowest error on whole domains**, whatever the number of reference domains, and about half of
  Mean's with all 18. By a bootstrap over the 20 targets it is 36 to 64 % of Mean's (95 %), so the half is not
  certain.
- **COT, regressed, comes near**: 2.38, and it has no shift as bad as ours' worst. Ours is ahead on 16 of 20
  targets, by 0.36 points on average, with -0.84 to +0.32 as the 95 % bootstrap interval of the difference.
  COT takes the classes of the target to be as frequent as the source's. All domains here are 1:1, so that is
  true; where it is not, COT is the worst of all (15 points at 1:9), and ours is not.
- **One target makes ours' worst errors**: fdu_books, with a mean error of 8.3 and the largest of 19.8. The
  panel tilts there, which is partly taken for a change of the classes. Without that target ours has 1.69, COT
  2.34 and Mean 4.07.
- **Where the classes do change, ours is off by 5 points and its intervals are too short**: they hold in 67 to
  81 % of the windows instead of 90. It is still the best of all. From unlabelled texts a tilt of the panel
  cannot be told from a change of the classes for certain.
- **The constants are a compromise**, not what does best on either: less CHANGED is better on whole domains
  (1.80), more on other class ratios (4.61). Chosen for each target by the other targets, the MAE is 2.06 if
  whole domains decide and 2.25 if both count, 49 and 54 % of Mean's.
- **The paper's metrics do little here.** A linear classifier tells nearly any two of these domains apart by
  their embeddings (PAD is 0.84 or more for 95 % of the pairs, 0.97 in the middle), so PAD has little left to
  say about the drop. Most of the paper's 23 domains are categories of one shop, and its models are trained
  whole.
- **Lines through far domains say nothing about near windows.** On windows that are mostly the source's own
  texts, the usual state of an agent, PAD and with it Ensemble extrapolate: Ensemble is off by 28 points on
  average. With 2 domains the lines and the ensemble are of no use. Ours needs no such line: its slope comes
  from all heads of the panel.
- **Used directly**, ATC, DoC and CBPE trust a confidence that stays high where accuracy falls: of a drop of
  9.7 points on average they see 4.5, 2.2 and 1.5. Where most of the window comes from the source, ATC is the
  best of all.
- **Tagged**, PAD is no better than Mean, as in the paper, and was hardly better before. Ours does not suffer;
  that it does better with tags than without rests on a few targets and is no claim.
"""
