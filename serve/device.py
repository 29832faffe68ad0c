"""Find out which device a replica runs on."""

import os


def device_of(is_cpu: bool) -> str:
    """Return the torch device of this replica: Ray shows a replica only the GPUs it reserved for it."""
    return "cpu" if is_cpu else "cuda:0"


def gpu_uuid(is_cpu: bool) -> str | None:
    """Return the UUID of this replica's GPU as NVML writes it, or None on a CPU pool."""
    if is_cpu:
        return None
    import torch

    return f"GPU-{torch.cuda.get_device_properties(0).uuid}"


def limit_threads(threads: int) -> None:
    """Keep numeric libraries that load later within an arm's own threads."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(threads)
