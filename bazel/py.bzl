"""Python tests that run with the venv of `./dev setup`."""

def venv_py_test(name, main, srcs = [], data = [], **kwargs):
    """Runs `main` (a unittest file) with .venv's Python.

    Args:
      name: the test.
      main: the file that runs.
      srcs: further Python files that it imports from its own folder.
      data: files that it reads.
      **kwargs: size, tags and the like.
    """
    native.sh_test(
        name = name,
        srcs = ["//bazel:venv_python.sh"],
        args = ["$(location %s)" % main],
        data = [main] + srcs + data,
        **kwargs
    )
