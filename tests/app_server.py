"""The app on the embedded network, in a process of its own: it prints its address, and for each line that it reads, how
many visitors there are.
"""

import sys
import threading

from pgig.app.desk import Desk
from pgig.app.serve import serve
from pgig.app.truths import embedded_network


def main() -> None:
    desk = Desk([embedded_network()])

    def answer() -> None:
        for _ in sys.stdin:
            print(len(desk.visitors), flush=True)  # noqa: T201

    threading.Thread(target=answer, daemon=True).start()
    serve(desk, port=0, ready=lambda address: print(address, flush=True))  # noqa: T201


if __name__ == "__main__":
    main()
