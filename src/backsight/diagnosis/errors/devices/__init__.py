"""BS228: tensors of one operation are on different devices."""

from __future__ import annotations

import re

from backsight.diagnosis.errors.devices.operands import of_operands
from backsight.diagnosis.errors.devices.others import of_generator, of_loader, of_numpy, of_state
from backsight.diagnosis.errors.registry import explains
from backsight.diagnosis.finding import Finding
from backsight.story.failure import Failure, message_of

_TYPES = r"[Ii]nput type \((?P<given>\S+?)\) and (?:weight|bias) type \((?P<own>\S+?)\) should be the same"


def _is_of_devices(error: BaseException) -> bool:
    """Whether it is: two types may differ in their device, and in their dtype alone."""
    types = re.search(_TYPES, message_of(error))
    return types is None or _device(types["given"]) != _device(types["own"])


def _device(tensor_type: str) -> str:
    """`torch.cuda.` of `torch.cuda.FloatTensor`, `CUDA` of `CUDAFloatType`; empty for the CPU or a dtype alone."""
    found = re.fullmatch(r"(?:torch\.)?((?:\w+\.)*[A-Z]*?)(?:BFloat|[A-Z][a-z]+)\d*(?:Tensor|Type)", tensor_type)
    return found[1] if found else ""


@explains(
    "BS228",
    r"[Ee]xpected (?:all )?tensors to be on the same device",
    r"indices should be either on \S+ or on the same device as the indexed tensor \((?P<indexed>[\w:]+)\)",
    _TYPES,
    r"Expected a '(?P<wanted>\w+)' device type for generator but found '(?P<found>\w+)'",
    r"cannot pin '(?P<pinned>[^']+)' only dense CPU tensors can be pinned",
    r"can't convert (?P<numpy>\S+) device type tensor to numpy",
    r"Tensor on device (?P<one>[\w:]+) is not on the expected device (?P<other>[\w:]+)",
    r"tensors are not at the same device, found input tensor at",
    r"(?:[Ee]xpected|must|should|needs?)\b[^\n]*\b(?:be|are|on|in|at|have) (?:the )?same device\b",
    when=_is_of_devices,
)
def devices(failure: Failure, match: re.Match[str]) -> Finding:
    """Say which tensor is not where the others are, the line that made it, and how to move it."""
    said = match.groupdict()
    if said.get("wanted"):
        return of_generator(failure, str(said["wanted"]), str(said["found"]))
    if said.get("pinned"):
        return of_loader(failure)
    if said.get("numpy"):
        return of_numpy(failure, str(said["numpy"]))
    return of_state(failure) or of_operands(failure, said.get("indexed"))
