"""Who is told of episodes: Grafana, and Alertmanagers. Telling never holds the scoring up."""
