"""Payload formats: one file a format, one row a format in `formats.FORMATS`."""
