"""What leaves the agent: Prometheus metrics and the HTTP pages. Knows only the frozen Report."""
