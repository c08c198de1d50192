"""What is declared of a function's values: from annotations and specs, in all spellings, to hints.

Read `hints` first: a hint is a tree whose leaves are arrays with a shape, and it finds all arrays
that a value holds.  The others, each resting on those before it:

* `kinds`, `phrases`: what an array class and a dtype are, in any library; how a value is said;
* `containers`, `defaults`: hints of tuples, lists, mappings, records, parameters with defaults;
* `annotations`: the annotations of a function, every name in them resolved;
* `aliases`, `records`, `plain`, `seeking`, `reading`: from one annotation to its hint;
* `questions`: what else is asked of hints when a function is decorated;
* `spelled`: `M[d_k, n]`.
"""
