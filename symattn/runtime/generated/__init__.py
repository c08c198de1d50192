"""The source of a checked function: the line of comparisons that accepts a right call at once.

* `straight`: from hints to statements and tests; it accepts no wrong call;
* `emit`: the source around it, for every kind of function;
* `accepted`: dtypes, as objects;
* `blocks`: source in blocks, and names that do not collide;
* `compiled`: where the source becomes a function.
"""
