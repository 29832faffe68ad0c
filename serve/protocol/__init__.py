"""The wire: Open Inference Protocol v2 over HTTP and gRPC; knows no Ray."""
