"""What the GPUs do meanwhile: devices, sampler, energy and the exporter."""
