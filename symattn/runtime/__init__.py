"""Run-time checks of shapes: the decorator `shapecheck`, and what belongs to it.

A call of a checked function is a system of equations between sizes: over all arguments, the result,
integer parameters and the sizes of the instance.  The decorator writes, once, the straight line of
comparisons that accepts a right call in well under a microsecond.  Whatever that line does not
accept goes the slow way, which alone decides: it reads every array, solves all equations at once,
and either lets the call through or says who is to blame.

The parts, each resting on those before it:

* `switch`: whether calls are checked at all, for the process, a block, or a thread;
* `declared`: from annotations, in all their spellings, to what a value is declared to be;
* `judging`: from the arrays of a call to sizes, or to the culprit and a fix;
* `generated`: the straight line, and the source around it;
* `checked`, `current`: the slow way of one function; what it bound, and for whom;
* `callables`, `building`, `wrappers`: from a function, or what holds one, to a checked one;
* `inside`: what a function body may ask: `bindings`, `expect`;
* `packages`: checks for all modules of a package.

Nothing here knows SymPy, and no array library is imported.
"""
