"""Pure numerics: detectors, calibration, depth and metrics. No I/O, no clock, no configuration."""
