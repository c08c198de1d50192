"""From the arrays of a call to the sizes of its tags, or to the culprit and a fix.

Read `equations` first: an axis that is declared as `h*d_k` and has 12 entries is an equation.

* `equations`: all equations of a call solved together, or no solution;
* `choosing`: which of several types a value is read as, where a union leaves the choice;
* `alike`, `culprits`: the fewest arguments without which the rest fits;
* `remedies`: changes that were tried, and make the call fit;
* `wording`, `rows`, `explanation`: the error, composed.
"""
