"""Errors of tensors on several devices, and of a GPU (BS228 to BS232): what only a device raises, by its text."""

from __future__ import annotations

from provoking import provokes


@provokes("BS228")
def a_tensor_of_another_device_for_numpy() -> None:
    raise TypeError(
        "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )


@provokes("BS228")
def an_operation_on_two_devices() -> None:
    raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!")


@provokes("BS228")
def an_index_of_another_device() -> None:
    raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")


@provokes("BS228")
def a_weight_of_another_device() -> None:
    raise RuntimeError("Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same")


@provokes("BS228")
def a_generator_of_another_device() -> None:
    raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")


@provokes("BS228")
def pinning_what_is_on_a_gpu() -> None:
    raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")


@provokes("BS228")
def an_operation_on_meta_and_another_device() -> None:
    raise RuntimeError("Tensor on device cpu is not on the expected device meta!")


@provokes("BS228")
def a_recurrent_layer_on_another_device() -> None:
    raise RuntimeError(
        "Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor at "
        "cuda:0"
    )


@provokes("BS228")
def the_same_device_is_expected_of_some() -> None:
    raise RuntimeError("Expected b and A to be on the same device, but found b on cpu and A on cuda:0 instead.")


@provokes("BS229")
def a_recurrent_layer_of_cudnn_in_evaluation_mode() -> None:
    raise RuntimeError("cudnn RNN backward can only be called in training mode")


@provokes("BS230")
def an_assertion_in_a_kernel() -> None:
    raise RuntimeError("CUDA error: device-side assert triggered")


@provokes("BS231")
def a_value_read_during_a_capture() -> None:
    raise RuntimeError("CUDA error: operation not permitted when stream is capturing")


@provokes("BS231")
def the_end_of_a_broken_capture() -> None:
    raise RuntimeError("CUDA error: operation failed due to a previous error during capture")


@provokes("BS231")
def the_legacy_stream_during_a_capture() -> None:
    raise RuntimeError("CUDA error: operation would make the legacy stream depend on a capturing blocking stream")


@provokes("BS232")
def no_memory_left() -> None:
    raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.18 GiB")
