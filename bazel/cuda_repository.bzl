"""Exposes an installed CUDA compiler and runtime to the build, if there is one.

The rule looks for nvcc in the venv (packages of requirements-cuda.txt), then in CUDA_HOME. Without
nvcc, `NVCC` in @cuda//:defs.bzl is empty and canopy_cuda_library builds its no_cuda_srcs.
CANOPY_REQUIRE_CUDA=1 (configuration `cuda`) makes a missing nvcc an error.
"""

_RUNTIME = """
cc_library(
    name = "runtime",
    hdrs = glob(["include/*.h", "include/*.hpp", "include/crt/**"]),
    includes = ["include"],
    linkopts = [{linkopts}],
)
"""

_NO_RUNTIME = """
alias(
    name = "runtime",
    actual = "@canopy//kernels/no_cuda:cuda_runtime_api",
)
"""

def _has_headers(home):
    # LibTorch's CUDA runtime package lacks the crt headers that its headers include.
    include = home.get_child("include")
    return (include.get_child("cuda_runtime_api.h").exists and
            include.get_child("crt").get_child("host_defines.h").exists)

def _candidates(repository_ctx):
    """Returns folders that look like a CUDA installation."""
    found = []
    workspace = repository_ctx.path(Label("//:WORKSPACE")).dirname
    libraries = workspace.get_child(".venv").get_child("lib")
    if libraries.exists:
        for python in libraries.readdir():
            found.append(python.get_child("site-packages").get_child("nvidia").get_child("cu13"))
    home = repository_ctx.os.environ.get("CUDA_HOME", "")
    if home:
        found.append(repository_ctx.path(home))
    return [path for path in found if _has_headers(path)]

def _static_runtime(home):
    for folder in ["lib", "lib64"]:
        library = home.get_child(folder).get_child("libcudart_static.a")
        if library.exists:
            return library
    return None

def _cuda_repository_impl(repository_ctx):
    homes = _candidates(repository_ctx)
    compilers = [home for home in homes if home.get_child("bin").get_child("nvcc").exists and _static_runtime(home)]
    nvcc = ""
    build = "package(default_visibility = [\"//visibility:public\"])\n"
    if compilers:
        home = compilers[0]
        # The path is relative, so that commands are the same in every checkout and their results
        # can be shared.
        repository_ctx.symlink(home, "home")
        nvcc = "external/cuda/home/bin/nvcc"
        repository_ctx.symlink(home.get_child("include"), "include")
        linkopts = [str(_static_runtime(home)), "-ldl", "-lrt", "-lpthread"]
        build += _RUNTIME.format(linkopts = ", ".join(["\"%s\"" % option for option in linkopts]))
    elif homes:
        # Only the headers are available.
        repository_ctx.symlink(homes[0].get_child("include"), "include")
        build += _RUNTIME.format(linkopts = "")
    else:
        build += _NO_RUNTIME
    if not nvcc and repository_ctx.os.environ.get("CANOPY_REQUIRE_CUDA", "") == "1":
        fail("nvcc not found: pip install --no-deps -r requirements-cuda.txt, or set CUDA_HOME")
    repository_ctx.file("BUILD", build)
    repository_ctx.file("defs.bzl", "NVCC = \"%s\"\n" % nvcc)

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    environ = ["CUDA_HOME", "CANOPY_REQUIRE_CUDA"],
    local = True,
    doc = "CUDA from .venv or CUDA_HOME, as @cuda//:runtime and NVCC in @cuda//:defs.bzl.",
)
