"""A gRPC origin without TLS: four methods that echo, in each of gRPC's four shapes, and one that fails."""

import sys
from concurrent import futures

import grpc


def unary(request, context):
    context.set_trailing_metadata((("x-trailer", "kept"),))
    return request


def split(request, context):
    for byte in request:
        yield bytes([byte])


def join(requests, context):
    return b"".join(requests)


def chat(requests, context):
    for request in requests:
        yield request


def fail(request, context):
    context.set_trailing_metadata((("x-why", "on purpose"),))
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no: ä")


METHODS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Split": grpc.unary_stream_rpc_method_handler(split),
    "Join": grpc.stream_unary_rpc_method_handler(join),
    "Chat": grpc.stream_stream_rpc_method_handler(chat),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
}

size = [("grpc.max_receive_message_length", 32 << 20), ("grpc.max_send_message_length", 32 << 20)]
server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), options=size)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tidegate.Echo", METHODS),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(f"listening on 127.0.0.1:{port}", flush=True)
# until whoever started this is gone
sys.stdin.read()
