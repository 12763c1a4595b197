"""Exposes data files of PyPI packages in the venv to the build."""

_BUILD = """
package(default_visibility = ["//visibility:public"])

exports_files(["google/rpc/status.proto", "google/rpc/error_details.proto"])
"""

def _googleapis_repository_impl(repository_ctx):
    workspace = repository_ctx.path(Label("//:WORKSPACE")).dirname
    libraries = workspace.get_child(".venv").get_child("lib")
    if libraries.exists:
        for python in libraries.readdir():
            rpc = python.get_child("site-packages").get_child("google").get_child("rpc")
            if rpc.exists:
                for name in ["status.proto", "error_details.proto"]:
                    repository_ctx.symlink(rpc.get_child(name), "google/rpc/" + name)
                repository_ctx.file("BUILD", _BUILD)
                return
    fail("googleapis-common-protos not found in .venv: run ./dev setup")

googleapis_repository = repository_rule(
    implementation = _googleapis_repository_impl,
    local = True,
    doc = "google/rpc protos of the package googleapis-common-protos, as @googleapis.",
)
