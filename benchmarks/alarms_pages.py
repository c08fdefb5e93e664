"""The words of docs/benchmarks/alarms.md."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TITLES: "Mapping[str, str]" = {
    "quiet": "Months in which nothing changes",
    "splits": "Other calibrations",
    "changes": "Changes",
    "estimates": "What the estimates say of them",
}
INTRODUCTION = """\
# Alarms that deserve a page

Written by `python benchmarks/alarms.py --write`, section by section where `--only` is given. Ten models, each
with five slices, are watched by the agent's own decision engine. How often does it see a shift in a month in
which nothing changes? And when something does change: what is seen, what is paged, and how soon? ADWIN and KSWIN
(river) and a fixed threshold on the OOD ratio read the same items.
"""
PROTOCOL = """
- **Models.** Seven domains of sentiment and three of crisis tweets, each with a logistic head on the frozen
  all-MiniLM-L6-v2 encoder (int8) and a reference made by the product's own fit: nine detectors, 15 labelled
  domains beside the source (crisis: 3). The domains that come as changes are in no reference.
- **Traffic.** 4,320 panes of 10 minutes are a month. The slices of a model have 20, 35, 50, 65 and 80 items a
  pane on average, 50 in the mean, Poisson. Items are drawn with replacement from texts of the source that
  nothing was fitted or calibrated on: 564 to 840 a model (crisis: 6,000).
- **What repeating texts does.** p-values are calibrated on 242 to 360 texts (crisis: 600). A stream that
  repeats a few hundred others has a share of flagged items of its own, and keeps it for the whole month, in
  all slices. It strays from the source's by the sampling of both sets, by a fifth more than fresh texts of
  the source would. Which models are beyond what it allows for is said with the table.
- **Windows.** A window's sample is thinned until no text is in it twice, as in live traffic. Estimates are
  made only of slices that show a shift: without one they decide nothing. In quiet months for every pane, in
  the runs of changes every hour (`estimate.every: 1h`).
- **Changes.** In one slice of the five: 12 hours of the usual traffic, 18 hours of the change in 10, 25, 50
  or 100 % of it, 12 hours of the usual. Other domains, and the model's own texts in another style: without
  punctuation, with typos in every fourth longer word, cut to two thirds, with a signature under each.
  (Capitals are no change here: the encoder reads lower case.)
- **Harm** is by the labels, whatever was meant: *harmful* is more than `max_drop`, 5 points, lost in the
  whole of the slice's traffic, beside the model's accuracy on its usual traffic; *harmless* at most 1 point;
  *slight* between. So 10 % of a domain on which 20 points are lost are slight.
- **The budget** is one false alarm a month over ten agents: `false_alarms_per_month: 1`, `shared_by: 10`. It
  is held against *shift seen*; a page needs more. An estimate above 5 points whose interval is wider than 10
  is paged as *unknown*, like a window outside the domains.
- **The others** read the p-value of knn, the primary detector, item by item; each of their alarms is a page.
  ADWIN (delta 0.002) and KSWIN (alpha 0.005, windows of 100 and 30) by default, and tuned to the same budget
  on a month of usual traffic of its own: ADWIN's delta by trying, KSWIN's alpha by arithmetic (an alpha that
  all tests of a month together reach once), with longer windows. The threshold: more than 10 % of the items
  of the last hour with p <= 0.05; one tuned for all models; one for each. KSWIN makes a test an item and is
  slow: of quiet months it gets six hours, and after a change 1,000 items, more than it remembers.
- **Delays** are items of the slice from the change to the end of the pane in which it was told (KSWIN and
  ADWIN: to the item), median and 90 % quantile over the runs that had one.
"""
TEXTS: "Mapping[str, str]" = {
    "quiet": """
`python benchmarks/alarms.py --only quiet`. Ten models, five slices each, a month. Intervals are Poisson's, exact,
95 %. They take alarms to be independent; those of one model are not, so the number of models counts for more.
""",
    "splits": """
`python benchmarks/alarms.py --only splits`. What is left to chance is mostly the calibration, which a month of
traffic sees once. So every model is fitted and calibrated again, five times, on other rows of its source. Without
labelled domains, so only whether a shift is seen.
""",
    "changes": """
`python benchmarks/alarms.py --only changes`. First by the points of accuracy lost in the whole traffic of the
slice; then by the share that changed; by what changed; and all contenders on the same items.
""",
    "estimates": """
`python benchmarks/alarms.py --only estimates`. Each change as all of the traffic, in one long window of 1,800
items: the drop by its labels, and as it is estimated, in points. A page needs the lower bound above 5, an
estimate above 5 with an interval wider than 10, or a window outside what the reference domains showed.
""",
}
CLOSING = """
- **The budget is kept**: no shift was seen in any quiet month, of the first split or the others, nor before a
  change or beside it. It has its price: the bets are against a share of flagged items about twice what the
  p-values promise where those are calibrated on 360 texts, so a shift must flag more than that. With less
  allowance (1 in 1,000 instead of 1 in 100,000) and with bets on klm, whose templates are fitted on the rows
  that calibrate it, one calibration of 21 raised 12 false shifts.
- **To see that something changed, ADWIN is better.** With its defaults it raised no false alarm either, is
  about as fast, and sees more: 94 % of the harmful changes where ours sees 79 %, and most of the harmful
  changes of style, which ours mostly misses. It compares a stream with its own past, which needs no
  calibration; ours asks whether this is still the text that the model was trained on. A change so slow that
  the past follows it was not measured; ADWIN pages again when the traffic returns.
- **Few of our pages are for nothing, and many harms get none.** 2 % of the harmless changes and 4 % of the
  slight ones are paged, ADWIN pages for 23 % and 53 %. Of other domains that cost nothing ours pages for
  none, ADWIN for 64 %, a tuned threshold for 32 %. But ours pages for 45 % of the harmful ones only.
- **KSWIN, made strict, is a rival to the page**: 62 % of the harmful changes, 11 % of the slight and 1 % of
  the harmless ones, within 50 items where our page takes 1,400. It takes the size of a shift for its harm,
  which is often right between these domains: it pages for 23 % of the slight ones, and for no change of style
  that hurts. It has no drop to tell, cannot say when it is over, and by default raises an alarm every nine
  hundred items of quiet traffic.
- **A page needs a large loss, and time.** The lower bound must be above 5 points with a half width of about
  5, and the long window must have filled with the change. Of losses of 5 to 8 points hardly any is paged, of
  8 to 20 about three in four. *Shift seen* comes within a pane or two.
- **What the estimate gets wrong, the page gets wrong.** fdu_books is the worst target here as in
  [drop.md](drop.md): the imdb model loses 16 points on it and is estimated to gain 7.
- **Some changes of style hurt and are not seen.** Texts cut to two thirds cost up to 14 points and hardly
  move a p-value: each of them still looks like the source.
- **With three labelled domains nobody can tell.** The half width of the crisis models is tens of points. What
  is paged there is paged as *unknown*, and both harmless changes that were paged are theirs.
- **One change, one episode**, in every run that was paged.
- **A threshold on the OOD ratio** needs a value that only a month of quiet traffic tells: 10 % pages these
  ten models for nothing fifty times a day. One tuned for all models keeps the budget and sees 58 % of the
  harmful changes, as fast as ours, and pages for 36 % of the slight ones, up to 13 times a change. Tuned for
  each model on its own month it does not keep the budget in the next.
"""
