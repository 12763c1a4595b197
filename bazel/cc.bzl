"""The wrappers that every C++ target of ours uses, so that warnings, tags and test defaults are set once."""

_STRICT = ["-Werror", "-Werror=unused-result"]

# linkstatic everywhere: one object a source, and no shared library of ours that would lose the
# installed libraries it needs to --as-needed.

def canopy_cc_library(name, copts = [], **kwargs):
    """A cc_library with our warnings as errors."""
    native.cc_library(name = name, copts = _STRICT + copts, linkstatic = True, **kwargs)

def canopy_cc_binary(name, copts = [], **kwargs):
    """A cc_binary with our warnings as errors."""
    native.cc_binary(name = name, copts = _STRICT + copts, **kwargs)

def canopy_cc_test(name, copts = [], deps = [], size = "small", **kwargs):
    """A GoogleTest (main included). Tests that link LibTorch carry the tag `torch`."""
    native.cc_test(
        name = name,
        copts = _STRICT + copts,
        size = size,
        linkstatic = True,
        deps = deps + ["//third_party:gtest_main"],
        **kwargs
    )

def canopy_cc_benchmark(name, copts = [], deps = [], tags = [], **kwargs):
    """A Google Benchmark binary. Built by `./dev build`, run by `./dev bench`."""
    native.cc_binary(
        name = name,
        copts = _STRICT + copts,
        deps = deps + ["//third_party:benchmark"],
        tags = tags + ["bench"],
        **kwargs
    )
