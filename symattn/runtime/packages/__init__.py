"""Checks for all modules of a package, without a decorator in any of them.

* `rewriting`: the syntax tree of a module, with decorators added;
* `importing`: the import hook;
* `pytest_plugin`: the option that installs it for a test run.
"""
