"""What vLLM's log says when a start fails, for the stub to say it too."""

FAILURES = {
    "out_of_memory": "ERROR [core.py:99] torch.OutOfMemoryError: CUDA out of memory.",
    "device_occupied": (
        "ValueError: Free memory on device cuda:0 (1.0/80.0 GiB) on startup is less than desired "
        "GPU memory utilization (0.92, 73.6 GiB)."
    ),
    "port_taken": "OSError: [Errno 98] Address already in use",
    "kv_cache_too_small": (
        "ValueError: To serve at least one request with the model's max seq len (2048), (1.0 GiB "
        "KV cache is needed, which is larger than the available KV cache memory (0.5 GiB)."
    ),
    "weights_corrupt": "safetensors_rust.SafetensorError: Error while deserializing header",
    "unknown": "KeyError: 'something else'",
}
