"""Generates C++ code from .proto files with the installed protoc and gRPC plug-in."""

def cc_proto(name, protos, import_root, grpc_protos = [], imports = [], import_flags = [], deps = [], **kwargs):
    """Generates messages for `protos` and services for `grpc_protos` into one cc_library.

    Args:
      name: the cc_library.
      protos: .proto files, as paths relative to `import_root`.
      import_root: a folder of this package, to which import lines are relative.
      grpc_protos: the files of `protos` that declare services.
      imports: labels of further .proto files that are imported.
      import_flags: further -I flags of protoc, with locations of `imports`.
      deps: cc_library of the imported protos.
      **kwargs: visibility and the like.
    """
    outs = []
    for proto in protos:
        outs += [proto[:-len(".proto")] + suffix for suffix in [".pb.h", ".pb.cc"]]
    for proto in grpc_protos:
        outs += [proto[:-len(".proto")] + suffix for suffix in [".grpc.pb.h", ".grpc.pb.cc"]]
    flags = " ".join(["-I%s" % import_root] + import_flags)
    commands = ["protoc %s --cpp_out=$(RULEDIR) %s" % (flags, " ".join(protos))]
    if grpc_protos:
        commands.append(
            "protoc %s --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin --grpc_out=$(RULEDIR) %s" %
            (flags, " ".join(grpc_protos)),
        )
    native.genrule(
        name = name + "_generated",
        srcs = protos + imports,
        outs = outs,
        cmd = " && ".join(commands),
    )
    native.cc_library(
        name = name,
        srcs = [out for out in outs if out.endswith(".cc")],
        hdrs = [out for out in outs if out.endswith(".h")],
        includes = ["."],
        linkstatic = True,
        deps = deps + ["//third_party:protobuf"] + (["//third_party:grpc"] if grpc_protos else []),
        **kwargs
    )
