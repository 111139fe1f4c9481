"""Latency of many connections, of which few have a request at a time, beside few at the same rate."""

import statistics

from benches.load import fill_strings, load
from benches.servers import Server, in_turns, say, spread, title

CLIENTS = (50, 10_000)


def measure(options):
    """By contender and clients: the percentiles of each round."""
    results = {}
    for turn in range(options.rounds):
        for name in in_turns(options.contenders, turn):
            server = Server(name, options, ["--maxclients", "20000"])
            try:
                fill_strings(server, options)
                for clients in CLIENTS:
                    words = ["--rate", options.rate, "--clients", clients, "--keys", options.keys,
                             "--value-size", options.value_size, "--ratio", "1:1",
                             "--duration", f"{round(options.idle_seconds * 1000)}ms"]
                    if name == options.contenders[0]:
                        words += ["--null-server"]
                    report = load(server, options, *words)
                    if report.get("floor"):
                        floors = results.setdefault("null", {}).setdefault(str(clients), [])
                        floors.append(report["floor"]["latency"])
                    one = next(it for it in report["phases"] if it["phase"] == "normal")
                    by_clients = results.setdefault(name, {})
                    by_clients.setdefault(str(clients), []).append(one["latency"])
            finally:
                server.stop()
        say(f"connections: round {turn + 1} of {options.rounds}")
    return results


def report(results, options):
    print(f"\n## Connections: SET and GET in turns, {options.rate:,}/s in all, "
          f"{options.keys:,} keys of {options.value_size} bytes\n")
    print("| server | connections | p50, us | p99, us | p99 to that of few | max, ms |\n|---|---|---|---|---|---|")
    for name, by_clients in results.items():
        if len(by_clients) < len(CLIENTS):
            continue  # the null server lies in the load's process, and both need descriptors
        few = [one["p99_us"] for one in by_clients[str(CLIENTS[0])]]
        for clients, rounds in by_clients.items():
            many = [one["p99_us"] for one in rounds]
            ratio = statistics.median(many) / statistics.median(few)
            print(f"| {title(name)} | {int(clients):,} | {spread([one['p50_us'] for one in rounds])} "
                  f"| {spread(many)} | {ratio:.2f} "
                  f"| {spread([one['max_us'] / 1000 for one in rounds], '{:.1f}')} |")
