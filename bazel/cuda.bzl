"""Wrappers for CUDA libraries that also build on machines without CUDA."""

load("@cuda//:defs.bzl", "NVCC")
load("//bazel:cc.bzl", "canopy_cc_binary", "canopy_cc_library", "canopy_cc_test")

# Compiler flags for compute capability 9.0 with Hopper's own instructions, and for 8.0 and newer.
_HOPPER = ["arch=compute_90a,code=sm_90a"]
_PORTABLE = ["arch=compute_80,code=[sm_80,compute_80]"]

def _cuda_objects_impl(ctx):
    headers = depset(
        ctx.files.hdrs,
        transitive = [dep[CcInfo].compilation_context.headers for dep in ctx.attr.deps],
    )
    objects = []
    for src in ctx.files.srcs:
        is_hopper = src in ctx.files.hopper_srcs
        out = ctx.actions.declare_file("%s/%s.o" % (ctx.label.name, src.basename))
        arguments = ctx.actions.args()
        arguments.add_all([ctx.attr.nvcc, "-c", src, "-o", out, "-I.", "-std=c++17", "-O3", "-Xptxas=-v"])
        arguments.add("-Xcompiler=-fPIC,-Wall,-Wextra,-Werror")
        arguments.add_all(_HOPPER if is_hopper else _HOPPER + _PORTABLE, format_each = "-gencode=%s")
        ctx.actions.run(
            executable = ctx.executable._nvcc_checked,
            arguments = [arguments],
            inputs = depset([src], transitive = [headers]),
            outputs = [out],
            mnemonic = "Nvcc",
            progress_message = "Compiling %s" % src.short_path,
            use_default_shell_env = True,
            # The temporary names of nvcc collide in the sandbox.
            execution_requirements = {"no-sandbox": "1"},
        )
        objects.append(out)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hopper_srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "nvcc": attr.string(),
        "_nvcc_checked": attr.label(
            default = "//bazel:nvcc_checked",
            executable = True,
            cfg = "host",
        ),
    },
)

def canopy_cuda_library(
        name,
        srcs,
        hdrs,
        hopper_srcs = [],
        device_hdrs = [],
        no_cuda_srcs = None,
        deps = [],
        **kwargs):
    """Defines a cc_library of CUDA sources, or of `no_cuda_srcs` if there is no nvcc.

    Args:
      name: the cc_library.
      srcs: .cu files for every supported device.
      hdrs: headers for users; plain C++.
      hopper_srcs: .cu files that only compile for compute capability 9.0.
      device_hdrs: .h and .cuh files that only `srcs` include.
      no_cuda_srcs: .cc files that define what `hdrs` declare, without CUDA; None: no target.
      deps: cc_libraries.
      **kwargs: visibility and the like.
    """
    deps = deps + ["@cuda//:runtime"]
    if not NVCC:
        if no_cuda_srcs != None:
            canopy_cc_library(name = name, srcs = no_cuda_srcs, hdrs = hdrs, deps = deps, **kwargs)
        return
    _cuda_objects(
        name = name + "_objects",
        srcs = srcs + hopper_srcs,
        hopper_srcs = hopper_srcs,
        hdrs = hdrs + device_hdrs,
        nvcc = NVCC,
        deps = deps,
    )
    native.cc_library(
        name = name,
        srcs = [":%s_objects" % name],
        hdrs = hdrs,
        linkstatic = True,
        deps = deps,
        **kwargs
    )

# These wrap plain C++ that calls the CUDA runtime. Without nvcc they define no targets.

def canopy_cuda_cc_library(name, deps = [], **kwargs):
    if NVCC:
        canopy_cc_library(name = name, deps = deps + ["@cuda//:runtime"], **kwargs)

def canopy_cuda_cc_binary(name, deps = [], **kwargs):
    if NVCC:
        canopy_cc_binary(name = name, deps = deps + ["@cuda//:runtime"], **kwargs)

def canopy_cuda_cc_test(name, deps = [], tags = [], **kwargs):
    """Defines a test that needs a GPU."""
    if NVCC:
        canopy_cc_test(name = name, deps = deps + ["@cuda//:runtime"], tags = tags + ["gpu"], **kwargs)
