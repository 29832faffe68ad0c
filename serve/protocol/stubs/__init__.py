"""Python modules generated from `serve/protocol/inference.proto` by `make stubs`."""
