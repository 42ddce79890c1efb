"""grpc.reflection v1 and v1alpha: the list of services, and their proto files.

Clients such as grpcurl request them. The messages of both versions differ only in the name of
their package; v1alpha's messages serve both.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import Default
from google.protobuf.text_format import MessageToString, Parse
from grpc_reflection.v1alpha import reflection_pb2 as pb

from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.service import Service, method, refuse_plainly

NOT_FOUND: Final = pb.ErrorResponse(error_code=5, error_message="not found")
UNIMPLEMENTED: Final = pb.ErrorResponse(error_code=12, error_message="unsupported request")

NAMES: Final = ("grpc.reflection.v1alpha.ServerReflection", "grpc.reflection.v1.ServerReflection")
RENAMED: Final = {"pocketmq.rocketmq.v2": ("pocketmq/rocketmq", "apache/rocketmq")}
"""Protobuf package -> (part of its file names, the text that replaces it for clients)."""
_SERVICE: Final = pb.DESCRIPTOR.services_by_name["ServerReflection"]


class Reflection:
    """Answers reflection requests about a set of services.

    Cost   the first request takes some 40 ms, in which the descriptors are built
    """

    __slots__ = ("_answers", "_known", "_names", "_pool", "_renamed", "_undescribed")

    def __init__(self, services: Sequence[Service]) -> None:
        self._names = sorted([*(service.name for service in services), *NAMES])
        assert len(self._names) == len(set(self._names)), "service listed twice"
        self._known: dict[str, list[bytes]] = {}
        """File name -> the file and all its imports, encoded; 1 ms to build."""
        self._renamed: dict[str, list[bytes]] = {}
        """Package name that clients use -> the package's renamed file, and its imports."""
        self._undescribed = [*services]
        """Services whose descriptors are not built yet."""
        self._pool: Any = Default()
        self._answers: dict[str, Callable[[Any], pb.ServerReflectionResponse]] = {
            "list_services": self._listed,
            "file_by_filename": lambda asked: self._files(
                self._pool.FindFileByName, asked.file_by_filename
            ),
            "file_containing_symbol": self._symbol,
            "file_containing_extension": self._extension,
            "all_extension_numbers_of_type": self._extension_numbers,
        }

    def services(self) -> list[Service]:
        """Returns the services of both versions."""
        row = method(_SERVICE, "ServerReflectionInfo", self.info, CallClass.PROBE)
        return [Service(name, (row,), refuse_plainly) for name in NAMES]

    async def info(self, requests: AsyncIterator[Any], call: Call) -> AsyncIterator[Any]:
        """Answers requests one after the other."""
        async for request in requests:
            answer = self._answer(request)
            answer.original_request.CopyFrom(request)
            yield answer
            del request, answer

    def _answer(self, request: pb.ServerReflectionRequest) -> pb.ServerReflectionResponse:
        if self._undescribed:
            self._describe()
        answer = self._answers.get(request.WhichOneof("message_request") or "")
        if answer is None:
            return pb.ServerReflectionResponse(error_response=UNIMPLEMENTED)
        try:
            return answer(request)
        except KeyError:
            return pb.ServerReflectionResponse(error_response=NOT_FOUND)

    def _listed(self, request: Any) -> pb.ServerReflectionResponse:
        found = [pb.ServiceResponse(name=name) for name in self._names]
        return pb.ServerReflectionResponse(
            list_services_response=pb.ListServiceResponse(service=found)
        )

    def _describe(self) -> None:
        for service in self._undescribed:
            self._describe_renamed(service)
        _describe_newer(self._pool)
        self._undescribed.clear()

    def _describe_renamed(self, service: Service) -> None:
        """Renames the file of a service whose messages have another package in clients.

        The renamed file is not added to protobuf's pool: an official client may register its
        own file there.
        """
        if not service.methods:
            return
        file: Any = service.methods[0].request.DESCRIPTOR.file
        package = service.name.rpartition(".")[0]
        if file.package == package or file.package not in RENAMED:
            return
        files: dict[str, bytes] = {}
        _collect(file, files)
        proto = FileDescriptorProto.FromString(files.pop(file.name))
        text = MessageToString(proto).replace(file.package, package)
        named = Parse(text, FileDescriptorProto())
        named.name = file.name.replace(*RENAMED[file.package])
        self._renamed[package] = [named.SerializeToString(), *files.values()]

    def _symbol(self, request: Any) -> pb.ServerReflectionResponse:
        name = request.file_containing_symbol
        for package, files in self._renamed.items():
            if name.startswith(f"{package}."):
                return _described(files)
        return self._files(self._pool.FindFileContainingSymbol, name)

    def _files(
        self, find: Callable[[str], FileDescriptor], name: str
    ) -> pb.ServerReflectionResponse:
        file = find(name)
        known = self._known.get(file.name)
        if known is None:
            files: dict[str, bytes] = {}
            _collect(file, files)
            known = self._known[file.name] = list(files.values())
        return _described(known)

    def _extension(self, request: Any) -> pb.ServerReflectionResponse:
        asked = request.file_containing_extension
        extended = self._pool.FindMessageTypeByName(asked.containing_type)
        found = self._pool.FindExtensionByNumber(extended, asked.extension_number)
        return self._files(lambda name: found.file, found.full_name)

    def _extension_numbers(self, request: Any) -> pb.ServerReflectionResponse:
        name = request.all_extension_numbers_of_type
        found = self._pool.FindAllExtensions(self._pool.FindMessageTypeByName(name))
        numbers = sorted(extension.number for extension in found)
        return pb.ServerReflectionResponse(
            all_extension_numbers_response=pb.ExtensionNumberResponse(
                base_type_name=name, extension_number=numbers
            )
        )


def _described(files: list[bytes]) -> pb.ServerReflectionResponse:
    return pb.ServerReflectionResponse(
        file_descriptor_response=pb.FileDescriptorResponse(file_descriptor_proto=files)
    )


def _describe_newer(pool: Any) -> None:
    """Adds v1's file to the pool, for clients that request the reflection service itself."""
    try:
        pool.FindFileContainingSymbol(NAMES[1])
    except KeyError:
        proto = FileDescriptorProto()
        pb.DESCRIPTOR.CopyToProto(proto)
        text = MessageToString(proto).replace("v1alpha", "v1")
        pool.Add(Parse(text, FileDescriptorProto()))


def _collect(file: FileDescriptor, into: dict[str, bytes]) -> None:
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    into[file.name] = proto.SerializeToString()
    for other in file.dependencies:
        if other.name not in into:
            _collect(other, into)
