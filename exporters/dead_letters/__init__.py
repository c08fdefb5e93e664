"""Where messages go of which no record can be made: a file, or a topic of a Kafka cluster."""
