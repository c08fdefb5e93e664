"""The process: configuration, records, encoder, reference, windows, the loop and the command line."""
