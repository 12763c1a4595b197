"""The wrappers that every C++ target of ours uses, so that warnings, tags and test defaults are set once."""

_STRICT = ["-Werror", "-Werror=unused-result"]

# linkstatic everywhere: one object a source, and no shared library of ours that would lose the
# installed libraries it needs to --as-needed.

# Most of a compile goes into headers of libraries: sources of one target that share a unit are compiled
# in a fraction of the time. More of them save little more, and what one change compiles again grows.
_MOST_SOURCES_TOGETHER = 8

# The lines that compilers, sanitizers and tests report are those of the sources. g++ takes a source
# that #line names for a header, and warns of unnamed namespaces in headers.
_UNIT = """
(
  echo '#pragma GCC diagnostic ignored "-Wsubobject-linkage"'
  for source in $(SRCS); do
    echo "#line 1 \\"$$source\\""
    {print_source}
  done
) > $@
"""
_PRINT = "cat $$source"

# A test's names are of no use outside its file, so each file of a unit gets a namespace of its own.
_PRINT_ISOLATED = """
    name=$$(basename $$source .cc)
    sed -e "s/^\\(namespace canopy[a-z_:]*\\) {$$/\\1 { namespace $$name {/" \\
        -e "s/^}  \\/\\/ namespace canopy/} &/" $$source
"""

def _units(name, srcs, alone, isolate):
    """Sources with most .cc files replaced by generated units of several.

    Args:
      name: the target's name, a prefix of the generated ones.
      srcs: its sources.
      alone: those of srcs that do not compile after others.
      isolate: whether each file gets its own namespace in its unit.
    """
    result = [src for src in srcs if not src.endswith(".cc") or src in alone]
    together = [src for src in srcs if src not in result]
    for start in range(0, len(together), _MOST_SOURCES_TOGETHER):
        part = together[start:start + _MOST_SOURCES_TOGETHER]
        if len(part) == 1:
            result += part
            continue
        unit = "%s_unit%d" % (name, start // _MOST_SOURCES_TOGETHER)
        native.genrule(
            name = unit,
            srcs = part,
            outs = [unit + ".cc"],
            cmd = _UNIT.replace("{print_source}", _PRINT_ISOLATED if isolate else _PRINT),
            tags = ["manual"],
            visibility = ["//visibility:private"],
        )
        result.append(unit + ".cc")
    return result

def canopy_cc_library(name, srcs = [], alone = [], copts = [], **kwargs):
    """A cc_library with our warnings as errors.

    Under a sanitizer its sources are compiled in units of several.

    Args:
      name: the library.
      srcs: its sources.
      alone: those of them that never share a unit, for instance because names clash.
      copts: further flags.
      **kwargs: as for cc_library.
    """
    native.cc_library(
        name = name,
        srcs = select({
            "//bazel:sanitized": _units(name, srcs, alone, isolate = False),
            "//conditions:default": srcs,
        }),
        copts = _STRICT + copts,
        linkstatic = True,
        **kwargs
    )

def canopy_cc_binary(name, copts = [], **kwargs):
    """A cc_binary with our warnings as errors."""
    native.cc_binary(name = name, copts = _STRICT + copts, **kwargs)

def canopy_cc_test(name, srcs, alone = [], copts = [], deps = [], size = "small", **kwargs):
    """A GoogleTest (main included). Tests that link LibTorch carry the tag `torch`.

    Under a sanitizer its sources are compiled in units of several, those in `alone` aside. The
    ordinary build compiles each file alone: a unit would hide an include that its neighbours have.
    """
    native.cc_test(
        name = name,
        srcs = select({
            "//bazel:sanitized": _units(name, srcs, alone, isolate = True),
            "//conditions:default": srcs,
        }),
        copts = _STRICT + ["-include", "base/testing/namespace.h"] + copts,
        size = size,
        linkstatic = True,
        deps = deps + ["//base/testing:namespace", "//third_party:gtest_main"],
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
