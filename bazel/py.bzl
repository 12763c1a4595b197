"""A wrapper for Python tests that run with the venv of `./dev setup`."""

def venv_py_test(name, main, srcs = [], args = [], data = [], **kwargs):
    """Runs `main` (a unittest file) with .venv's Python.

    Args:
      name: the test.
      main: the Python file to run.
      srcs: further Python files that `main` imports from its own folder.
      args: arguments of `main`.
      data: files that `main` reads.
      **kwargs: size, tags and the like.
    """
    native.sh_test(
        name = name,
        srcs = ["//bazel:venv_python.sh"],
        args = ["$(location %s)" % main] + args,
        data = [main] + srcs + data,
        **kwargs
    )
