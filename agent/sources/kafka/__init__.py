"""Records from Kafka, as a member of a consumer group.

One thread owns kafka-python's consumer and polls it for ever (`reader`); the loop takes what it read from a queue
that is bounded in bytes (`desk`). The state store is the truth about positions; what the broker has committed is a
note for other replicas and for lag tools (`placing`).
"""
