"""Answer ModelInfer on the null server's event loop."""

import asyncio
from typing import TYPE_CHECKING, Any

from loadtest.grpc_wire import LARGEST_MESSAGE, METHOD
from loadtest.nullmodel import NullModel, size
from loadtest.payload import VARYING_LENGTH

if TYPE_CHECKING:
    from loadtest.nullserver import Desk


async def listen(model: NullModel, desk: "Desk") -> tuple[Any, int]:
    """Start to serve gRPC on a free loopback port; return the server, which stops when nobody keeps it, and the port."""
    import grpc
    import tritonclient.grpc  # noqa: F401 (before the first request, which would wait for it)

    async def infer(request: bytes, _context: Any) -> bytes:
        return await _infer(model, desk, request)

    service, method = METHOD.strip("/").split("/")
    handlers = {method: grpc.unary_unary_rpc_method_handler(infer)}
    options = [("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.max_send_message_length", LARGEST_MESSAGE)]
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = int(server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    return server, port


async def _infer(model: NullModel, desk: "Desk", request: bytes) -> bytes:
    from tritonclient.grpc import service_pb2

    name = service_pb2.ModelInferRequest.FromString(request).model_name
    served: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
    desk.accept(lambda queue_ns, execution_ns: None if served.done() else served.set_result((queue_ns, execution_ns)))
    return _answer(model, name, *await served)


def _answer(model: NullModel, name: str, queue_ns: int, execution_ns: int) -> bytes:
    from tritonclient.grpc import service_pb2

    response = service_pb2.ModelInferResponse(model_name=name)
    response.parameters["arm"].string_param = name
    for key, value in (("batch_size", model.items), ("queue_ns", queue_ns), ("execution_ns", execution_ns)):
        response.parameters[key].int64_param = value
    for tensor in model.metadata.outputs:
        response.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.concrete(model.items, VARYING_LENGTH))
        response.raw_output_contents.append(bytes(size(tensor, model.items)))
    return bytes(response.SerializeToString())
