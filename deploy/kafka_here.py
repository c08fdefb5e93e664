"""A Kafka broker on this machine, to try the agent on: `make kafka`, or `make kafka TOPIC=name`.

It is the broker of the tests, on Kafka's usual port; its records are gone when it stops.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

from agent.errors import LeadlineError
from tests.kafka_broker import Broker

PORT = 9092


def main() -> int:
    """Serve until Ctrl-C, or until the broker ends by itself."""
    topic = sys.argv[1] if len(sys.argv) > 1 else "leadline"
    # A service manager's way to say stop ends the same way as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="leadline-kafka-") as directory:
            broker = Broker(Path(directory), port=PORT)
            with broker:
                broker.create_topic(topic)
                print(f"Kafka answers at {broker.bootstrap} and has the topic {topic}.")
                print(f"Point the agent at it: brokers {broker.bootstrap}, topic {topic}, no password.")
                print("Ctrl-C stops it and deletes its records.", flush=True)
                broker.wait()
                print(f"The broker ended; its last lines:\n{broker.end_of_log()}", file=sys.stderr)
                return 1
    except KeyboardInterrupt:
        return 0
    except LeadlineError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
