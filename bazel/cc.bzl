"""Wrappers for all C++ targets of this repository, which set warnings, tags and test defaults."""

_STRICT = ["-Werror", "-Werror=unused-result"]

# linkstatic is set everywhere. It avoids shared libraries of our own, which would lose the
# installed libraries they need to --as-needed.

# Most of the compile time is spent on headers of libraries, so sources of one target that are
# compiled as one unit take a fraction of the time. With larger units, a change would recompile more
# and little more time would be saved.
_MOST_SOURCES_TOGETHER = 8

# #line makes compilers, sanitizers and tests report the lines of the sources. g++ then treats a
# source as a header and would warn about unnamed namespaces in it.
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

# Names in a test are only used in its own file, so each file of a unit gets its own namespace.
_PRINT_ISOLATED = """
    name=$$(basename $$source .cc)
    sed -e "s/^\\(namespace canopy[a-z_:]*\\) {$$/\\1 { namespace $$name {/" \\
        -e "s/^}  \\/\\/ namespace canopy/} &/" $$source
"""

def _units(name, srcs, alone, isolate):
    """Returns the sources, with most .cc files replaced by generated units of several files.

    Args:
      name: the target's name, and the prefix of the generated names.
      srcs: sources of the target.
      alone: sources that are never part of a unit.
      isolate: True gives each file its own namespace within its unit.
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
    """Defines a cc_library with our warnings as errors.

    Under a sanitizer several sources are compiled as one unit.

    Args:
      name: the library.
      srcs: sources of the library.
      alone: sources that are never part of a unit, for instance because names clash.
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
    """Defines a cc_binary with our warnings as errors."""
    native.cc_binary(name = name, copts = _STRICT + copts, **kwargs)

def canopy_cc_test(name, srcs, alone = [], copts = [], deps = [], size = "small", **kwargs):
    """Defines a GoogleTest with a main function. Tests that link LibTorch need the tag `torch`.

    Under a sanitizer several sources, except those in `alone`, are compiled as one unit. The
    ordinary build compiles each file alone, because a unit would hide missing includes.
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
    """Defines a Google Benchmark binary. `./dev build` builds it and `./dev bench` runs it."""
    native.cc_binary(
        name = name,
        copts = _STRICT + copts,
        deps = deps + ["//third_party:benchmark"],
        tags = tags + ["bench"],
        **kwargs
    )
