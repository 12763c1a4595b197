"""Exposes an installed LibTorch (the PyTorch wheel) to the build.

LibTorch is in TORCH_HOME or, if that is unset, in the venv of `./dev setup`. Only the headers of
ATen, c10, caffe2 and torch are exposed, because the wheel also bundles old protobuf headers that
break generated code. libtorch_cuda is linked if it is installed, so that one binary can use both
CPU and CUDA.
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "torch",
    hdrs = glob([
        "include/ATen/**",
        "include/c10/**",
        "include/caffe2/**",
        "include/torch/**",
    ]),
    includes = ["include", "include/torch/csrc/api/include"],
    defines = [{defines}],
    linkopts = [
        "-L{lib}",
        "-Wl,-rpath,{lib}",
        "-Wl,--no-as-needed",
        "-ltorch_cpu",
        {cuda_linkopts}
        "-ltorch",
        "-lc10",
        "-Wl,--as-needed",
    ],
)
"""

def _torch_home(repository_ctx):
    home = repository_ctx.os.environ.get("TORCH_HOME", "")
    if home:
        return repository_ctx.path(home)
    workspace = repository_ctx.path(Label("//:WORKSPACE")).dirname
    libraries = workspace.get_child(".venv").get_child("lib")
    if libraries.exists:
        for python in libraries.readdir():
            torch = python.get_child("site-packages").get_child("torch")
            if torch.exists:
                return torch
    fail("LibTorch not found: run ./dev setup, or set TORCH_HOME to a torch package folder")

def _torch_repository_impl(repository_ctx):
    home = _torch_home(repository_ctx)
    lib = home.get_child("lib")
    if not lib.get_child("libtorch_cpu.so").exists:
        fail("no libtorch_cpu.so in %s" % lib)
    for folder in ["ATen", "c10", "caffe2", "torch"]:
        repository_ctx.symlink(home.get_child("include").get_child(folder), "include/" + folder)
    has_cuda = lib.get_child("libtorch_cuda.so").exists
    repository_ctx.file("BUILD", _BUILD.format(
        lib = lib,
        cuda_linkopts = '"-ltorch_cuda", "-lc10_cuda",' if has_cuda else "",
        defines = '"CANOPY_TORCH_HAS_CUDA"' if has_cuda else "",
    ))

torch_repository = repository_rule(
    implementation = _torch_repository_impl,
    environ = ["TORCH_HOME"],
    local = True,
    doc = "LibTorch from TORCH_HOME or .venv, as @torch//:torch.",
)
