"""Calls the methods of grpc_origin.py over TLS: grpc_client.py HOST:PORT CA_FILE NAME."""

import sys

import grpc

target, ca, name = sys.argv[1:]
with open(ca, "rb") as file:
    credentials = grpc.ssl_channel_credentials(file.read())
options = [
    ("grpc.ssl_target_name_override", name),
    ("grpc.max_receive_message_length", 32 << 20),
    ("grpc.max_send_message_length", 32 << 20),
]

with grpc.secure_channel(target, credentials, options) as channel:
    unary = channel.unary_unary("/tidegate.Echo/Unary")
    answer, call = unary.with_call(b"hello", timeout=20)
    assert answer == b"hello", answer
    assert ("x-trailer", "kept") in [(key, value) for key, value in call.trailing_metadata()], call.trailing_metadata()

    large = bytes(range(256)) * 4096 * 8
    assert unary(large, timeout=60) == large

    pieces = list(channel.unary_stream("/tidegate.Echo/Split")(b"abc", timeout=20))
    assert pieces == [b"a", b"b", b"c"], pieces

    joined = channel.stream_unary("/tidegate.Echo/Join")(iter([b"a", b"b", b"c"]), timeout=20)
    assert joined == b"abc", joined

    said = [str(number).encode() for number in range(100)]
    heard = list(channel.stream_stream("/tidegate.Echo/Chat")(iter(said), timeout=20))
    assert heard == said, heard

    try:
        channel.unary_unary("/tidegate.Echo/Fail")(b"", timeout=20)
        raise AssertionError("it should have failed")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.FAILED_PRECONDITION, error
        assert error.details() == "no: ä", error.details()
        assert ("x-why", "on purpose") in [(key, value) for key, value in error.trailing_metadata()], error

    # a service that the origin does not have, and of which the gate admits two calls
    codes = []
    for _ in range(4):
        try:
            channel.unary_unary("/tidegate.Limited/Unary")(b"", timeout=20)
        except grpc.RpcError as error:
            codes.append(error.code().name)
    print(*codes)

print("ok")
